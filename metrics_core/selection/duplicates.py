"""Finds near-duplicates among ranked samples, exactly."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.intp]

TOLERANCE = 1e-6
"""A cosine below the limit by no more than this counts, since vectors of float32 have no more digits."""
# The rows and the other rows whose products are in memory at once.
_BLOCK, _OTHERS = 1024, 4096
# Numbers per row of which bounds are computed. Bounds are allowed to err by so much.
_HEAD, _SLACK = 64, 1e-5
# Where more than one of so many pairs could be alike, products of whole rows cost less than a product per pair.
_DENSE = 128
# Pairs whose vectors lie in memory at once.
_PAIRS = 4096


def drop_near_duplicates(units: Rows, least_cosine: float) -> Mask:
    """Return a mask (n,) of the rows to keep: a row is dropped where its cosine with an earlier row that is kept is
    `least_cosine` or more. units: (n, d), float32 rows of length 1, the best first. A cosine within 1e-6 below
    `least_cosine` counts, too. Raises ValueError unless 0 < least_cosine <= 1.

    So of two near-duplicates the better one stays, and a row goes only because of a row that stays. The cosine is the
    product of the rows in float64; the tolerance makes equal texts near-duplicates at 1. Time grows with n times the
    number kept; memory beyond the rows is a fifth of theirs or less where d is 384.

    Most pairs are separated by an upper bound of their cosine (see `_compute_heads`); the cosine of the others is
    computed.

    >>> drop_near_duplicates(np.float32([[1, 0], [0.8, 0.6], [0, 1]]), 0.7).tolist()
    [True, False, True]
    """
    if not 0 < least_cosine <= 1:
        raise ValueError(f"least_cosine is {least_cosine:g}: give a cosine above 0 and at most 1")
    limit, heads = least_cosine - TOLERANCE, _compute_heads(units)
    kept = np.empty(0, dtype=np.intp)
    for start in range(0, len(units), _BLOCK):
        left = np.arange(start, min(start + _BLOCK, len(units)))
        for first in range(0, len(kept), _OTHERS):
            rows, _ = _find_alike_pairs(units, heads, left, kept[first : first + _OTHERS], limit)
            left = np.delete(left, rows)
        kept = np.concatenate(
            [kept, left[_choose_greedily(len(left), *_find_alike_pairs(units, heads, left, left, limit))]]
        )
    keep = np.zeros(len(units), dtype=np.bool_)
    keep[kept] = True
    return keep


def find_originals(units: Rows, keep: Mask) -> tuple[Positions, Positions]:
    """Return the positions of the rows that `drop_near_duplicates` dropped, in ascending order, and for every dropped
    row the position of the earlier kept row that is most like it. units: (n, d), the rows that `drop_near_duplicates`
    got; keep: (n,), the mask that it returned. Of rows equally alike the first is taken.

    >>> units = np.float32([[1, 0], [0, 1], [0.8, 0.6]])
    >>> dropped, originals = find_originals(units, drop_near_duplicates(units, 0.5))
    >>> dropped.tolist(), originals.tolist()
    ([2], [0])
    """
    (dropped,), (kept,) = np.nonzero(~keep), np.nonzero(keep)
    originals = np.empty(len(dropped), dtype=np.intp)
    for start in range(0, len(dropped), _BLOCK):
        rows = dropped[start : start + _BLOCK]
        products = units[rows] @ units[kept].T
        products[kept > rows[:, None]] = -np.inf
        originals[start : start + _BLOCK] = kept[products.argmax(axis=1)]
    return dropped, originals


def _compute_heads(units: Rows) -> Rows:
    """Compute short rows (n, _HEAD + 1) whose products are upper bounds of the cosines.

    In the basis of the principal axes a row is a head and a rest. A cosine is the product of two heads and that of two
    rests, and the latter is at most the product of their lengths (Cauchy and Schwarz). So the length of the rest is
    appended to the head. Any orthonormal basis would do; this one makes the rests short.
    """
    if units.shape[1] <= 2 * _HEAD or len(units) <= _OTHERS:
        return units  # finding the axes would cost more than they save
    _, axes = np.linalg.eigh((units.T @ units).astype(np.float64))
    heads = np.empty((len(units), _HEAD + 1), dtype=np.float32)
    np.matmul(units, axes[:, -_HEAD:].astype(np.float32), out=heads[:, :-1])
    squared = np.einsum("ij,ij->i", heads[:, :-1], heads[:, :-1])
    # A little longer than computed: an upper bound must not fall below the cosine by rounding.
    heads[:, -1] = np.sqrt(np.maximum(1 - squared, 0) + _SLACK / 2)
    return heads


def _find_alike_pairs(
    units: Rows, heads: Rows, rows: Positions, others: Positions, limit: float
) -> tuple[Positions, Positions]:
    """Find the pairs whose cosine is `limit` or more, as places in `rows` and in `others`."""
    products = heads[rows] @ heads[others].T
    places = np.flatnonzero(products >= limit - _SLACK)
    is_alike = np.zeros(len(places), dtype=np.bool_)
    if len(places) > products.size // _DENSE:
        np.matmul(units[rows], units[others].T, out=products)
        places = np.flatnonzero(products >= limit - _SLACK)
        is_alike = products.ravel()[places] >= limit + _SLACK
    first, second = np.divmod(places, len(others))
    unsure = np.flatnonzero(~is_alike)
    for start in range(0, len(unsure), _PAIRS):
        part = unsure[start : start + _PAIRS]
        left, right = units[rows[first[part]]], units[others[second[part]]]
        is_alike[part] = np.einsum("ij,ij->i", left, right, dtype=np.float64) >= limit
    return first[is_alike], second[is_alike]


def _choose_greedily(n: int, first: Positions, second: Positions) -> Positions:
    """Choose the places to keep of n rows, given all pairs that are alike, each pair in both orders, by their first
    place.
    """
    is_gone = np.zeros(n, dtype=np.bool_)
    starts = np.searchsorted(first, np.arange(n + 1))
    for place in np.unique(first[first < second]):
        if not is_gone[place]:
            others = second[starts[place] : starts[place + 1]]
            is_gone[others[others > place]] = True
    return np.flatnonzero(~is_gone)
