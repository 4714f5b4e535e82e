"""Find the pieces that a judge calls wrong in the judged text, and drop what is not in it."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from metrics_core.judge.prompt import MAX_SPANS

# A piece is looked for in so many places: a text that repeats it more often is no caption.
_MOST_PLACES = 1000
# What models put around a piece that they copy.
_AROUND = " \"'`´‘’“”„«»()[]{}*_.,;:!?…"


@dataclass(frozen=True, slots=True)
class WrongSpan:
    """A piece of a text that a judge calls wrong or unsupported, and the reason; "" if it gave none. start, end: places
    of its first character and after its last one, in characters from 0.
    """

    start: int
    end: int
    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class FoundSpans:
    """The pieces of a text that a judge calls wrong, at most 5, in the order of the text and without overlap.
    n_not_in_text: how many pieces were dropped, since the text does not have them. n_surplus: how many were dropped
    after the fifth.
    """

    spans: tuple[WrongSpan, ...] = ()
    n_not_in_text: int = 0
    n_surplus: int = 0


def find_spans(text: str, pieces: Sequence[tuple[str, str]]) -> FoundSpans:
    """Find pieces in a text, given as (piece, reason), the worst first. Case, spaces, the width of letters and
    punctuation at the ends make no difference. A piece that overlaps an earlier one is looked for elsewhere, and joined
    to the earlier one if it is nowhere else.

    >>> found = find_spans("A red dog runs, a red cat sleeps.", [("Red", "it is brown"), ("a bird", ""), ("red", "")])
    >>> [(span.start, span.end, span.text) for span in found.spans], found.n_not_in_text
    ([(2, 5, 'red'), (18, 21, 'red')], 1)
    """
    folded, letters = _fold(text)
    spans: list[WrongSpan] = []
    n_not_in_text = n_surplus = 0
    for piece, reason in pieces:
        places = _list_places(text, folded, letters, piece)
        if not places:
            n_not_in_text += 1
        elif free := next((place for place in places if not _find_overlapping(spans, *place)), None):
            if len(spans) < MAX_SPANS:
                spans.append(_build_span(text, *free, reason))
            else:
                n_surplus += 1
        else:
            spans = _join(text, spans, *places[0], reason)
    return FoundSpans(tuple(sorted(spans, key=lambda span: span.start)), n_not_in_text, n_surplus)


def _build_span(text: str, start: int, end: int, reason: str) -> WrongSpan:
    return WrongSpan(start, end, text[start:end], " ".join(reason.split()))


def _find_overlapping(spans: Sequence[WrongSpan], start: int, end: int) -> list[WrongSpan]:
    return [span for span in spans if span.start < end and start < span.end]


def _join(text: str, spans: Sequence[WrongSpan], start: int, end: int, reason: str) -> list[WrongSpan]:
    """Return the spans with those that overlap a new one joined with it, at the place of the first of them."""
    overlapping = _find_overlapping(spans, start, end)
    start, end = min(start, *(span.start for span in overlapping)), max(end, *(span.end for span in overlapping))
    given = "; ".join(filter(None, [*(span.reason for span in overlapping), " ".join(reason.split())]))
    reasons = dict.fromkeys(given.split("; "))
    joined = _build_span(text, start, end, "; ".join(reasons))
    return [joined if span is overlapping[0] else span for span in spans if span not in overlapping[1:]]


def _list_places(text: str, folded: str, letters: Sequence[int], piece: str) -> list[tuple[int, int]]:
    """List (start, end) of the first 1,000 occurrences of a piece in a text: first those that are whole words, then the
    others; all occurrences of the same letters come before those that only compare equal. folded, letters: the text as
    `_fold` returns it.
    """
    wanted = _fold(piece)[0].strip(_AROUND)
    found: list[tuple[int, int]] = []
    start = folded.find(wanted) if wanted else -1
    # Occurrences may overlap.
    while start >= 0 and len(found) < _MOST_PLACES:
        found.append((letters[start], letters[start + len(wanted) - 1] + 1))
        start = folded.find(wanted, start + 1)
    exact = piece.strip(_AROUND)
    return sorted(
        dict.fromkeys(found), key=lambda place: (text[slice(*place)] != exact, not _is_whole(text, *place), place)
    )


def _is_whole(text: str, start: int, end: int) -> bool:
    """Whether no word of the text is cut at the ends of a piece."""
    is_cut_before = start > 0 and text[start - 1].isalnum() and text[start].isalnum()
    is_cut_after = end < len(text) and text[end - 1].isalnum() and text[end].isalnum()
    return not is_cut_before and not is_cut_after


def _fold(text: str) -> tuple[str, list[int]]:
    """Return (the text as pieces are compared, the place in `text` of every character of it). Letters are taken apart
    from their accents (NFKD) and case-folded, and spaces are single.
    """
    folded: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text):
        letters = unicodedata.normalize("NFKD", character).casefold()
        if letters.isspace():
            letters = "" if folded and folded[-1] == " " else " "
        folded += letters
        places += [place] * len(letters)
    return "".join(folded), places
