"""Notes on a video from references and keypoints."""

from __future__ import annotations

import pytest

from metrics_core.models.sentence_splitter import RuleSplitter
from metrics_core.qeva.offline.notes import NotedKeypoint, Reference, Segment, video_notes
from metrics_core.qeva.records import VideoNotes

SPLITTER = RuleSplitter()
TIMED = Reference(
    "She eats. He enters. He sits down.",
    (Segment(8, 9, "She eats."), Segment(0, 3, "He enters. He sits down.")),
)


def notes(references: list[Reference], keypoints: list[NotedKeypoint]) -> VideoNotes:
    taken = video_notes(references, keypoints, SPLITTER)
    assert taken is not None
    return taken


def test_a_timed_reference_gives_its_sentences_by_start() -> None:
    taken = notes([TIMED], [])
    assert taken.events == taken.facts == ("He enters.", "He sits down.", "She eats.")
    assert (taken.source, taken.more) == ("references", ())


def test_segments_of_one_start_come_by_their_end() -> None:
    taken = notes([Reference("", (Segment(0, 9, "Long it lasts."), Segment(0, 2, "Short it lasts.")))], [])
    assert taken.events == ("Short it lasts.", "Long it lasts.")


def test_a_reference_without_times_gives_facts_and_no_event() -> None:
    taken = notes([Reference("He enters. She eats.")], [])
    assert (taken.events, taken.facts) == ((), ("He enters.", "She eats."))


def test_events_come_from_the_reference_with_the_most_segments_and_facts_from_all() -> None:
    other = Reference("He comes in.", (Segment(0, 9, "He comes in."),))
    taken = notes([other, TIMED], [])
    assert taken.events == ("He enters.", "He sits down.", "She eats.")
    assert taken.facts == ("He comes in.", "He enters.", "He sits down.", "She eats.")


def test_keypoints_give_facts_by_dimension_and_one_event_for_each_segment() -> None:
    points = [
        NotedKeypoint("C happens.", "segment_detail", 2),
        NotedKeypoint("It is night.", "video_background", 0),
        NotedKeypoint("A happens.", "segment_detail", 0),
        NotedKeypoint("B happens too.", "segment_detail", 0),
        NotedKeypoint("Somewhere D happens.", "segment_detail"),
    ]
    taken = notes([], points)
    assert taken.events == ("A happens.", "C happens.")
    assert taken.facts == ("A happens.", "B happens too.", "C happens.", "Somewhere D happens.", "It is night.")
    assert taken.source == "keypoints"


def test_references_beside_keypoints_are_kept_as_further_wordings() -> None:
    points = [NotedKeypoint("He enters.", "segment_detail", 0), NotedKeypoint("She eats soup.", "segment_detail", 1)]
    taken = notes([TIMED], points)
    assert taken.events == taken.facts == ("He enters.", "She eats soup.")
    assert (taken.more, taken.source) == (("He sits down.", "She eats."), "keypoints and references")


@pytest.mark.parametrize("segment", [None, 0])
def test_keypoints_without_an_order_leave_the_events_to_the_reference(segment: int | None) -> None:
    points = [NotedKeypoint(f"{name} happens.", "segment_detail", segment) for name in "AB"]
    taken = notes([TIMED], points)
    assert taken.events == ("He enters.", "He sits down.", "She eats.")
    assert taken.facts == ("A happens.", "B happens.")


def test_nothing_written_gives_no_notes() -> None:
    assert video_notes([], [], SPLITTER) is None
    assert video_notes([Reference(" ... ")], [NotedKeypoint("?", "segment_detail", 0)], SPLITTER) is None
