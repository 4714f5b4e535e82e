"""The statistics of the agreement table, such as Kendall's tau-b: computed for one group of items, or for many small
groups at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from metrics_core.arrays import FloatArray, IntArray, number_groups

TIED_PAIRS = "tied_pairs"
"""The name of the share of pairs, in [0, 1], to which the metric gives equal values."""
STATISTICS = ("pearson", "spearman", "kendall_b", "kendall_c", "pairwise_accuracy", TIED_PAIRS)
"""Pearson's r, Spearman's rho, Kendall's tau-b and tau-c in [-1, 1]; pairwise accuracy and tied pairs in [0, 1].

Pairwise accuracy (acc_eq) is the share of pairs that both sides order alike or both tie (Deutsch et al. 2023).
"""
PAIR_STATISTICS = ("kendall_b", "kendall_c", "pairwise_accuracy", TIED_PAIRS)
SMALL = 128
"""Groups of up to this many items are compared pair by pair, larger ones by SciPy, one after the other."""

GroupCoefficients = dict[str, FloatArray]
"""An array (groups,) by the name of a statistic; NaN for a group in which it is not defined."""


def compute_coefficients(
    metric: FloatArray, people: FloatArray, statistics: Sequence[str] = STATISTICS
) -> dict[str, float | None]:
    """Compute statistics of a metric's values with people's ratings of the same items: a number by the names in
    `statistics`, None where a statistic is not defined. metric, people: finite (n,). Correlations need two different
    numbers on each side; pairwise accuracy and the share of tied pairs need two items.

    >>> coefficients = compute_coefficients(np.array([1.0, 2, 3, 4, 5, 5]), np.array([1.0, 3, 2, 4, 4, 6]))
    >>> {name: round(value, 6) for name, value in coefficients.items()}["kendall_c"]
    0.763889
    """
    x, y = dense_ranks(metric), dense_ranks(people)
    varied = bool(x.any() and y.any())
    coefficients = dict.fromkeys(statistics, math.nan)
    if varied and "pearson" in coefficients:
        coefficients["pearson"] = _pearson(metric, people)
    if varied and "spearman" in coefficients:
        coefficients["spearman"] = _pearson(mean_ranks(x), mean_ranks(y))
    if any(name in coefficients for name in PAIR_STATISTICS):
        pair_statistics = _compare_pairs(x, y, varied)
        coefficients |= {name: float(pair_statistics[name]) for name in coefficients if name in pair_statistics}
    return {name: value if math.isfinite(value) else None for name, value in coefficients.items()}


def compute_coefficient(metric: FloatArray, people: FloatArray, statistic: str) -> float | None:
    """Compute one statistic, a name of STATISTICS such as "kendall_b", of a metric's values with people's ratings of
    the same items, both finite (n,). None where it is not defined, as for a constant side.

    >>> compute_coefficient(np.array([1.0, 2, 3]), np.array([1.0, 3, 2]), "spearman")
    0.5
    """
    return compute_coefficients(metric, people, (statistic,))[statistic]


def compute_group_coefficients(
    metric: FloatArray, people: FloatArray, group: IntArray, n_groups: int, statistics: Sequence[str] = STATISTICS
) -> GroupCoefficients:
    """Compute statistics of a metric with people within every group of items: an array (n_groups,) by the name of the
    statistic. It is NaN for a group where the statistic is not defined, and for one without items. metric, people:
    finite (n,). group: (n,), the number of each item's group, from 0.
    """
    size = np.bincount(group, minlength=n_groups)
    small = size[group] <= SMALL
    coefficients = _compute_small_groups(metric[small], people[small], group[small], n_groups)
    large = np.flatnonzero(~small)
    for rows in np.split(large[np.argsort(group[large], kind="stable")], np.cumsum(size[size > SMALL])[:-1]):
        for name, value in compute_coefficients(metric[rows], people[rows], statistics).items() if rows.size else ():
            coefficients[name][group[rows[0]]] = math.nan if value is None else value
    return {name: coefficients[name] for name in statistics}


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
    arrays (pairs,), where `group` (n,) has the number of each item's group.

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
    """Replace the groups of n items by numbers from 0 in the order in which they first appear: an integer array (n,).
    Raises ValueError unless there are n groups; `name`, such as "videos", is the word for them in its text.
    """
    if len(groups) != n:
        raise ValueError(f"There are {len(groups)} {name} for {n} items: give one for each item.")
    return number_groups(groups)


def _pearson(left: FloatArray, right: FloatArray) -> float:
    """Compute Pearson's r of sides that vary; NaN where rounding leaves a side constant."""
    x, y = left - left.mean(), right - right.mean()
    # Divided by their largest first, so that no square is too large or too small for a float.
    x, y = x / np.abs(x).max(), y / np.abs(y).max()
    return float(np.clip(x @ y / math.sqrt(float(x @ x) * float(y @ y)), -1, 1))


