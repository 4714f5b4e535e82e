"""Texts that are true of a clip, with the frames they are true of, and texts made false by other colours and counts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from random import Random

from demo.describe import word
from demo.wording import COLOUR_WORDS, NUMBERS, VOICES
from demo.world import BACKDROP_COLOURS, COLOURS, Clip, Fact, Looks
from metrics_core.keywords import RuleKeywords

WORDINGS = 3  # draws per voice and fact: enough to meet nearly all of its wordings
COLOUR_NAMES = frozenset({*COLOURS, *(name for names in COLOUR_WORDS.values() for name in names.values())})
FAMILIES = (sorted(COLOUR_NAMES), sorted(BACKDROP_COLOURS), [NUMBERS[n] for n in (2, 3, 4)])

Facts = tuple[Fact, ...]


@dataclass(frozen=True)
class Statement:
    """Everything that says the same: sentences in all voices, their keywords, and the frames where it can be seen."""

    start: int
    end: int
    sentences: tuple[str, ...]
    phrases: tuple[str, ...]


def statements(clip: Clip) -> tuple[Statement, ...]:
    """The clip's statements in the order of its moments; pattern and palette are one."""
    pattern, palette, *rest = clip.moments()
    told: list[tuple[int, int, tuple[Facts, ...]]] = [
        (0, clip.n_frames, ((pattern.fact, palette.fact), (pattern.fact,), (palette.fact,)))
    ]
    told += [(moment.start, moment.end, ((moment.fact,),)) for moment in rest]
    return tuple(_statement(start, end, groups) for start, end, groups in told)


@lru_cache(maxsize=4096)
def looks_phrases(looks: Looks) -> tuple[str, ...]:
    """The keywords that name an actor, in all voices: "red circle", "red disc", "red round disc"."""
    ending = Fact("remains", others=(looks,))
    return tuple(phrase for phrase in _phrases(_sentences((ending,))) if COLOUR_NAMES & set(phrase.split()))


def altered(text: str, taken: frozenset[str], rng: Random) -> str | None:
    """The text with other colours and counts; None where it names none.

    taken: words of the clip that the text is true of, so that the new colours are not true of it, too.

    >>> altered("Two red stars leave.", frozenset({"red"}), Random(0)).split()[2:]
    ['stars', 'leave.']
    """
    words, changed = text.split(" "), {}
    for index, token in enumerate(words):
        name = token.lower().strip(".,")
        family = next((names for names in FAMILIES if name in names), None)
        # How often something happens cannot be seen in one frame.
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
    """All wordings of a sentence; two voices tell pattern and palette in one, the others one by one."""
    voices: tuple[str, ...] = VOICES
    if facts[0].kind in ("pattern", "palette"):
        voices = ("annotator_a", "faithful") if len(facts) == 2 else ("annotator_b", "keypoint")
    return tuple(sorted({word(facts, voice, Random(draw)) for voice in voices for draw in range(WORDINGS)}))


def _phrases(sentences: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted({phrase for sentence in sentences for phrase in _keywords(sentence)}))


@lru_cache(maxsize=100_000)
def _keywords(sentence: str) -> tuple[str, ...]:
    return tuple(RuleKeywords().extract(sentence))
