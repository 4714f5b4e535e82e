"""From embeddings to the similarities that VCS compares: cosines of chunks (S) and of whole texts (GAS)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from metrics_core.stacks import stacks_of
from metrics_core.vcs.checks import check_shape

# One pair's embeddings and their numbers of dimensions: chunks one row each, texts one vector.
NAMES = {"reference_chunks": 2, "generated_chunks": 2, "reference_text": 1, "generated_text": 1}
# float64, or float32 where all embeddings of a call are.
FloatArray = npt.NDArray[Any]
Embeddings = tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike, npt.ArrayLike]


def similarities_of(
    reference_chunks: npt.ArrayLike,
    generated_chunks: npt.ArrayLike,
    reference_text: npt.ArrayLike,
    generated_text: npt.ArrayLike,
) -> tuple[FloatArray, float]:
    """The cosines (R, G) of two texts' chunks, and the cosine of the whole texts.

    Chunks are (R, d) and (G, d), texts (e,); rows need not have unit length, and a zero vector has cosine 0.
    Embeddings that are float32, as encoders give them, are multiplied in float32, as the authors do; all others in
    float64. The result is float64 either way.
    Raises ValueError for embeddings that are empty, not finite, of a wrong or of unequal dimensions.

    >>> similarities_of([[2.0, 0.0]], [[3.0, 0.0], [0.0, 1.0]], [1.0, 0.0], [0.0, 2.0])
    (array([[1., 0.]]), 0.0)
    """
    arrays = checked_embeddings((reference_chunks, generated_chunks, reference_text, generated_text))
    dtype = precision_of([arrays])
    similarity, (gas,) = cosines_of_stack([array[None].astype(dtype) for array in arrays], [""])
    return similarity[0], gas


def similarities_of_pairs(embeddings: Iterable[Embeddings]) -> list[tuple[FloatArray, float]]:
    """`similarities_of` many pairs, the input of `vcs_batch`: pairs of one shape are multiplied together.

    Each pair is given as (reference_chunks, generated_chunks, reference_text, generated_text). Equal to
    `similarities_of` up to rounding; errors name the pair by its position from 0.

    >>> story, text = np.eye(3), np.ones(4)
    >>> [(similarity.shape, gas) for similarity, gas in similarities_of_pairs([(story, story[:2], text, -text)])]
    [((3, 2), -1.0)]
    """
    checked = [checked_embeddings(each, f" of pair {i}") for i, each in enumerate(embeddings)]
    dtype = precision_of(checked)
    found: dict[int, tuple[FloatArray, float]] = {}
    for members in stacks_of([tuple(array.shape for array in arrays) for arrays in checked]):
        stack = [np.stack(arrays, dtype=dtype) for arrays in zip(*(checked[i] for i in members), strict=True)]
        similarity, gas = cosines_of_stack(stack, [f" of pair {i}" for i in members])
        found.update(zip(members, zip(similarity, gas, strict=True), strict=True))
    return [found[i] for i in range(len(checked))]


def precision_of(pairs: Iterable[Sequence[npt.NDArray[Any]]]) -> type[np.float32] | type[np.float64]:
    """float32 where every array is, else float64: one precision for a call, whatever pairs share a stack."""
    return np.float32 if all(array.dtype == np.float32 for arrays in pairs for array in arrays) else np.float64


def checked_embeddings(embeddings: Embeddings, pair: str = "") -> list[npt.NDArray[Any]]:
    """One pair's four arrays, or a ValueError that names the array and, by `pair`, the pair."""
    arrays = [np.asarray(values) for values in embeddings]
    for (name, ndim), array in zip(NAMES.items(), arrays, strict=True):
        check_shape(name + pair, array, ndim)
    for what, reference, generated in (("texts", arrays[2], arrays[3]), ("chunks", arrays[0], arrays[1])):
        if reference.shape[-1] != generated.shape[-1]:
            raise ValueError(
                f"The embeddings of the {what}{pair} have {reference.shape[-1]} and {generated.shape[-1]} "
                "dimensions: embed both sides with one encoder."
            )
    return arrays


def cosines_of_stack(stack: Sequence[FloatArray], pairs: Sequence[str]) -> tuple[FloatArray, list[float]]:
    """Similarities (pairs, R, G) and the GAS of every pair, from stacks of the pairs' four arrays.

    Rounding beyond 1 is cut off: it would push perfect scores above 1. Chunks with the same embedding, such as a word
    that a text repeats, have the same similarities to the last bit, so that no rounding chooses between them.
    """
    reference_chunks, generated_chunks, reference_text, generated_text = stack
    r_chunks, g_chunks, r_text, g_text = (lengths(*each, pairs) for each in zip(NAMES, stack, strict=True))
    similarity: FloatArray = reference_chunks @ generated_chunks.swapaxes(1, 2)
    similarity /= r_chunks[:, :, None]
    similarity /= g_chunks[:, None, :]
    even_out_repeats(similarity, reference_chunks, axis=0)
    even_out_repeats(similarity, generated_chunks, axis=1)
    gas = np.vecdot(reference_text, generated_text) / r_text / g_text
    np.clip(similarity, -1.0, 1.0, out=similarity)
    return similarity.astype(np.float64, copy=False), np.clip(gas, -1.0, 1.0).tolist()


def even_out_repeats(similarity: FloatArray, chunks: FloatArray, axis: int) -> None:
    """Give the chunks of a pair that repeat an earlier one its similarities, in place.

    `similarity` is (pairs, R, G), `chunks` (pairs, n, d) with n along `axis` of a pair. A matrix product sums the same
    row in another order at another place, so equal rows come out unequal in the last bit.
    """
    # Rows that are equal begin alike; the few pairs in which some do are looked at in full.
    beginnings = np.sort(chunks[:, :, 0], axis=1)
    for pair in np.flatnonzero((beginnings[:, 1:] == beginnings[:, :-1]).any(axis=1)):
        places: dict[bytes, int] = {}
        first = [places.setdefault(row.tobytes(), place) for place, row in enumerate(chunks[pair])]
        similarity[pair] = similarity[pair].take(first, axis=axis)


def lengths(name: str, vectors: FloatArray, pairs: Sequence[str]) -> FloatArray:
    """Lengths along the last axis, never 0, so that a zero vector divided by its length stays zero.

    Raises ValueError naming the first pair of the stack with a length that is not finite.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        length: FloatArray = np.sqrt(np.vecdot(vectors, vectors))
    finite = np.isfinite(length)
    if not finite.all():
        pair = pairs[np.argwhere(~finite)[0, 0]]
        raise ValueError(f"{name}{pair} holds NaN, infinite or huge values: check the encoder's output for this pair.")
    never_zero: FloatArray = np.maximum(length, np.finfo(length.dtype).tiny)
    return never_zero
