"""Pieces that a judge calls wrong: found in the text with their places, joined, shortened, dropped and counted."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics_core.judge import FoundSpans, find_spans

TEXT = "A red dog runs over the lawn, then a hundred red birds  fly up."


def shown(found: FoundSpans) -> list[tuple[int, int, str, str]]:
    return [(span.start, span.end, span.text, span.reason) for span in found.spans]


@pytest.mark.parametrize(
    ("piece", "expected"),
    [
        ("red dog", (2, 9)),
        ("RED  dog", (2, 9)),
        ('"red dog."', (2, 9)),
        ("birds fly", (49, 59)),
        # A whole word comes before a part of one: "red" is in "hundred", too.
        ("red", (2, 5)),
        ("dred", (40, 44)),
    ],
)
def test_a_piece_is_found_whatever_surrounds_it(piece: str, expected: tuple[int, int]) -> None:
    (span,) = find_spans(TEXT, [(piece, "so")]).spans
    assert (span.start, span.end) == expected
    assert span.text == TEXT[slice(*expected)]


@pytest.mark.parametrize("piece", ["", " . ", "a cat", "perro rojo", "红狗", "red dog runs over the lawn, then a cat"])
def test_a_piece_that_is_not_in_the_text_is_dropped_and_counted(piece: str) -> None:
    assert find_spans(TEXT, [(piece, "so")]) == FoundSpans((), n_not_in_text=1)


def test_other_scripts_have_their_places() -> None:
    assert shown(find_spans("一只红狗在草地上跑", [("红狗", "是棕色")])) == [(2, 4, "红狗", "是棕色")]
    # Accents as letters of their own, and width: the same letters to a reader.
    assert shown(find_spans("Un cafe\u0301 noir", [("CAFÉ", "")])) == [(3, 8, "cafe\u0301", "")]
    assert shown(find_spans("ein ﬁsch, STRASSE", [("fisch", ""), ("straße", "")])) == [
        (4, 8, "ﬁsch", ""),
        (10, 17, "STRASSE", ""),
    ]


@pytest.mark.parametrize("letters", ["a", "a ", "ab"])
def test_marks_in_a_very_long_text_take_a_moment(letters: str) -> None:
    text, started = letters * (100_000 // len(letters)), time.process_time()
    found = find_spans(text, [((letters * 150)[:299] + end, "so") for end in "ab" * 10])
    assert len(found.spans) + found.n_not_in_text > 0
    assert time.process_time() - started < 1


def test_repeated_pieces_take_the_next_place_and_overlaps_are_joined() -> None:
    found = find_spans("a dog and a dog", [("dog", "cat"), ("dog", "horse"), ("dog", "cow")])
    assert shown(found) == [(2, 5, "dog", "cat; cow"), (12, 15, "dog", "horse")]
    found = find_spans(TEXT, [("dog runs", "it  lies"), ("red dog", "brown"), ("runs over", "it  lies")])
    assert shown(found) == [(2, 19, "red dog runs over", "it lies; brown")]
    # One piece across two others makes them one.
    found = find_spans("one two three", [("one", "1"), ("three", "3"), ("one two three", "all")])
    assert shown(found) == [(0, 13, "one two three", "1; 3; all")]


def test_the_sixth_piece_is_dropped_and_counted() -> None:
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight"]
    found = find_spans(" ".join(words), [(word, "") for word in ["seven", *words]])
    # The five worst, in the order of the text.
    assert [span.text for span in found.spans] == ["one", "two", "three", "four", "seven"]
    assert (found.n_surplus, found.n_not_in_text) == (3, 0)


@given(st.text(min_size=1), st.data())
def test_every_piece_of_a_text_is_found_at_a_place_that_reads_the_same(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    piece = text[start : data.draw(st.integers(start + 1, len(text)))]
    found = find_spans(text, [(piece, "")])
    if any(character.isalnum() for character in piece):
        (span,) = found.spans
        assert span.text == text[span.start : span.end]
    assert found.n_not_in_text + len(found.spans) == 1


@given(st.text("ab ", max_size=30), st.lists(st.tuples(st.text("ab ", max_size=4), st.just("")), max_size=9))
def test_spans_are_in_order_apart_and_at_most_five(text: str, pieces: list[tuple[str, str]]) -> None:
    found = find_spans(text, pieces)
    assert len(found.spans) <= 5
    ends = [0, *(span.end for span in found.spans)]
    for end, span in zip(ends, found.spans, strict=False):
        assert end <= span.start < span.end <= len(text)