def _compare_pairs(x: IntArray, y: IntArray, varied: bool) -> GroupCoefficients:
    """Compute the statistics that depend on the order of pairs, of two sides of dense ranks (n,)."""
    pairs = x.size * (x.size - 1) // 2
    both = x * (int(y.max(initial=0)) + 1) + y
    tied_x, tied_y, tied = (_count_tied_pairs(side) for side in (x, y, dense_ranks(both)))
    untied_x, untied_y = pairs - tied_x, pairs - tied_y
    surplus = 0
    if varied and x.size <= SMALL:
        # Both orders of every pair.
        surplus = int((np.sign(x[:, None] - x) * np.sign(y[:, None] - y)).sum()) // 2
    elif varied:
        from scipy.stats import kendalltau

        # SciPy counts the pairs, but gives them only inside tau-b.
        surplus = round(float(kendalltau(x, y).statistic) * math.sqrt(untied_x) * math.sqrt(untied_y))
    levels = 1 + min(int(x.max(initial=0)), int(y.max(initial=0)))
    return _compute_pair_statistics(x.size, pairs, surplus, untied_x, untied_y, tied, levels)


def _count_tied_pairs(side: IntArray) -> int:
    """Count the pairs of equal numbers."""
    sizes = np.bincount(side)
    return int((sizes * (sizes - 1) // 2).sum())


def _compute_pair_statistics(
    n: IntArray | int,
    pairs: FloatArray | int,
    surplus: FloatArray | int,
    untied_x: FloatArray | int,
    untied_y: FloatArray | int,
    tied: FloatArray | int,
    levels: IntArray | int,
) -> GroupCoefficients:
    """Compute tau-b, tau-c, pairwise accuracy and the share of tied pairs of groups of n items, from their counts of
    pairs.

    surplus: concordant less discordant pairs. untied_x, untied_y: pairs that differ on that side. tied: pairs tied on
    both sides. levels: the smaller number of different values of a side.
    """
    # Pairs untied on both sides: all pairs less those tied on a side, where pairs tied on both were taken twice.
    ordered = np.subtract(np.add(untied_x, untied_y), np.subtract(pairs, tied))
    with np.errstate(divide="ignore", invalid="ignore"):
        tau_b = np.divide(surplus, np.sqrt(untied_x) * np.sqrt(untied_y))
        tau_c = np.divide(2 * np.multiply(surplus, levels), np.multiply(n, n) * np.subtract(levels, 1.0))
        accuracy = np.divide(np.add(ordered, surplus) / 2 + tied, pairs)
        tied_x = 1 - np.divide(untied_x, pairs)
    is_varied = np.isfinite(tau_b)
    return {
        "kendall_b": np.clip(tau_b, -1, 1),
        "kendall_c": np.where(is_varied, tau_c, np.nan),
        "pairwise_accuracy": np.where(np.greater(pairs, 0), accuracy, np.nan),
        TIED_PAIRS: np.where(np.greater(pairs, 0), tied_x, np.nan),
    }


def _compute_small_groups(metric: FloatArray, people: FloatArray, group: IntArray, n_groups: int) -> GroupCoefficients:
    """Compute every statistic of every group, from all pairs of its items."""
    first, second = list_group_pairs(group)
    sign_x, sign_y = (np.sign(side[first] - side[second]) for side in (metric, people))
    group_of_pair, n = group[first], np.bincount(group, minlength=n_groups)

    def count(pairs: FloatArray) -> FloatArray:
        return np.bincount(group_of_pair, pairs, n_groups).astype(np.float64)

    def ranks(signs: FloatArray) -> FloatArray:
        """Return the mean ranks of the items inside their group, less their mean."""
        above, below = (np.bincount(side, signs, group.size).astype(np.float64) for side in (first, second))
        return above - below

    def levels(side: FloatArray) -> IntArray:
        """Return the number of different values in each group."""
        distinct = np.unique(np.stack([group, dense_ranks(side)]), axis=1)[0]
        return np.bincount(distinct, minlength=n_groups)

    pair_statistics = _compute_pair_statistics(
        n,
        n * (n - 1) / 2,
        count(sign_x * sign_y),
        count(np.abs(sign_x)),
        count(np.abs(sign_y)),
        count(((sign_x == 0) & (sign_y == 0)).astype(np.float64)),
        np.minimum(levels(metric), levels(people)),
    )
    products = {"pearson": (metric, people), "spearman": (ranks(sign_x), ranks(sign_y))}
    varied = np.isfinite(pair_statistics["kendall_b"])
    correlations = {name: _pearson_by_group(*sides, group, n, varied) for name, sides in products.items()}
    return {**correlations, **pair_statistics}


def _pearson_by_group(x: FloatArray, y: FloatArray, group: IntArray, n: IntArray, varied: FloatArray) -> FloatArray:
    """Compute Pearson's r of every group; NaN where a side does not vary."""
    with np.errstate(divide="ignore", invalid="ignore"):
        x, y = (side - (np.bincount(group, side, n.size) / n)[group] for side in (x, y))
        xx, yy, xy = (np.bincount(group, product, n.size) for product in (x * x, y * y, x * y))
        return np.where(varied, np.clip(xy / np.sqrt(xx * yy), -1, 1), np.nan)
