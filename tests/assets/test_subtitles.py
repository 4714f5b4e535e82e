"""Subtitles as people have them: which cues, in which order, and what is left out."""

from __future__ import annotations

from collections import Counter

import pytest

from assets.new_manifest.subtitles import parse_subtitles

Segments = list[tuple[float, float, str]]


def read(content: str) -> Segments:
    subtitles = parse_subtitles(content)
    assert subtitles.left_out == []
    return [(segment["start_s"], segment["end_s"], segment["text"]) for segment in subtitles.segments]


def srt(*cues: tuple[float, float, str]) -> str:
    return "".join(
        f"{number}\n00:00:{start:06.3f} --> 00:00:{end:06.3f}\n{text}\n\n".replace(".", ",", 2)
        for number, (start, end, text) in enumerate(cues, 1)
    )


@pytest.mark.parametrize(
    ("content", "segments"),
    [
        # Of WebVTT: a header, notes, styles, names of cues, settings, tags, entities, times without hours.
        (
            "WEBVTT - mine\nKind: captions\n\nSTYLE\n::cue {}\n\nNOTE not this\nnor this\n\nintro\n"
            "00:00.000 --> 01:02.5 align:start\n<v Ann>One &amp; <00:00:01.000><c.red>two</c></v>\n\nNOTE\nno\n\n"
            "1:00:00.000 --> 1:00:01.000\nOne & two\nthree<br>four &lt;3\n\n00:05.000 --> 00:06.000\n",
            [(0.0, 62.5, "One & two"), (3600.0, 3601.0, "One & two three four <3")],
        ),
        ("WEBVTT\r\n\r\n00:01 --> 00:02\r\nA\r\n", [(1, 2, "A")]),
        ("1\r00:00:01,5 --> 00:00:02,25 X1:1 Y1:2\r{\\an8}<font color=red>A</font>\r", [(1.5, 2.25, "A")]),
        # Blank lines in a cue, behind its times and before them; no blank line between cues.
        ("1\n00:01 --> 00:02\n\nA\n\nB\n\n2\n\n00:03 --> 00:04\nC", [(1, 2, "A B"), (3, 4, "C")]),
        (
            "1\n00:01 --> 00:02\nA\n2\n00:03 --> 00:04\nB\n7\n00:05 --> 00:06\nC",
            [(1, 2, "A"), (3, 4, "B"), (5, 6, "C")],
        ),
        ("WEBVTT\n\n00:01 --> 00:02\nA\n00:03 --> 00:04\nB", [(1, 2, "A"), (3, 4, "B")]),
        # Numbers that are text.
        ("WEBVTT\n\n00:01 --> 00:02\nHow many?\n42\n\n00:03 --> 00:04\n7", [(1, 2, "How many? 42"), (3, 4, "7")]),
        ("00:01 --> 00:02\nIs a < b and b > c? Yes --> no\n", [(1, 2, "Is a < b and b > c? Yes --> no")]),
        # In SubRip a note is text.
        ("1\n00:01 --> 00:02\nA\n\nNOTE B\n", [(1, 2, "A NOTE B")]),
        ("", []),
        ("WEBVTT", []),
    ],
)
def test_cues_are_read_as_written(content: str, segments: Segments) -> None:
    assert read(content) == segments


ROLLING = {
    "with a moment between": [
        (0.03, 1.83, "we peel"),
        (1.83, 1.84, "we peel"),
        (1.84, 3.64, "we peel\nthree potatoes"),
        (3.64, 3.65, "three potatoes"),
        (3.65, 5.4, "three potatoes\nand no more"),
        (5.4, 5.41, "and no more"),
    ],
    "without": [(0.03, 1.8, "we peel"), (1.8, 3, "we peel\nthree potatoes"), (3.1, 4, "three potatoes\nand no more")],
    "of three lines": [
        (0.03, 1, "we peel"),
        (1, 2, "we peel\nthree potatoes"),
        (2, 3, "we peel\nthree potatoes\nand no"),
        (3, 4, "three potatoes\nand no\nmore"),
    ],
    "word by word": [
        (0.03, 1, "we"),
        (1, 2, "we peel three"),
        (2, 3, "we peel three potatoes"),
        (3, 4, "we peel three potatoes\nand"),
        (4, 5, "and no more"),
    ],
}


@pytest.mark.parametrize("kind", ROLLING)
def test_cues_that_roll_give_each_phrase_once_and_from_its_true_start(kind: str) -> None:
    segments = read(srt(*ROLLING[kind]))
    assert " ".join(text for *_, text in segments) == "we peel three potatoes and no more"
    assert segments[0][0] == 0.03
    assert [start for start, *_ in segments] == sorted({start for start, *_ in segments})


def test_what_is_said_twice_is_kept() -> None:
    for cues in (
        [(1, 2, "No."), (2, 3, "No."), (3, 4, "No.")],
        [(1, 2, "No."), (2, 3, "No. No.")],
        [(0, 2, "Are you?\nNo."), (2, 4, "No.\nReally?"), (4, 6, "Yes."), (6, 8, "Then go."), (8, 9, "I will.")],
        [(0, 1, "One two three."), (5, 6, "One two three.\nFour."), (9, 10, "Four.\nFive.")],
    ):
        assert [text for *_, text in read(srt(*cues))] == [text.replace("\n", " ") for *_, text in cues]


def test_what_is_changed_or_left_out_is_named() -> None:
    cues = [(5, 6, "Two."), (1, 2, "One."), (7, 6.5, "Three."), (7, 6.5, "Three.")]
    segments, left_out = parse_subtitles("Made by me\n" + srt(*cues) + "9\n00:00:08,000 --> 0:09:1x\nLost.\n")
    assert [(segment["start_s"], segment["end_s"], segment["text"]) for segment in segments] == [
        (1, 2, "One."),
        (5, 6, "Two."),
        (7, 7, "Three."),
    ]
    assert Counter(reason.explain().partition(":")[0] for reason in left_out) == {
        "text of subtitles before the first times": 1,
        "the place of a cue of subtitles that is out of order": 1,
        "the end of a cue of subtitles that lies before its beginning": 1,
        "a cue of subtitles that is there twice": 1,
        "a cue of subtitles whose times cannot be read": 1,
    }


def test_long_files_are_read_in_a_moment() -> None:
    """A cue of many lines, many blank lines, and many times without text."""
    assert len(read("00:01 --> 00:02\n" + "a\n" * 200_000)[0][2]) == 399_999
    assert read("00:01 --> 00:02\n" + "\n" * 200_000 + "00:03 --> 00:04\nA") == [(3, 4, "A")]
    assert read("00:01 --> 00:02\n\n" * 50_000) == []
