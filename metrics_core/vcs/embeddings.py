"""Join segments into chunks, and compute cosines from embeddings: of all chunks (S) and of the whole texts (GAS)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from metrics_core.arrays import FloatArray, group_equal_shapes
from metrics_core.vcs.checks import check_shape

# The four embeddings of a pair, with their numbers of dimensions: chunks are rows of a matrix, a text is one vector.
EMBEDDING_NAMES = {"reference_chunks": 2, "generated_chunks": 2, "reference_text": 1, "generated_text": 1}
# float32 where all embeddings of a call are float32, else float64.
RealArray = npt.NDArray[Any]
Embeddings = tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike, npt.ArrayLike]


def chunk_segments(segments: Sequence[str], chunk_size: int = 1) -> list[str]:
    """Return chunks of `chunk_size` consecutive segments, joined with one space, in order. The last chunk may hold
    fewer. Raises ValueError when `chunk_size` is below 1.

    >>> chunk_segments(["A man enters.", "He sits.", "He reads."], chunk_size=2)
    ['A man enters. He sits.', 'He reads.']
    """
    if chunk_size < 1:
        raise ValueError(f"chunk_size is {chunk_size}: give the number of segments per chunk, 1 or more.")
    return [" ".join(segments[i : i + chunk_size]) for i in range(0, len(segments), chunk_size)]


def compute_similarities(
    reference_chunks: npt.ArrayLike,
    generated_chunks: npt.ArrayLike,
    reference_text: npt.ArrayLike,
    generated_text: npt.ArrayLike,
) -> tuple[FloatArray, float]:
    """Return the cosines (R, G) of two texts' chunks, and the cosine of the whole texts. Chunks are embeddings (R, d)
    and (G, d), texts (e,); rows need not have unit length, and a zero vector has cosine 0. Raises ValueError for
    embeddings that are empty, not finite, of a wrong shape or of unequal dimensions.

    Where all embeddings are float32, as encoders give them, they are multiplied in float32, as in the authors' code,
    else in float64. The cosines are float64 either way.

    >>> compute_similarities([[2.0, 0.0]], [[3.0, 0.0], [0.0, 1.0]], [1.0, 0.0], [0.0, 2.0])
    (array([[1., 0.]]), 0.0)
    """
    arrays = _require_embeddings((reference_chunks, generated_chunks, reference_text, generated_text))
    dtype = _choose_dtype([arrays])
    similarity, (gas,) = _compute_stack_cosines([array[None].astype(dtype) for array in arrays], [""])
    return similarity[0], gas


def compute_pair_similarities(embeddings: Iterable[Embeddings]) -> list[tuple[FloatArray, float]]:
    """Return (chunk cosines (R, G), cosine of the whole texts) of every pair, in order, as `vcs_batch` takes them. A
    pair is four embeddings: (reference_chunks (R, d), generated_chunks (G, d), reference_text (e,), generated_text
    (e,)). Errors are those of `compute_similarities`, and name the pair by its position from 0.

    Pairs of one shape are multiplied together. The results equal `compute_similarities` up to rounding. One pair in
    float64 makes the whole call compute in float64.

    >>> story, text = np.eye(3), np.ones(4)
    >>> [(similarity.shape, gas) for similarity, gas in compute_pair_similarities([(story, story[:2], text, -text)])]
    [((3, 2), -1.0)]
    """
    checked = [_require_embeddings(pair, f" of pair {i}") for i, pair in enumerate(embeddings)]
    dtype = _choose_dtype(checked)
    similarities: dict[int, tuple[FloatArray, float]] = {}
    for members in group_equal_shapes([tuple(array.shape for array in arrays) for arrays in checked]):
        stack = [np.stack(arrays, dtype=dtype) for arrays in zip(*(checked[i] for i in members), strict=True)]
        similarity, gas = _compute_stack_cosines(stack, [f" of pair {i}" for i in members])
        similarities.update(zip(members, zip(similarity, gas, strict=True), strict=True))
    return [similarities[i] for i in range(len(checked))]


def _choose_dtype(pairs: Iterable[Sequence[RealArray]]) -> type[np.float32] | type[np.float64]:
    """Return the one precision of a whole call: float32 where every array of every pair is float32, else float64."""
    return np.float32 if all(array.dtype == np.float32 for arrays in pairs for array in arrays) else np.float64


def _require_embeddings(embeddings: Embeddings, pair: str = "") -> list[RealArray]:
    """Return the four embeddings of a pair as arrays, in the order of EMBEDDING_NAMES. Raises ValueError for one that
    is empty or of a wrong shape, and for unequal dimensions of both sides; `pair`, such as " of pair 3", names the
    pair.
    """
    arrays = [np.asarray(values) for values in embeddings]
    for (name, ndim), array in zip(EMBEDDING_NAMES.items(), arrays, strict=True):
        check_shape(name + pair, array, ndim)
    for kind, reference, generated in (("texts", arrays[2], arrays[3]), ("chunks", arrays[0], arrays[1])):
        if reference.shape[-1] != generated.shape[-1]:
            raise ValueError(
                f"The embeddings of the {kind}{pair} have {reference.shape[-1]} and {generated.shape[-1]} "
                "dimensions: embed both sides with one encoder."
            )
    return arrays


def _compute_stack_cosines(stack: Sequence[RealArray], pairs: Sequence[str]) -> tuple[FloatArray, list[float]]:
    """Return the cosines (pairs, R, G) of chunks and the cosine of the whole texts of every pair. stack: the pairs'
    four arrays in the order of EMBEDDING_NAMES, stacked along a first axis. pairs: the pairs' names for errors. Raises
    ValueError for embeddings that are not finite.

    Cosines that rounding carries beyond 1 are set to 1, or perfect scores would exceed 1. Chunks with the same
    embedding, such as a word that a text repeats, get the same similarities to the last bit, so that rounding never
    chooses between them.
    """
    reference_chunks, generated_chunks, reference_text, generated_text = stack
    r_chunks, g_chunks, r_text, g_text = (
        _compute_nonzero_lengths(name, rows, pairs) for name, rows in zip(EMBEDDING_NAMES, stack, strict=True)
    )
    similarity: RealArray = reference_chunks @ generated_chunks.swapaxes(1, 2)
    similarity /= r_chunks[:, :, None]
    similarity /= g_chunks[:, None, :]
    _copy_repeated_similarities(similarity, reference_chunks, axis=0)
    _copy_repeated_similarities(similarity, generated_chunks, axis=1)
    gas = np.vecdot(reference_text, generated_text) / r_text / g_text
    np.clip(similarity, -1.0, 1.0, out=similarity)
    return similarity.astype(np.float64, copy=False), np.clip(gas, -1.0, 1.0).tolist()


def _copy_repeated_similarities(similarity: RealArray, chunks: RealArray, axis: int) -> None:
    """Copy the similarities of a chunk to every later chunk of its pair with the same embedding; `similarity` (pairs,
    R, G) is changed in place. chunks: (pairs, n, d), with n along `axis` of a pair: 0 for reference chunks, 1 for
    generated ones.

    A matrix product may add up equal rows in different orders, so their results may differ in the last bit.
    """
    # Equal rows have equal first numbers. Few pairs have rows with equal first numbers, and only these are searched.
    beginnings = np.sort(chunks[:, :, 0], axis=1)
    for pair in np.flatnonzero((beginnings[:, 1:] == beginnings[:, :-1]).any(axis=1)):
        places: dict[bytes, int] = {}
        first = [places.setdefault(row.tobytes(), place) for place, row in enumerate(chunks[pair])]
        similarity[pair] = similarity[pair].take(first, axis=axis)


def _compute_nonzero_lengths(name: str, vectors: RealArray, pairs: Sequence[str]) -> RealArray:
    """Return the lengths of vectors along the last axis; for a zero vector the smallest positive number, so that
    division keeps it zero. Raises ValueError for a length that is not finite, with `name` and the first such pair's
    name in `pairs`.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        length: RealArray = np.sqrt(np.vecdot(vectors, vectors))
    finite = np.isfinite(length)
    if not finite.all():
        pair = pairs[np.argwhere(~finite)[0, 0]]
        raise ValueError(f"{name}{pair} holds NaN, infinite or huge values: check the encoder's output for this pair.")
    never_zero: RealArray = np.maximum(length, np.finfo(length.dtype).tiny)
    return never_zero
