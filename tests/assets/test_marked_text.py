"""Differences between two texts, against what makes two sequences of words differ at all."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.words.marked_text import NOT_IN_OTHER, TextPiece, split_differences, split_words

TEXTS = st.text("ab A.é犬猫は_-\n", max_size=30)


def shown(text: str, other: str) -> list[str]:
    return ["".join(f"[{p.text}]" if p.note else p.text for p in pieces) for pieces in split_differences(text, other)]


@pytest.mark.parametrize(
    ("text", "other", "wanted"),
    [
        ("", "", ["", ""]),
        ("A dog.", "a DOG!", ["A dog.", "a DOG!"]),
        ("A red dog runs", "A dog", ["A [red] dog [runs]", "A dog"]),
        ("up, then down", "down then up", ["up, [then down]", "[down then] up"]),
        ("犬が走る", "猫が走る", ["[犬]が走る", "[猫]が走る"]),
    ],
)
def test_words_of_one_text_are_marked(text: str, other: str, wanted: list[str]) -> None:
    assert shown(text, other) == wanted


@given(TEXTS, TEXTS)
def test_nothing_is_lost_and_the_rest_is_in_both(text: str, other: str) -> None:
    sides = split_differences(text, other)
    assert ["".join(piece.text for piece in pieces) for pieces in sides] == [text, other]
    rests = [" ".join(piece.text for piece in pieces if piece.note is None) for pieces in sides]
    ours, theirs = (re.findall("[犬猫は]|[^\\W_犬猫は]+", rest.casefold()) for rest in rests)
    assert ours == theirs
    assert all(re.search(r"[^\W_]", piece.text) for pieces in sides for piece in pieces if piece.note)


def test_a_very_long_text_is_divided_in_a_moment() -> None:
    text, started = "a " * 50_000, time.process_time()
    words = split_words(text, [(start, start + 1) for start in range(2, len(text), 4)])
    assert ([word.span for word in words[:4]], len(words)) == ([None, (2, 3), None, (6, 7)], 50_000)
    assert time.process_time() - started < 2


def test_a_mark_spans_several_words() -> None:
    assert [word.span for word in split_words("a red dog. So", [(2, 9), (2, 10)])] == [None, (2, 9), (2, 10), None]


def test_texts_of_the_same_few_words_are_not_compared() -> None:
    text, other = "a b " * 500, "b b a a " * 250
    assert split_differences(text, other) == ((TextPiece(text),), (TextPiece(other),))


def test_very_long_texts_are_not_compared() -> None:
    text, other = "a " * 1000, "b " * 1001
    assert split_differences(text, other) == ((TextPiece(text),), (TextPiece(other),))
    assert split_differences(text, "b") == (
        (TextPiece(text.strip(), NOT_IN_OTHER), TextPiece(" ")),
        (TextPiece("b", NOT_IN_OTHER),),
    )
