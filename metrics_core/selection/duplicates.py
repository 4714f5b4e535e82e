"""Near-duplicates among ranked samples, exactly."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]

# Products of so many rows with so many others lie in memory at once: 64 MiB of float32.
_BLOCK, _OTHERS = 2048, 8192


def without_near_duplicates(units: Rows, at_least: float) -> Mask:
    """Which rows to keep (n,): a row goes where its cosine with an earlier row that is kept is `at_least` or more.

    units: (n, d), float32 rows of length 1, the best first. 0 < at_least <= 1. So of two near-duplicates the better one
    stays, and a row goes only because of a row that stays. Cosines are those of float32, whose rounding is allowed for:
    a cosine within 1e-6 below `at_least` counts. Time grows with n times the number kept; memory beyond the rows does
    not grow. Raises ValueError for another `at_least`.

    >>> without_near_duplicates(np.float32([[1, 0], [0.8, 0.6], [0, 1]]), 0.7).tolist()
    [True, False, True]
    """
    if not 0 < at_least <= 1:
        raise ValueError(f"at_least is {at_least:g}: give a cosine above 0 and at most 1")
    limit = np.float32(at_least - 1e-6)
    keep = np.zeros(len(units), dtype=np.bool_)
    kept = np.empty_like(units)
    n_kept = 0
    for start in range(0, len(units), _BLOCK):
        block = units[start : start + _BLOCK]
        fresh = _unlike(block, kept[:n_kept], limit)
        chosen = fresh[_greedy(block[fresh] @ block[fresh].T >= limit)]
        keep[start + chosen] = True
        kept[n_kept : n_kept + len(chosen)] = block[chosen]
        n_kept += len(chosen)
    return keep


def _unlike(block: Rows, kept: Rows, limit: np.float32) -> npt.NDArray[np.intp]:
    """The positions of the rows of a block that are no near-duplicate of a kept row."""
    left = np.arange(len(block))
    for start in range(0, len(kept), _OTHERS):
        others = kept[start : start + _OTHERS]
        left = left[~(block[left] @ others.T >= limit).any(axis=1)]
    return left


def _greedy(alike: Mask) -> npt.NDArray[np.intp]:
    """The positions to keep, given which rows are alike (n, n)."""
    is_gone = np.zeros(len(alike), dtype=np.bool_)
    for position in np.flatnonzero(np.triu(alike, k=1).any(axis=1)):
        if not is_gone[position]:
            is_gone[position + 1 :] |= alike[position, position + 1 :]
    return np.flatnonzero(~is_gone)
