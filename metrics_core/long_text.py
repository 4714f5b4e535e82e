"""Whole-text features of texts longer than a text encoder's context: encode chunks, then average.

The mode is called `chunk_mean`. Cutting the text off instead (`truncate`) is done by the encoder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metrics_core.evqa.features import feature_rows, unit_mean, unit_rows


@dataclass(frozen=True, slots=True)
class ChunkPlan:
    """Chunks of a text to be encoded one by one, in order.

    `tokens` are the tokens of each chunk that the encoder sees, at most the limit: the lengths for `weighted_mean`.
    `text_tokens` are those of the whole text. `truncated` is True when a single word is longer than the limit, so
    that the encoder has to cut it. A blank text has no chunks.
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
    """Pack the sentences of a text into as few consecutive chunks of at most `limit` tokens as go in order.

    A text within the limit is one chunk, unchanged. A sentence beyond the limit is split between words. `count_tokens`
    and `limit` must agree on special tokens: 75 for CLIP when start and end are not counted.
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
    """Join consecutive pieces with spaces, as many as fit into `limit` tokens; one that does not fit stays alone."""
    chunks: list[str] = []
    for piece in pieces:
        longer = f"{chunks[-1]} {piece}" if chunks else piece
        if chunks and count_tokens(longer) <= limit:
            chunks[-1] = longer
        else:
            chunks.append(piece)
    return chunks


def weighted_mean(features: npt.ArrayLike, lengths: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Unit vector (d,) along the mean of the normalised chunk features (n, d), weighted by the chunks' lengths (n,).

    One chunk gives its own feature, normalised: what encoding the text at once gives. All in float64.
    Raises ValueError without features or for lengths that are not positive, BadFeature (a ValueError) for a feature
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
