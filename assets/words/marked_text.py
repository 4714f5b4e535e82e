"""Texts with marked pieces, for pages: those that a metric calls wrong, and words that another text does not have."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, NamedTuple

# Chinese and Japanese put no spaces between words: every character of theirs counts as one.
_WORD = re.compile("[\u3040-\u30ff\u3400-\u9fff]|[^\\W_\u3040-\u30ff\u3400-\u9fff]+")
# To be marked, with the punctuation at a word.
_MARKABLE = re.compile("[\u3040-\u30ff\u3400-\u9fff]|[^\\s\u3040-\u30ff\u3400-\u9fff]+")
# The time to compare grows with the product of both numbers of words, and with the pairs of equal ones.
_MOST_WORDS = 1000
_MOST_PAIRS = 50_000
NOT_IN_OTHER = "not in the other text"


@dataclass(frozen=True, slots=True)
class Mark:
    """A piece of a caption, or of the answer to a question, that a metric calls wrong, and the reason. start, end:
    places of its first character and after its last one, from 0.
    """

    start: int
    end: int
    reason: str


@dataclass(frozen=True, slots=True)
class TextPiece:
    """A piece of a text. note: why it is marked; None for a piece that is not."""

    text: str
    note: str | None = None


def _split_marked_text(text: str, marks: Sequence[Mark]) -> tuple[TextPiece, ...]:
    """Return a text divided into its marked pieces and those between them, in order; () without marks. marks: in the
    order of the text, without overlap.

    >>> _split_marked_text("A red dog.", [Mark(2, 5, "it is brown")])[:2]
    (TextPiece(text='A ', note=None), TextPiece(text='red', note='it is brown'))
    """
    pieces, end = [], 0
    for mark in marks:
        pieces += [TextPiece(text[end : mark.start]), TextPiece(text[mark.start : mark.end], mark.reason)]
        end = mark.end
    return tuple(piece for piece in (*pieces, TextPiece(text[end:])) if piece.text) if marks else ()


def split_sample_text(row: Mapping[str, Any], marks: Iterable[Sequence[Mark]]) -> tuple[TextPiece, ...]:
    """Return the caption of a sample, or the answer of a question-answer pair, divided at its marked pieces; () where
    nothing is marked. row: the sample's kind, text and answer. marks: those of every metric; the first that marks
    anything counts.
    """
    chosen = next(filter(None, marks), ())
    return _split_marked_text(row["answer"] if row["kind"] == "qa" else row["text"], chosen)


class Word(NamedTuple):
    """A word of a text: characters start up to end, after `gap`. span: start and end of the mark that it is in, or
    None.
    """

    gap: str
    text: str
    start: int
    end: int
    span: tuple[int, int] | None


def split_words(text: str, spans: Sequence[tuple[int, int]]) -> list[Word]:
    """Return the words of a text, with their punctuation; in Chinese and Japanese every character is one. spans: start
    and end of the marks on it, in the order of the text, without overlap.

    >>> split_words("A red dog.", [(2, 5)])[1:]
    [Word(gap=' ', text='red', start=2, end=5, span=(2, 5)), Word(gap=' ', text='dog.', start=6, end=10, span=None)]
    """
    words, before, marks = [], 0, deque(spans)
    for match in _MARKABLE.finditer(text):
        start, end = match.span()
        while marks and marks[0][1] < end:
            marks.popleft()
        span = marks[0] if marks and marks[0][0] <= start else None
        words.append(Word(text[before:start], match[0], start, end, span))
        before = end
    return words


def split_differences(text: str, other: str) -> tuple[tuple[TextPiece, ...], tuple[TextPiece, ...]]:
    """Return both texts divided into pieces; those with a note are words that the other text does not have there, case
    and punctuation apart. The texts are returned whole and unmarked if one has more than 1,000 words, or if so many
    words occur so often in both that they are slow to compare.

    >>> ["".join(f"[{piece.text}]" if piece.note else piece.text for piece in pieces)
    ...  for pieces in split_differences("A small dog barks.", "a dog runs away")]
    ['A [small] dog [barks].', 'a dog [runs away]']
    """
    words = [list(_WORD.finditer(each)) for each in (text, other)]
    whole = (TextPiece(text),), (TextPiece(other),)
    if max(map(len, words)) > _MOST_WORDS:
        return whole
    ours, theirs = ([match[0].casefold() for match in matches] for matches in words)
    times = Counter(theirs)
    if sum(times[word] for word in ours) > _MOST_PAIRS:
        return whole
    marks: tuple[list[Mark], list[Mark]] = ([], [])
    for operation, *limits in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        for side, (start, end) in enumerate((limits[:2], limits[2:])):
            if operation != "equal" and start < end:
                span = Mark(words[side][start].start(), words[side][end - 1].end(), NOT_IN_OTHER)
                marks[side].append(span)
    return _split_marked_text(text, marks[0]) or whole[0], _split_marked_text(other, marks[1]) or whole[1]
