"""Features of texts longer than a text encoder's context: chunks are encoded one by one, then averaged.

This is the mode `chunk_mean`. In the mode `truncate` the encoder cuts the text instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metrics_core.arrays import FloatArray
from metrics_core.vectors import feature_rows, unit_mean, unit_rows


@dataclass(frozen=True, slots=True)
class ChunkPlan:
    """The chunks of a text, to be encoded one by one, in order. A blank text has no chunks.

    `tokens`: how many tokens of every chunk the encoder sees, at most the limit; the lengths for `weighted_mean`.
    `text_tokens`: the tokens of the whole text. `truncated`: whether the encoder has to cut a word, because the word
    alone is longer than the limit.
    """

    chunks: tuple[str, ...]
    tokens: tuple[int, ...]
    text_tokens: int
    truncated: bool


def plan_chunks(
    text: str,
    *,
    limit: int,
    split_sentences: Callable[[str], Sequence[str]],
    count_tokens: Callable[[str], int],
) -> ChunkPlan:
    """Pack the sentences of a text, in order, into as few chunks of at most `limit` tokens as possible.

    A text within the limit is one chunk, unchanged. A longer sentence is split between words. `count_tokens` and
    `limit` must agree on special tokens: for CLIP the limit is 75 when start and end are not counted.
    Raises ValueError when `limit` is below 1.

    >>> plan = plan_chunks(
    ...     "A man enters. He sits. He reads a book.",
    ...     limit=5,
    ...     split_sentences=lambda text: [part.strip() + "." for part in text.split(".") if part],
    ...     count_tokens=lambda text: len(text.split()),
    ... )
    >>> plan.chunks, plan.tokens, plan.text_tokens
    (('A man enters. He sits.', 'He reads a book.'), (5, 4), 9)
    """
    if limit < 1:
        raise ValueError(f"limit is {limit}: give the number of tokens that fit into the encoder, 1 or more.")
    if not text.strip():
        return ChunkPlan((), (), 0, False)
    text_tokens = count_tokens(text)
    if text_tokens <= limit:
        return ChunkPlan((text,), (text_tokens,), text_tokens, False)
    pieces: list[str] = []
    for sentence in split_sentences(text) or [text]:
        fits = count_tokens(sentence) <= limit
        pieces += [sentence] if fits else pack(sentence.split(), limit, count_tokens)
    chunks = pack(pieces, limit, count_tokens)
    lengths = [count_tokens(chunk) for chunk in chunks]
    seen = tuple(min(length, limit) for length in lengths)
    return ChunkPlan(tuple(chunks), seen, text_tokens, max(lengths) > limit)


def pack(pieces: Iterable[str], limit: int, count_tokens: Callable[[str], int]) -> list[str]:
    """Join as many consecutive pieces with spaces as fit into `limit` tokens. A piece that is too long stays alone."""
    chunks: list[str] = []
    for piece in pieces:
        longer = f"{chunks[-1]} {piece}" if chunks else piece
        if chunks and count_tokens(longer) <= limit:
            chunks[-1] = longer
        else:
            chunks.append(piece)
    return chunks


def weighted_mean(features: npt.ArrayLike, lengths: npt.ArrayLike) -> FloatArray:
    """Average the normalised chunk features (n, d), weighted by the chunks' lengths (n,), into a unit vector (d,).

    A single chunk gives its own feature, normalised, as if the text were encoded at once. All arithmetic is in float64.
    Raises ValueError without features and for lengths that are not positive, BadFeature (a ValueError) for a feature
    that is zero or not finite and where the features cancel out.

    >>> weighted_mean([[2.0, 0.0], [0.0, 5.0]], [3, 4]).round(4).tolist()
    [0.6, 0.8]
    """
    rows = feature_rows("features", features)
    weights = np.asarray(lengths, dtype=np.float64)
    if len(rows) == 0:
        raise ValueError("There are no features to average: record a text without chunks as not scored.")
    if weights.shape != (len(rows),) or not (np.isfinite(weights) & (weights > 0)).all():
        raise ValueError(
            f"lengths are {weights.tolist()}: give one positive number of tokens for each of {len(rows)} chunks."
        )
    return unit_mean("chunks", unit_rows("chunk", rows), weights)
