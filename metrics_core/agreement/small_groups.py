"""Every statistic of many small groups at once, each pair of a group's items compared.

A group is a row of values with weights: the captions of a video over systems, or the systems' means in a resample.
"""

from __future__ import annotations

import numpy as np

from metrics_core.agreement.coefficients import STATISTICS, Coefficients, Moments, PairCounts, coefficients_of
from metrics_core.arrays import FloatArray

# Groups are compared in batches of up to this many pairs (4 MiB of float64).
CELLS = 1 << 19


def rowwise_coefficients(metric: FloatArray, people: FloatArray, weights: FloatArray) -> Coefficients:
    """Compute every statistic of every row.

    metric, people (rows, m) or (1, m): the groups' values. weights (rows, m): how often an item counts; 0 leaves it
    out. Copies of one item are tied on both sides; pairwise accuracy leaves such pairs out.

    >>> found = rowwise_coefficients(np.array([[1.0, 2, 3, 9]]), np.array([[1.0, 3, 2, 0]]), np.array([[1.0, 1, 1, 0]]))
    >>> found["spearman"].tolist(), found["kendall_b"].round(3).tolist()
    ([0.5], [0.333])
    """
    rows, width = weights.shape
    x, y = np.broadcast_to(metric, weights.shape), np.broadcast_to(people, weights.shape)
    at_once = max(1, CELLS // max(1, width * width))
    batches = [
        _batch(x[start : start + at_once], y[start : start + at_once], weights[start : start + at_once])
        for start in range(0, rows, at_once)
    ]
    return {name: np.concatenate([np.zeros(0), *(batch[name] for batch in batches)]) for name in STATISTICS}


def _batch(x: FloatArray, y: FloatArray, w: FloatArray) -> Coefficients:
    """Compute every statistic of one batch of rows."""
    n, copies = w.sum(axis=1), (w**2).sum(axis=1)
    sign_x, sign_y = (np.sign(side[:, :, None] - side[:, None, :]) for side in (x, y))

    def summed(pairs: FloatArray) -> FloatArray:
        total: FloatArray = np.einsum("ri,rij,rj->r", w, pairs, w, optimize=True)
        return total

    tied = ((sign_x == 0) & (sign_y == 0)).astype(np.float64)
    counts = PairCounts(
        n=n,
        pairs=(n**2 - copies) / 2,
        surplus=summed(sign_x * sign_y) / 2,
        untied_x=summed(np.abs(sign_x)) / 2,
        untied_y=summed(np.abs(sign_y)) / 2,
        tied=(summed(tied) - copies) / 2,
        levels=np.minimum(_levels(sign_x, w), _levels(sign_y, w)),
    )
    rank_x, rank_y = (np.einsum("rij,rj->ri", signs, w) / 2 for signs in (sign_x, sign_y))
    with np.errstate(divide="ignore", invalid="ignore"):
        centred_x, centred_y = (side - ((w * side).sum(axis=1) / n)[:, None] for side in (x, y))
    return coefficients_of(counts, _moments(centred_x, centred_y, w), _moments(rank_x, rank_y, w))


def _levels(signs: FloatArray, w: FloatArray) -> FloatArray:
    """Count the different values with weight: items without an equal one before them."""
    earlier = np.tril((signs == 0) & (w > 0)[:, None, :], k=-1).any(axis=2)
    levels: FloatArray = ((w > 0) & ~earlier).sum(axis=1).astype(np.float64)
    return levels


def _moments(x: FloatArray, y: FloatArray, w: FloatArray) -> Moments:
    """Sums of the items of every row."""
    return Moments(w.sum(axis=1), *((w * each).sum(axis=1) for each in (x, y, x * x, y * y, x * y)))
