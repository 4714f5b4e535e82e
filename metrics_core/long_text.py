"""Features of texts that are longer than a text encoder's context: the text is split into chunks, which are encoded one
by one and averaged.

This is the mode `chunk_mean`. In the mode `truncate` the encoder cuts the text instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metrics_core.arrays import FloatArray
from metrics_core.vectors import average_unit_rows, normalise_rows, require_feature_rows


@dataclass(frozen=True, slots=True)
class TextChunks:
    """A text split into chunks that fit into a text encoder, in order; a blank text has none. tokens: how many tokens
    of every chunk the encoder reads, the weights of `average_chunk_features`. text_tokens: how many the whole text has.
    truncated: whether the encoder cuts off a word that is longer than the limit.
    """

    chunks: tuple[str, ...]
    tokens: tuple[int, ...]
    text_tokens: int
    truncated: bool


def split_into_chunks(
    text: str,
    *,
    limit: int,
    split_sentences: Callable[[str], Sequence[str]],
    count_tokens: Callable[[str], int],
) -> TextChunks:
    """Split a text into few chunks of at most `limit` tokens, joining consecutive sentences with spaces. A text within
    the limit is one chunk, unchanged; a blank one has none. A sentence longer than the limit is split between words; a
    word longer than the limit stays one chunk, and `truncated` is set.

    `count_tokens` and `limit` must agree on special tokens: for CLIP the limit is 75 when start and end are not
    counted. Raises ValueError when `limit` is below 1.

    >>> chunked = split_into_chunks(
    ...     "A man enters. He sits. He reads a book.",
    ...     limit=5,
    ...     split_sentences=lambda text: [part.strip() + "." for part in text.split(".") if part],
    ...     count_tokens=lambda text: len(text.split()),
    ... )
    >>> chunked.chunks, chunked.tokens, chunked.text_tokens
    (('A man enters. He sits.', 'He reads a book.'), (5, 4), 9)
    """
    if limit < 1:
        raise ValueError(f"limit is {limit}: give the number of tokens that fit into the encoder, 1 or more.")
    if not text.strip():
        return TextChunks((), (), 0, False)
    text_tokens = count_tokens(text)
    if text_tokens <= limit:
        return TextChunks((text,), (text_tokens,), text_tokens, False)
    pieces: list[str] = []
    for sentence in split_sentences(text) or [text]:
        fits = count_tokens(sentence) <= limit
        pieces += [sentence] if fits else pack_chunks(sentence.split(), limit, count_tokens)
    chunks = pack_chunks(pieces, limit, count_tokens)
    lengths = [count_tokens(chunk) for chunk in chunks]
    seen = tuple(min(length, limit) for length in lengths)
    return TextChunks(tuple(chunks), seen, text_tokens, max(lengths) > limit)


def pack_chunks(pieces: Sequence[str], limit: int, count_tokens: Callable[[str], int]) -> list[str]:
    """Join consecutive pieces of a text with spaces into chunks of at most `limit` tokens, as many pieces as fit into
    each chunk: a list in the order of the text. A piece that is longer than the limit becomes a chunk of its own.

    A text must have no fewer tokens than its beginning. The time grows in proportion to the number of pieces.
    """
    chunks: list[str] = []
    start = 0
    while start < len(pieces):
        end = _end_of_chunk(pieces, start, lambda joined: count_tokens(joined) <= limit)
        chunks.append(" ".join(pieces[start:end]))
        start = end
    return chunks


def _end_of_chunk(pieces: Sequence[str], start: int, fits: Callable[[str], bool]) -> int:
    """Return the position after the longest run of pieces from `start` that fits; one piece always counts as fitting.

    Steps that double find an end that does not fit, and bisection the last one that does: to count the tokens anew
    for every piece would take a time in proportion to the pieces of a chunk, squared.
    """
    end, beyond = start + 1, len(pieces) + 1
    step = 1
    while end + step < beyond:
        if fits(" ".join(pieces[start : end + step])):
            end, step = end + step, 2 * step
        else:
            beyond = end + step
    while beyond - end > 1:
        middle = (end + beyond) // 2
        if fits(" ".join(pieces[start:middle])):
            end = middle
        else:
            beyond = middle
    return end


def average_chunk_features(features: npt.ArrayLike, lengths: npt.ArrayLike) -> FloatArray:
    """Average the features of a text's chunks (n, d) into one unit vector (d,) in float64: scaled to length 1 and
    weighted by the chunks' lengths (n,) in tokens. Raises ValueError without features and for lengths that are not
    positive, and BadFeature (a ValueError) for a feature that is zero or not finite, and where features cancel out.

    A single chunk gives its own feature, normalised, as if the text were encoded at once.

    >>> average_chunk_features([[2.0, 0.0], [0.0, 5.0]], [3, 4]).round(4).tolist()
    [0.6, 0.8]
    """
    rows = require_feature_rows("features", features)
    weights = np.asarray(lengths, dtype=np.float64)
    if len(rows) == 0:
        raise ValueError("There are no features to average: record a text without chunks as not scored.")
    if weights.shape != (len(rows),) or not (np.isfinite(weights) & (weights > 0)).all():
        raise ValueError(
            f"lengths are {weights.tolist()}: give a positive number of tokens for every one of {len(rows)} chunks."
        )
    return average_unit_rows("chunks", normalise_rows("chunk", rows), weights)
