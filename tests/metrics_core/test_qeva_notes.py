"""Notes on a video from references and keypoints."""

from __future__ import annotations

import pytest

from metrics_core.models.sentence_splitter import RuleSplitter
from metrics_core.qeva.offline.notes import NoteKeypoint, NoteReference, NoteSegment, build_video_notes
from metrics_core.qeva.records import VideoNotes

SPLITTER = RuleSplitter()
TIMED = NoteReference(
    "She eats. He enters. He sits down.",
    (NoteSegment(8, 9, "She eats."), NoteSegment(0, 3, "He enters. He sits down.")),
)


def notes(references: list[NoteReference], keypoints: list[NoteKeypoint]) -> VideoNotes:
    taken = build_video_notes(references, keypoints, SPLITTER)
    assert taken is not None
    return taken


def test_a_timed_reference_gives_its_sentences_by_start() -> None:
    taken = notes([TIMED], [])
    assert taken.events == taken.facts == ("He enters.", "He sits down.", "She eats.")
    assert (taken.source, taken.more) == ("references", ())


def test_segments_of_one_start_come_by_their_end() -> None:
    taken = notes([NoteReference("", (NoteSegment(0, 9, "Long it lasts."), NoteSegment(0, 2, "Short it lasts.")))], [])
    assert taken.events == ("Short it lasts.", "Long it lasts.")


def test_a_reference_without_times_gives_facts_and_no_event() -> None:
    taken = notes([NoteReference("He enters. She eats.")], [])
    assert (taken.events, taken.facts) == ((), ("He enters.", "She eats."))


def test_events_come_from_the_reference_with_the_most_segments_and_facts_from_all() -> None:
    other = NoteReference("He comes in.", (NoteSegment(0, 9, "He comes in."),))
    taken = notes([other, TIMED], [])
    assert taken.events == ("He enters.", "He sits down.", "She eats.")
    assert taken.facts == ("He comes in.", "He enters.", "He sits down.", "She eats.")


def test_keypoints_give_facts_by_dimension_and_one_event_for_each_segment() -> None:
    points = [
        NoteKeypoint("C happens.", "segment_detail", 2),
        NoteKeypoint("It is night.", "video_background", 0),
        NoteKeypoint("A happens.", "segment_detail", 0),
        NoteKeypoint("B happens too.", "segment_detail", 0),
        NoteKeypoint("Somewhere D happens.", "segment_detail"),
    ]
    taken = notes([], points)
    assert taken.events == ("A happens.", "C happens.")
    assert taken.facts == ("A happens.", "B happens too.", "C happens.", "Somewhere D happens.", "It is night.")
    assert taken.source == "keypoints"


def test_references_beside_keypoints_are_kept_as_further_wordings() -> None:
    points = [NoteKeypoint("He enters.", "segment_detail", 0), NoteKeypoint("She eats soup.", "segment_detail", 1)]
    taken = notes([TIMED], points)
    assert taken.events == taken.facts == ("He enters.", "She eats soup.")
    assert (taken.more, taken.source) == (("He sits down.", "She eats."), "keypoints and references")


@pytest.mark.parametrize("segment", [None, 0])
def test_keypoints_without_an_order_leave_the_events_to_the_reference(segment: int | None) -> None:
    points = [NoteKeypoint(f"{name} happens.", "segment_detail", segment) for name in "AB"]
    taken = notes([TIMED], points)
    assert taken.events == ("He enters.", "He sits down.", "She eats.")
    assert taken.facts == ("A happens.", "B happens.")


def test_nothing_written_gives_no_notes() -> None:
    assert build_video_notes([], [], SPLITTER) is None
    assert build_video_notes([NoteReference(" ... ")], [NoteKeypoint("?", "segment_detail", 0)], SPLITTER) is None
