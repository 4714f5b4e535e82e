"""Finds near-duplicates among ranked samples: exactly, or by cells where there are too many for that."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.intp]

EXACT_UP_TO = 250_000
"""Of more rows than this, near-duplicates are looked for in the nearest cells only, which misses a few."""
TOLERANCE = 1e-6
"""A cosine below the limit by no more than this counts, since vectors of float32 have no more digits."""
# The rows and the other rows whose products are in memory at once.
_BLOCK, _OTHERS = 1024, 4096
# The rows that are compared with the cells of all rows before them at once.
_STRETCH = 16_384
# Numbers per row of which bounds are computed. Bounds are allowed to err by so much.
_HEAD, _SLACK = 64, 1e-5
# Where more than one of so many pairs could be similar enough, products of whole rows cost less than a product per
# pair.
_DENSE = 128
# Pairs whose vectors lie in memory at once.
_PAIRS = 4096


def mark_distinct_rows(units: Rows, least_cosine: float) -> Mask:
    """Return a mask (n,) of the rows to keep: a row is dropped where its cosine with an earlier row that is kept is
    `least_cosine` or more. units: (n, d), float32 rows of length 1, the best first. A cosine within 1e-6 below
    `least_cosine` counts, too. Raises ValueError unless 0 < least_cosine <= 1.

    So of two near-duplicates the better one stays, and a row goes only because of a row that stays. The cosine is the
    product of the rows in float64; the tolerance makes equal texts near-duplicates at 1.

    Up to EXACT_UP_TO (250,000) rows none is missed: most pairs are separated by an upper bound of their cosine, and the
    cosine of the others is computed. Time grows with n times the number kept; memory beyond the rows is a fifth of
    theirs or less where d is 384. Of more rows, a row is compared with those of its stretch of 16,384 rows, and of the
    stretches before with those in its 24 nearest cells; see `estimate_missed`.

    >>> mark_distinct_rows(np.float32([[1, 0], [0.8, 0.6], [0, 1]]), 0.7).tolist()
    [True, False, True]
    """
    if not 0 < least_cosine <= 1:
        raise ValueError(f"least_cosine is {least_cosine:g}: give a cosine above 0 and at most 1")
    limit, heads = least_cosine - TOLERANCE, _compute_heads(units)
    rows = np.arange(len(units))
    if len(units) <= EXACT_UP_TO:
        kept = _keep_unlike(units, heads, rows, limit)
    else:
        kept = _keep_unlike_in_cells(units, heads, rows, limit)
    keep = np.zeros(len(units), dtype=np.bool_)
    keep[kept] = True
    return keep


@dataclass(frozen=True, slots=True)
class MissedDuplicates:
    """An estimate of the near-duplicates that a search by cells kept: `n_missed` of `n_sampled` kept rows drawn at
    random are near-duplicates of an earlier kept row, so about the share `share` of all near-duplicates was missed, and
    at most `high` (95 % limit).
    """

    n_sampled: int
    n_missed: int
    share: float
    high: float


def estimate_missed(units: Rows, keep: Mask, least_cosine: float, n_sampled: int = 5000) -> MissedDuplicates | None:
    """Estimate how many near-duplicates `mark_distinct_rows` missed, by comparing `n_sampled` kept rows with all
    earlier ones; None where its search is exact. units, least_cosine: its arguments; keep: (n,), its result.
    """
    from scipy.special import betaincinv

    if len(units) <= EXACT_UP_TO:
        return None
    (kept,) = np.nonzero(keep)
    drawn = np.sort(np.random.default_rng(0).choice(kept, min(n_sampled, len(kept)), replace=False))
    limit, heads, missed = least_cosine - TOLERANCE, _compute_heads(units), np.zeros(len(drawn), dtype=np.bool_)
    for first in range(0, len(kept), _OTHERS):
        others = kept[first : first + _OTHERS]
        row, other = _find_alike_pairs(units, heads, drawn, others, limit)
        missed[row[others[other] < drawn[row]]] = True
    n_missed, n_drawn = int(missed.sum()), len(drawn)

    def compute_share(of_kept: float) -> float:
        among_kept = of_kept * len(kept)
        return among_kept / (among_kept + len(units) - len(kept)) if among_kept else 0.0

    high = float(betaincinv(n_missed + 1, n_drawn - n_missed, 0.95)) if n_missed < n_drawn else 1.0
    return MissedDuplicates(n_drawn, n_missed, compute_share(n_missed / n_drawn), compute_share(high))


def _keep_unlike(units: Rows, heads: Rows, rows: Positions, limit: float) -> Positions:
    """Choose the rows to keep of these, in their order; all of them are compared."""
    kept: Positions = rows[:0]
    for start in range(0, len(rows), _BLOCK):
        left = rows[start : start + _BLOCK]
        left = left[~_find_alike(units, heads, left, kept, limit)]
        left = left[_choose_greedily(len(left), *_find_alike_pairs(units, heads, left, left, limit))]
        kept = np.concatenate([kept, left])
    return kept


def _keep_unlike_in_cells(units: Rows, heads: Rows, rows: Positions, limit: float) -> Positions:
    """Choose the rows to keep of these, in their order. All rows of a stretch are compared; of the stretches before,
    the kept rows whose cell is one of those nearest to a row.
    """
    from metrics_core.selection.cells import find_cells, learn_cells

    centers = learn_cells(units)
    kept, kept_cells = rows[:0], rows[:0]
    for start in range(0, len(rows), _STRETCH):
        stretch = rows[start : start + _STRETCH]
        cells = find_cells(units[stretch], centers)
        is_alike = np.zeros(len(stretch), dtype=np.bool_)
        probing, of_kept = _group_by_cell(cells.ravel(), len(centers)), _group_by_cell(kept_cells, len(centers))
        for entries, members in zip(probing, of_kept, strict=True):
            places = entries // cells.shape[1]
            places = places[~is_alike[places]]
            is_alike[places] = _find_alike(units, heads, stretch[places], kept[members], limit)
        left = _keep_unlike(units, heads, stretch[~is_alike], limit)
        kept, kept_cells = np.concatenate([kept, left]), np.concatenate([kept_cells, cells[left - start, 0]])
    return kept


def _group_by_cell(cells: npt.NDArray[np.int64], n_cells: int) -> list[Positions]:
    """List for every cell the places in `cells` that name it, in ascending order."""
    order = np.argsort(cells, kind="stable")
    return np.split(order, np.searchsorted(cells[order], np.arange(1, n_cells)))


def _find_alike(units: Rows, heads: Rows, rows: Positions, others: Positions, limit: float) -> Mask:
    """Return a mask of the rows whose cosine with one of the others is `limit` or more."""
    is_alike = np.ones(len(rows), dtype=np.bool_)
    for start in range(0, len(rows), _BLOCK):
        left = np.arange(start, min(start + _BLOCK, len(rows)))
        for first in range(0, len(others), _OTHERS):
            pairs = _find_alike_pairs(units, heads, rows[left], others[first : first + _OTHERS], limit)
            left = np.delete(left, pairs[0])
        is_alike[left] = False
    return is_alike


def find_originals(units: Rows, keep: Mask) -> tuple[Positions, Positions]:
    """Return the positions of the rows that `mark_distinct_rows` dropped, in ascending order, and for every dropped
    row the position of the earlier kept row that is most like it. units: (n, d), the rows that `mark_distinct_rows`
    got; keep: (n,), the mask that it returned. Of equally similar rows the first is taken.

    >>> units = np.float32([[1, 0], [0, 1], [0.8, 0.6]])
    >>> dropped, originals = find_originals(units, mark_distinct_rows(units, 0.5))
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
    """Choose the places to keep of n rows, given all pairs that are similar enough, each pair in both orders, by their
    first place.
    """
    is_gone = np.zeros(n, dtype=np.bool_)
    starts = np.searchsorted(first, np.arange(n + 1))
    for place in np.unique(first[first < second]):
        if not is_gone[place]:
            others = second[starts[place] : starts[place + 1]]
            is_gone[others[others > place]] = True
    return np.flatnonzero(~is_gone)
