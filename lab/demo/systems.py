"""Six synthetic captioning systems of known quality.

A candidate keeps the statements that it makes, so labels and ratings are computed from them and never guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random

from lab.demo.describe import Sentence, describe_clip, format_sentence
from lab.demo.story import make_clip
from lab.demo.world import BACKDROP_COLOURS, COLOURS, ClipStatement, DemoClip, Looks

SYSTEMS = (
    "sys_faithful",
    "sys_brief",
    "sys_hallucinating",
    "sys_shuffled",
    "sys_wrong_details",
    "sys_offtopic",
)


@dataclass(frozen=True)
class Candidate:
    """A candidate caption of a synthetic system: its sentences, which keep the statements that they make. positions:
    the indexes of its sentences in the true account of the clip by voice "faithful", in the caption's order. A sentence
    that joins two has two indexes, one with wrong details keeps its index, and one about another clip has None.
    """

    system: str
    sentences: tuple[Sentence, ...]
    positions: tuple[int | None, ...]

    @property
    def text(self) -> str:
        """The text of the caption: its sentences, joined by spaces."""
        return " ".join(sentence.text for sentence in self.sentences)

    @property
    def statements(self) -> tuple[ClipStatement, ...]:
        """The statements that the caption makes, true or not, in the order of its sentences."""
        return tuple(statement for sentence in self.sentences for statement in sentence.statements)


def build_candidates(clip: DemoClip, other: DemoClip) -> tuple[Candidate, ...]:
    """Return the six candidate captions of a clip, in the order of ``SYSTEMS``: faithful, brief, hallucinating,
    shuffled, wrong details, off-topic. The off-topic one is the true account of `other`. The same clips always give the
    same ones.

    Args:
        clip: the clip that is captioned.
        other: the clip that the off-topic system describes instead.
    """
    faithful = describe_clip(clip, "faithful")
    rng = Random(f"systems/{clip.seed}")
    elsewhere = describe_clip(other, "faithful")
    order = draw_scattered_order(len(faithful), rng)
    return (
        Candidate("sys_faithful", faithful, tuple(range(len(faithful)))),
        _brief(faithful, rng),
        _hallucinating(clip, faithful, rng),
        Candidate("sys_shuffled", tuple(faithful[i] for i in order), tuple(order)),
        _wrong_details(clip, faithful),
        Candidate("sys_offtopic", elsewhere, (None,) * len(elsewhere)),
    )


def find_least_similar_clip(clips: Sequence[DemoClip], index: int) -> DemoClip:
    """Return the clip least like ``clips[index]``: with the fewest shared statements, then with the fewest shared
    shapes and pattern. Of equals, the first after it, or else the first of all. Raises ValueError if there is no other
    clip.
    """
    clip = clips[index]
    statements = {moment.statement for moment in clip.list_moments()}

    def likeness(other: DemoClip) -> tuple[int, int]:
        shared_statements = sum(moment.statement in statements for moment in other.list_moments())
        return shared_statements, len(clip.shapes & other.shapes) + (clip.pattern == other.pattern)

    rest = [*clips[index + 1 :], *clips[:index]]
    return min(rest, key=likeness)


def draw_scattered_order(n: int, rng: Random) -> list[int]:
    """Return the numbers 0 to n-1 as a list in random order. No number keeps its place, and none comes directly after
    its predecessor. Raises ValueError if n is less than 4.

    >>> order = draw_scattered_order(10, Random(0))
    >>> sorted(order) == list(range(10)), any(place == item for place, item in enumerate(order))
    (True, False)
    """
    if n < 4:
        raise ValueError(f"cannot scatter {n} sentences: at least 4 are needed")
    order = list(range(n))
    while any(i == item for i, item in enumerate(order)) or any(
        second == first + 1 for first, second in pairwise(order)
    ):
        rng.shuffle(order)
    return order


def _brief(faithful: tuple[Sentence, ...], rng: Random) -> Candidate:
    events = [i for i, s in enumerate(faithful) if s.statements[0].dimension == "segment_detail"][:-1]
    half = len(events) // 2
    first_index, second_index = rng.choice(events[:half]), rng.choice(events[half:])
    first, second = faithful[first_index].text, faithful[second_index].text
    joined = replace(
        faithful[first_index],
        text=f"{first.removesuffix('.')}, and later {second[0].lower()}{second[1:]}",
        statements=faithful[first_index].statements + faithful[second_index].statements,
        end_s=faithful[second_index].end_s,
    )
    return Candidate("sys_brief", (faithful[0], joined), (0, first_index, second_index))


def _hallucinating(clip: DemoClip, faithful: tuple[Sentence, ...], rng: Random) -> Candidate:
    """Replace half of the sentences by sentences that are true of other, unpublished clips."""
    false = set(rng.sample(range(len(faithful)), len(faithful) // 2))
    strangers = _draw_false_statements(clip, rng)
    waiting: list[tuple[ClipStatement, ...]] = []
    sentences = list(faithful)
    for index in sorted(false):
        true = faithful[index].statements
        while not any(_replaces(group, true) for group in waiting):
            waiting.append(next(strangers))
        fitting = next(group for group in waiting if _replaces(group, true))
        waiting.remove(fitting)
        sentences[index] = replace(faithful[index], statements=fitting, text=format_sentence(fitting, "faithful", rng))
    positions = tuple(None if i in false else i for i in range(len(faithful)))
    return Candidate("sys_hallucinating", tuple(sentences), positions)


def _draw_false_statements(clip: DemoClip, rng: Random) -> Iterator[tuple[ClipStatement, ...]]:
    """Yield, without end, the statements of sentences about random clips that are entirely false of this clip."""
    true = {moment.statement for moment in clip.list_moments()}
    pairs = {(looks.shape, looks.colour) for statement in true for looks in statement.named_looks}
    while True:
        for sentence in describe_clip(make_clip(rng.randrange(2**40)), "faithful"):
            named = {
                (looks.shape, looks.colour) for statement in sentence.statements for looks in statement.named_looks
            }
            if not named & pairs and not true & set(sentence.statements):
                yield sentence.statements


def _replaces(group: tuple[ClipStatement, ...], true: tuple[ClipStatement, ...]) -> bool:
    new, old = group[0], true[0]
    if new.dimension != old.dimension:
        return False
    fixed = ("waits", "remains")
    if new.kind in fixed or old.kind in fixed or old.dimension != "segment_detail":
        return new.kind == old.kind or old.dimension == "camera_state"
    return new.kind != old.kind


def _wrong_details(clip: DemoClip, faithful: tuple[Sentence, ...]) -> Candidate:
    statements = [moment.statement for moment in clip.list_moments()]
    used = {looks.colour for statement in statements for looks in statement.named_looks} | {
        statement.target for statement in statements
    }
    colours = _swap(COLOURS, used) | _swap(BACKDROP_COLOURS, set(clip.palette))
    rng = Random(f"words/{clip.seed}/faithful")  # the same seed chooses the same wordings as in the faithful account
    sentences = []
    for sentence in faithful:
        wrong = tuple(_with_wrong_details(statement, colours) for statement in sentence.statements)
        sentences.append(replace(sentence, statements=wrong, text=format_sentence(wrong, "faithful", rng)))
    return Candidate("sys_wrong_details", tuple(sentences), tuple(range(len(faithful))))


def _swap(colours: dict[str, tuple[int, int, int]], used: set[str]) -> dict[str, str]:
    unused = [name for name in colours if name not in used]
    return {name: unused[i % len(unused)] for i, name in enumerate(n for n in colours if n in used)}


def _with_wrong_details(statement: ClipStatement, colours: dict[str, str]) -> ClipStatement:
    def wrong(looks: Looks) -> Looks:
        return replace(looks, colour=colours[looks.colour], count=_wrong_number(looks.count))

    return replace(
        statement,
        subject=None if statement.subject is None else wrong(statement.subject),
        others=tuple(wrong(other) for other in statement.others),
        target=colours[statement.target] if statement.kind == "recolours" else statement.target,
        number=_wrong_number(statement.number),
        palette=tuple(colours[name] for name in statement.palette),
    )


def _wrong_number(number: int) -> int:
    """Exchange two, three and four. Zero and one stay, because no wording counts them."""
    return {2: 3, 3: 4, 4: 2}.get(number, number)
