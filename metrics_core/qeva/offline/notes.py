"""Notes on a video from what people wrote about it, for QEVA without a video model (spec 3, deliver 3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from metrics_core.ecs.plan import premise_sentences
from metrics_core.protocols import SentenceSplitter
from metrics_core.qeva.records import VideoNotes
from metrics_core.qeva.replies import distinct

EVENT_DIMENSIONS = frozenset({"segment_detail", "events"})
"""The dimensions whose keypoints say what happens. Other dimensions say how the video looks or sounds as a whole."""

NO_NOTES = (
    "the video has neither reference nor keypoint to write questions from: give it one of them, or set a video model"
)


@dataclass(frozen=True, slots=True)
class Segment:
    """What one annotator writes about one stretch of a video, in seconds from the start of the video."""

    start_s: float
    end_s: float
    text: str


@dataclass(frozen=True, slots=True)
class Reference:
    """What one annotator writes about a video. segments: the same text with times, in any order; () without."""

    text: str
    segments: tuple[Segment, ...] = ()


@dataclass(frozen=True, slots=True)
class NotedKeypoint:
    """A fact that summaries should cover. segment_index: its place among the video's segments, None if not known."""

    text: str
    dimension: str
    segment_index: int | None = None


def video_notes(
    references: Sequence[Reference], keypoints: Sequence[NotedKeypoint], splitter: SentenceSplitter
) -> VideoNotes | None:
    """Take notes from references, keypoints or both; None without a sentence, for the reason NO_NOTES.

    Facts are the keypoints, which state one thing each; without keypoints, the sentences of the references. Events are
    the keypoints of EVENT_DIMENSIONS by segment where they name two segments or more, else the sentences of the
    reference with the most segments, by start. A segment with several keypoints gives its first as an event, because
    their order is not known. A reference without times gives no event. Sentences of references that are neither are
    kept in `more`, because another wording of a fact helps an entailment model to find it.

    >>> from metrics_core.models.sentence_splitter import RuleSplitter
    >>> told = Reference("He rests. A man runs.", (Segment(5, 9, "He rests."), Segment(0, 5, "A man runs.")))
    >>> video_notes([told], [], RuleSplitter())
    VideoNotes(events=('A man runs.', 'He rests.'), facts=('A man runs.', 'He rests.'), source='references', more=())
    >>> video_notes([], [NotedKeypoint("It is night.", "video_background")], RuleSplitter()).source
    'keypoints'
    """
    written = [sentences for reference in references if (sentences := _told(reference, splitter))]
    points = [point for point in keypoints if any(map(str.isalnum, point.text))]
    facts = tuple(distinct(point.text for point in _by_dimension(points))) or tuple(distinct(_flat(written)))
    if not facts:
        return None
    events = _events_of_keypoints(points)
    if len(events) < 2:
        events = _events_of_references(references, splitter) or events
    source = " and ".join(name for name, given in (("keypoints", points), ("references", written)) if given)
    used = {*facts, *events}
    return VideoNotes(events, facts, source, tuple(text for text in distinct(_flat(written)) if text not in used))


def _told(reference: Reference, splitter: SentenceSplitter) -> list[str]:
    """The sentences of a reference, by start where it has times."""
    texts = [segment.text for segment in _by_start(reference.segments)] or [reference.text]
    return [sentence for text in texts for sentence in premise_sentences(text, splitter)]


def _by_start(segments: Iterable[Segment]) -> list[Segment]:
    return sorted(segments, key=lambda segment: (segment.start_s, segment.end_s))


def _by_dimension(points: Sequence[NotedKeypoint]) -> list[NotedKeypoint]:
    """The keypoints dimension by dimension, in the order in which these appear, and by segment within each."""
    order = list(dict.fromkeys(point.dimension for point in points))
    return sorted(points, key=lambda point: (order.index(point.dimension), _segment(point)))


def _events_of_keypoints(points: Iterable[NotedKeypoint]) -> tuple[str, ...]:
    placed = sorted(
        (p for p in points if p.dimension in EVENT_DIMENSIONS and p.segment_index is not None), key=_segment
    )
    return tuple(next(group).text for _, group in groupby(placed, key=_segment))


def _segment(point: NotedKeypoint) -> float:
    return float("inf") if point.segment_index is None else point.segment_index


def _events_of_references(references: Sequence[Reference], splitter: SentenceSplitter) -> tuple[str, ...]:
    timed = max(references, key=lambda reference: len(reference.segments), default=None)
    return tuple(_told(timed, splitter)) if timed and timed.segments else ()


def _flat(lists: Iterable[Iterable[str]]) -> list[str]:
    return [text for each in lists for text in each]
