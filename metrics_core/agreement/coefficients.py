"""The coefficients of a metric's values with people's ratings, such as Kendall's tau-b: of one group of items, or of
many small groups at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from metrics_core.arrays import FloatArray, IntArray, number_groups

KENDALL = "kendall_b"
"""Kendall's tau-b, the statistic in which a metric is compared with simple scores and with one more rater."""
TIED_PAIRS = "tied_pairs"
"""The name of the share of pairs, in [0, 1], to which the metric gives equal values."""
SMALL = 128
"""Groups of up to this many items are compared pair by pair, larger ones by SciPy, one after the other."""
FEWEST_SYSTEMS = 5
"""The smallest number of systems for a claim: with 4 systems even the very same order has p = 2/24 by Kendall's test,
with 5 systems 2/120.
"""


def compute_coefficients(metric: FloatArray, people: FloatArray, statistics: Sequence[str]) -> dict[str, float | None]:
    """Compute statistics of a metric's values with people's ratings of the same items, by the names in `statistics`:
    "pearson", "spearman", "kendall_b" and "tied_pairs". A statistic is None where it is undefined: correlations need
    two different numbers on each side, the share of tied pairs two items. metric, people: finite (n,).

    >>> compute_coefficients(np.array([1.0, 2, 3]), np.array([1.0, 3, 2]), ("spearman", "tied_pairs"))
    {'spearman': 0.5, 'tied_pairs': 0.0}
    """
    x, y = dense_ranks(metric), dense_ranks(people)
    coefficients, pairs = dict.fromkeys(statistics, math.nan), x.size * (x.size - 1) // 2
    if pairs and TIED_PAIRS in coefficients:
        coefficients[TIED_PAIRS] = 1 - (pairs - _count_tied_pairs(x)) / pairs
    if x.any() and y.any():
        if "pearson" in coefficients:
            coefficients["pearson"] = _compute_pearson(metric, people)
        if "spearman" in coefficients:
            coefficients["spearman"] = _compute_pearson(mean_ranks(x), mean_ranks(y))
        if KENDALL in coefficients:
            coefficients[KENDALL] = _compute_tau(x, y)
    return {name: value if math.isfinite(value) else None for name, value in coefficients.items()}


def compute_coefficient(metric: FloatArray, people: FloatArray, statistic: str) -> float | None:
    """Compute one of the statistics of `compute_coefficients`, such as "kendall_b", of a metric's values with people's
    ratings of the same items, both finite (n,). None where it is not defined, as for a constant side.

    >>> compute_coefficient(np.array([1.0, 2, 3]), np.array([1.0, 3, 2]), "spearman")
    0.5
    """
    return compute_coefficients(metric, people, (statistic,))[statistic]


def compute_group_taus(metric: FloatArray, people: FloatArray, group: IntArray, n_groups: int) -> FloatArray:
    """Compute Kendall's tau-b of a metric with people within every group of items: an array (n_groups,). It is NaN for
    a group where it is not defined, and for one without items. metric, people: finite (n,). group: (n,), the number of
    each item's group, from 0.
    """
    size = np.bincount(group, minlength=n_groups)
    small = size[group] <= SMALL
    taus = _compute_small_groups(metric[small], people[small], group[small], n_groups)
    large = np.flatnonzero(~small)
    for rows in np.split(large[np.argsort(group[large], kind="stable")], np.cumsum(size[size > SMALL])[:-1]):
        if rows.size:
            value = compute_coefficient(metric[rows], people[rows], KENDALL)
            taus[group[rows[0]]] = math.nan if value is None else value
    return taus


def dense_ranks(values: FloatArray | IntArray) -> IntArray:
    """Rank values from 0 in ascending order without gaps: equal values share a rank, and the next value has the next
    rank.

    >>> dense_ranks(np.array([0.5, 0.1, 0.5])).tolist()
    [1, 0, 1]
    """
    number: IntArray = np.unique(values, return_inverse=True)[1].astype(np.int64)
    return number


def mean_ranks(side: IntArray) -> FloatArray:
    """Convert dense ranks (n,) to mean ranks, from 0.5: equal values share the mean of the places that they take.

    >>> mean_ranks(np.array([0, 1, 1])).tolist()
    [0.5, 2.0, 2.0]
    """
    sizes = np.bincount(side)
    ranks: FloatArray = (np.cumsum(sizes) - sizes / 2)[side]
    return ranks


