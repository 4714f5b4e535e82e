"""Texts with the pieces that a metric calls wrong marked, for pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assets.scores.base import Mark


@dataclass(frozen=True, slots=True)
class TextPiece:
    """A piece of a text. note: why a metric calls it wrong; None for a piece that is not marked."""

    text: str
    note: str | None = None


def split_marked_text(text: str, marks: Sequence[Mark]) -> tuple[TextPiece, ...]:
    """Return a text divided into its marked pieces and those between them, in order; () without marks. marks: in the
    order of the text, without overlap.

    >>> split_marked_text("A red dog.", [Mark(2, 5, "it is brown")])[:2]
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
    return split_marked_text(row["answer"] if row["kind"] == "qa" else row["text"], chosen)
