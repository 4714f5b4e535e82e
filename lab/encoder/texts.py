"""Makes texts that are true of a clip, with their frames, and texts that are false by other colours and counts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from random import Random

from lab.demo.describe import format_sentence
from lab.demo.wording import COLOUR_WORDS, NUMBERS, VOICES
from lab.demo.world import BACKDROP_COLOURS, COLOURS, ClipStatement, DemoClip, Looks
from metrics_core.keywords import list_phrases

WORDINGS = 3  # draws per voice and fact, enough to meet nearly all wordings of the fact
COLOUR_NAMES = frozenset({*COLOURS, *(name for names in COLOUR_WORDS.values() for name in names.values())})
FAMILIES = (sorted(COLOUR_NAMES), sorted(BACKDROP_COLOURS), [NUMBERS[n] for n in (2, 3, 4)])

Facts = tuple[ClipStatement, ...]


@dataclass(frozen=True)
class Statement:
    """All texts that state one thing: sentences in all voices and their keywords, with the frames that show it."""

    start: int
    end: int
    sentences: tuple[str, ...]
    phrases: tuple[str, ...]


def statements(clip: DemoClip) -> tuple[Statement, ...]:
    """Make the clip's statements in the order of its moments. Pattern and palette are one statement."""
    pattern, palette, *rest = clip.list_moments()
    told: list[tuple[int, int, tuple[Facts, ...]]] = [
        (0, clip.n_frames, ((pattern.statement, palette.statement), (pattern.statement,), (palette.statement,)))
    ]
    told += [(moment.start, moment.end, ((moment.statement,),)) for moment in rest]
    return tuple(_statement(start, end, groups) for start, end, groups in told)


@lru_cache(maxsize=4096)
def looks_phrases(looks: Looks) -> tuple[str, ...]:
    """List the keywords that name an actor, in all voices, such as "red circle", "red disc", "red round disc"."""
    ending = ClipStatement("remains", others=(looks,))
    return tuple(phrase for phrase in _phrases(_sentences((ending,))) if COLOUR_NAMES & set(phrase.split()))


def altered(text: str, taken: frozenset[str], rng: Random) -> str | None:
    """Give the text other colours and counts, which make it false; None where it names neither.

    taken: words of the clip. They are never used as new colours, because these might be true of the clip, too.

    >>> altered("Two red stars leave.", frozenset({"red"}), Random(0)).split()[2:]
    ['stars', 'leave.']
    """
    words, changed = text.split(" "), {}
    for index, token in enumerate(words):
        name = token.lower().strip(".,")
        family = next((names for names in FAMILIES if name in names), None)
        # A frame does not show how often something happens.
        if family is None or words[index + 1 : index + 2] in (["times"], ["times."]):
            continue
        others = [other for other in family if other != name and (family is FAMILIES[2] or other not in taken)]
        if name not in changed and others:
            changed[name] = rng.choice(others)
        new = changed.get(name, name)
        words[index] = token.lower().replace(name, new)
    return " ".join(words) if changed else None


def _statement(start: int, end: int, groups: tuple[Facts, ...]) -> Statement:
    sentences = tuple(sentence for facts in groups for sentence in _sentences(facts))
    return Statement(start, end, sentences, _phrases(sentences))


def _sentences(facts: Facts) -> tuple[str, ...]:
    """All wordings of a sentence. Two voices tell pattern and palette in one sentence, the other two in two."""
    voices: tuple[str, ...] = VOICES
    if facts[0].kind in ("pattern", "palette"):
        voices = ("annotator_a", "faithful") if len(facts) == 2 else ("annotator_b", "keypoint")
    return tuple(sorted({format_sentence(facts, voice, Random(draw)) for voice in voices for draw in range(WORDINGS)}))


def _phrases(sentences: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted({phrase for sentence in sentences for phrase in _keywords(sentence)}))


@lru_cache(maxsize=100_000)
def _keywords(sentence: str) -> tuple[str, ...]:
    return tuple(list_phrases(sentence))
