"""Build notes on a video from people's references and keypoints, for QEVA without a video model (spec 3, deliver 3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from metrics_core.ecs.premises import split_premises
from metrics_core.protocols import SentenceSplitter
from metrics_core.qeva.records import VideoNotes
from metrics_core.qeva.replies import list_distinct_texts

EVENT_DIMENSIONS = frozenset({"segment_detail", "events"})
"""The dimensions whose keypoints are events. Keypoints of other dimensions describe the look or sound of the video."""

NO_NOTES = (
    "the video has neither reference nor keypoint to write questions from: give it one of them, or set a video model"
)


@dataclass(frozen=True, slots=True)
class NoteSegment:
    """The text of one annotator about one stretch of a video, in seconds from the start of the video."""

    start_s: float
    end_s: float
    text: str


@dataclass(frozen=True, slots=True)
class NoteReference:
    """The text of one annotator about a whole video. segments: the same text with times, in any order; () without
    times.
    """

    text: str
    segments: tuple[NoteSegment, ...] = ()


@dataclass(frozen=True, slots=True)
class NoteKeypoint:
    """A fact that summaries should cover. segment_index: its place among the video's segments, None if not known."""

    text: str
    dimension: str
    segment_index: int | None = None


def build_video_notes(
    references: Sequence[NoteReference], keypoints: Sequence[NoteKeypoint], splitter: SentenceSplitter
) -> VideoNotes | None:
    """Build notes from references, keypoints or both; None where there is no sentence (NO_NOTES is the message for it).
    Facts are the keypoints, which state one thing each; without keypoints, the sentences of the references. Events are
    keypoints of EVENT_DIMENSIONS in at least two segments, else the sentences of the reference with the most timed
    segments.

    Events come by segment, or by start. A segment with several keypoints gives its first as an event, because their
    order is not known. A reference without times gives no event. Sentences of references that are neither are kept in
    `more`, because another wording of a fact helps an entailment model to find it.

    >>> from metrics_core.models.sentence_splitter import RuleSplitter
    >>> segments = NoteSegment(5, 9, "He rests."), NoteSegment(0, 5, "A man runs.")
    >>> build_video_notes([NoteReference("He rests. A man runs.", segments)], [], RuleSplitter())
    VideoNotes(events=('A man runs.', 'He rests.'), facts=('A man runs.', 'He rests.'), source='references', more=())
    >>> build_video_notes([], [NoteKeypoint("It is night.", "video_background")], RuleSplitter()).source
    'keypoints'
    """
    written = [sentences for reference in references if (sentences := _split_reference(reference, splitter))]
    points = [point for point in keypoints if any(map(str.isalnum, point.text))]
    facts = tuple(list_distinct_texts(point.text for point in _sort_keypoints(points))) or tuple(
        list_distinct_texts(_flatten(written))
    )
    if not facts:
        return None
    events = _list_keypoint_events(points)
    if len(events) < 2:
        events = _list_reference_events(references, splitter) or events
    source = " and ".join(name for name, given in (("keypoints", points), ("references", written)) if given)
    used = {*facts, *events}
    return VideoNotes(
        events, facts, source, tuple(text for text in list_distinct_texts(_flatten(written)) if text not in used)
    )


def _split_reference(reference: NoteReference, splitter: SentenceSplitter) -> list[str]:
    """Return the sentences of a reference, by start where it has times."""
    texts = [segment.text for segment in _sort_segments(reference.segments)] or [reference.text]
    return [sentence for text in texts for sentence in split_premises(text, splitter)]


def _sort_segments(segments: Iterable[NoteSegment]) -> list[NoteSegment]:
    return sorted(segments, key=lambda segment: (segment.start_s, segment.end_s))


def _sort_keypoints(points: Sequence[NoteKeypoint]) -> list[NoteKeypoint]:
    """Return the keypoints dimension by dimension, in the order in which these appear, and by segment within each
    dimension.
    """
    order = list(dict.fromkeys(point.dimension for point in points))
    return sorted(points, key=lambda point: (order.index(point.dimension), _segment_order(point)))


def _list_keypoint_events(points: Iterable[NoteKeypoint]) -> tuple[str, ...]:
    placed = sorted(
        (p for p in points if p.dimension in EVENT_DIMENSIONS and p.segment_index is not None), key=_segment_order
    )
    return tuple(next(group).text for _, group in groupby(placed, key=_segment_order))


def _segment_order(point: NoteKeypoint) -> float:
    return float("inf") if point.segment_index is None else point.segment_index


def _list_reference_events(references: Sequence[NoteReference], splitter: SentenceSplitter) -> tuple[str, ...]:
    timed = max(references, key=lambda reference: len(reference.segments), default=None)
    return tuple(_split_reference(timed, splitter)) if timed and timed.segments else ()


def _flatten(lists: Iterable[Iterable[str]]) -> list[str]:
    return [text for texts in lists for text in texts]