def list_group_pairs(group: IntArray) -> tuple[IntArray, IntArray]:
    """Return the positions of the first and of the second item of every pair of items in the same group: two integer
    arrays (pairs,). group: (n,), the number of every item's group.

    >>> [rows.tolist() for rows in list_group_pairs(np.array([0, 1, 0, 1, 0]))]
    [[0, 0, 2, 1], [2, 4, 4, 3]]
    """
    order = np.argsort(group, kind="stable")
    sizes = np.diff(np.flatnonzero(np.diff(group[order], prepend=-1, append=-1)))
    # Each item in order is the first of as many pairs as items of its group follow it.
    followers = np.repeat(np.cumsum(sizes), sizes) - np.arange(group.size) - 1
    first = np.repeat(np.arange(group.size), followers)
    second = first + 1 + np.arange(first.size) - np.repeat(np.cumsum(followers) - followers, followers)
    return order[first], order[second]


def require_finite_sides(metric: npt.ArrayLike, people: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return the metric's values and people's ratings as float64 arrays (n,). Raises ValueError for arrays that are not
    both (n,) and for numbers that are not finite.
    """
    left, right = np.asarray(metric, dtype=np.float64), np.asarray(people, dtype=np.float64)
    if left.ndim != 1 or left.shape != right.shape:
        raise ValueError(
            f"metric has shape {left.shape}, people {right.shape}: give both sides one number for every item, (n,)."
        )
    for name, side in (("metric", left), ("people", right)):
        bad = np.flatnonzero(~np.isfinite(side))
        if bad.size:
            raise ValueError(f"{name} {bad[0]} is {side[bad[0]]}: leave out items that lack a number on a side.")
    return left, right


def require_group_numbers(name: str, groups: Sequence[object], n: int) -> IntArray:
    """Number the groups of n items from 0 in the order in which they first appear: an integer array (n,). Raises
    ValueError unless there are n groups; `name`, such as "videos", is the word for them in its text.
    """
    if len(groups) != n:
        raise ValueError(f"There are {len(groups)} {name} for {n} items: give one for each item.")
    return number_groups(groups)


def _compute_pearson(left: FloatArray, right: FloatArray) -> float:
    """Compute Pearson's r of sides that vary; NaN where rounding leaves a side constant."""
    x, y = left - left.mean(), right - right.mean()
    # Divided by their largest first, so that no square is too large or too small for a float.
    x, y = x / np.abs(x).max(), y / np.abs(y).max()
    return float(np.clip(x @ y / math.sqrt(float(x @ x) * float(y @ y)), -1, 1))


def _compute_tau(x: IntArray, y: IntArray) -> float:
    """Compute tau-b of two sides of dense ranks (n,) that vary."""
    if x.size > SMALL:
        from scipy.stats import kendalltau

        return float(np.clip(kendalltau(x, y).statistic, -1, 1))
    pairs = x.size * (x.size - 1) // 2
    # Both orders of every pair.
    surplus = int((np.sign(x[:, None] - x) * np.sign(y[:, None] - y)).sum()) // 2
    untied = [math.sqrt(pairs - _count_tied_pairs(side)) for side in (x, y)]
    return min(1.0, max(-1.0, surplus / (untied[0] * untied[1])))


def _count_tied_pairs(side: IntArray) -> int:
    """Count the pairs of equal numbers."""
    sizes = np.bincount(side)
    return int((sizes * (sizes - 1) // 2).sum())


def _compute_small_groups(metric: FloatArray, people: FloatArray, group: IntArray, n_groups: int) -> FloatArray:
    """Compute tau-b of every group, from all pairs of its items; NaN where a side does not vary."""
    first, second = list_group_pairs(group)
    sign_x, sign_y = (np.sign(side[first] - side[second]) for side in (metric, people))
    surplus, untied_x, untied_y = (
        np.bincount(group[first], signs, n_groups) for signs in (sign_x * sign_y, np.abs(sign_x), np.abs(sign_y))
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        taus: FloatArray = np.clip(surplus / (np.sqrt(untied_x) * np.sqrt(untied_y)), -1, 1)
    return taus


def kendall_p_value(tau: float, n: int) -> float:
    """Compute the two-sided p-value of Kendall's exact test for an order of n systems. It is the chance that a random
    order has a tau with the given order at least as far from 0 as `tau`.

    The test knows no ties; the tau of tied systems is taken as if it came from an order.

    >>> round(kendall_p_value(1.0, 4), 4), round(kendall_p_value(1.0, 5), 4), kendall_p_value(0.0, 5)
    (0.0833, 0.0167, 1.0)
    """
    # The orders of n things by the number of pairs that are turned round: Mahonian numbers.
    counts = [1]
    for size in range(2, n + 1):
        counts = [sum(counts[max(0, k - size + 1) : k + 1]) for k in range(len(counts) + size - 1)]
    pairs = n * (n - 1) // 2
    turned = (1 - abs(tau)) * pairs / 2
    as_far = sum(count for k, count in enumerate(counts) if k <= turned + 1e-9)
    return min(1.0, 2 * as_far / sum(counts))
