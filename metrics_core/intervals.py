"""Intervals over videos: a statistic is computed again without some of the videos (the jackknife), and Student's t
turns how much it moves into an interval.

Captions of one video resemble each other, so a video is left out with all its captions. How much the statistic moves
gives its standard error, and the number of videos the degrees of freedom: with few videos the error itself is
uncertain, and t widens the interval accordingly. docs/agreement.md compares it with bootstraps. `compute_cluster_means`
averages values without leaving videos out, from sums that arrive in batches, so its memory does not grow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from metrics_core.arrays import FloatArray, IntArray

BLOCKS = 50
"""The number of blocks to which videos are dealt, where there are more videos than that; blocks are left out one at a
time.
"""
LEVEL = 0.95
K = TypeVar("K")
# Numbers that differ by less are equal but for rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number (`value`) with its interval over videos, from `low` to `high`. All are None where the number is
    undefined; low and high are also None where there is no interval, as for a single video.
    """

    value: float | None
    low: float | None
    high: float | None


def draw_blocks(video: IntArray, seed: int) -> IntArray:
    """Deal videos to blocks at random by a seed: an integer array (n,) with the block of every item, from 0 to BLOCKS -
    1 (49). video: (n,), the number of each item's video, from 0. Up to BLOCKS videos, every video is a block of its
    own.
    """
    n_videos = int(video.max(initial=-1)) + 1
    return (np.random.default_rng(seed).permutation(n_videos) % BLOCKS)[video]


@dataclass(frozen=True)
class JackknifeStatistics:
    """The statistics of one comparison by name: `values`, None where undefined, and `jackknife_values` (BLOCKS,), the
    same with each block of videos left out in turn, for intervals; NaN where the block holds no item or the statistic
    is undefined without it. n, n_undefined: items, or groups, with and without a value. n_blocks: blocks that hold
    items.
    """

    values: dict[str, float | None]
    jackknife_values: dict[str, FloatArray]
    n: dict[str, int]
    n_undefined: dict[str, int]
    n_blocks: int

    def compute_estimate(self, statistic: str) -> Estimate:
        """Return the statistic of this name with its interval over videos, which covers the true value with the chance
        `LEVEL`. The limits lie in [0, 1] for accuracies, F1 and the share of tied pairs, and in [-1, 1] for other
        statistics. Raises KeyError for a name that the record lacks.
        """
        is_share = "accuracy" in statistic or statistic in ("f1", "tied_pairs")
        bounds = (0.0 if is_share else -1.0, 1.0)
        return jackknife_estimate(self.values[statistic], self.jackknife_values[statistic], bounds)

    def merge(self, more: JackknifeStatistics) -> JackknifeStatistics:
        """Return a record with the statistics of this one and those of `more`, whose statistics replace those of the
        same name; n_blocks stays that of this one.
        """
        return JackknifeStatistics(
            self.values | more.values,
            self.jackknife_values | more.jackknife_values,
            self.n | more.n,
            self.n_undefined | more.n_undefined,
            self.n_blocks,
        )

    def count_undefined_blocks(self, statistic: str) -> int:
        """Count the blocks of videos without which the statistic of this name has no value, among the blocks that hold
        items.
        """
        return max(0, self.n_blocks - int(np.isfinite(self.jackknife_values[statistic]).sum()))

    def subtract(
        self, other: JackknifeStatistics, statistic: str, sign: float = 1.0
    ) -> tuple[float | None, FloatArray]:
        """Return a statistic less `sign` times that of another comparison of the same videos, and the array (BLOCKS,)
        of this difference with each block left out, NaN where neither comparison has a value. Where the statistic is
        undefined in either comparison, return None and an array of NaN.
        """
        sides = self.values[statistic], other.values[statistic]
        if sides[0] is None or sides[1] is None:
            return None, np.full(BLOCKS, np.nan)
        mine, theirs = _fill_undefined_blocks(self, statistic), _fill_undefined_blocks(other, statistic)
        is_known = np.isfinite(self.jackknife_values[statistic]) | np.isfinite(other.jackknife_values[statistic])
        return sides[0] - sign * sides[1], np.where(is_known, mine - sign * theirs, np.nan)


def jackknife(compute: Callable[[IntArray], Mapping[str, float | None]], block: IntArray) -> JackknifeStatistics:
    """Compute the statistics of items by name, also with each block of videos left out: (BLOCKS,) by name, NaN for a
    block that holds no item or without which the statistic is undefined, and everywhere if there is only one block.
    compute: returns the statistics of items at given positions, None where undefined. block: (n,), by item.

    >>> statistics = jackknife(lambda rows: {"n": float(rows.size)}, np.array([0, 0, 1]))
    >>> statistics.values, statistics.jackknife_values["n"][:3].tolist()
    ({'n': 3.0}, [1.0, 2.0, nan])
    """
    values, held = dict(compute(np.arange(block.size))), np.unique(block)
    jackknife_values = {name: np.full(BLOCKS, np.nan) for name in values}
    for number in held.tolist() if held.size > 1 else ():
        for name, value in compute(np.flatnonzero(block != number)).items():
            jackknife_values[name][number] = math.nan if value is None else value
    return JackknifeStatistics(
        values, jackknife_values, dict.fromkeys(values, block.size), dict.fromkeys(values, 0), held.size
    )


def jackknife_means(values: FloatArray, block: IntArray) -> FloatArray:
    """Compute the mean of the values (n,) with each block of videos left out in turn, skipping NaN: an array (BLOCKS,).
    It is NaN for a block that holds no value, or without which none is left. block: (n,), the block of every value.

    >>> jackknife_means(np.array([1.0, 3.0, np.nan]), np.array([0, 1, 2]))[:3].tolist()
    [3.0, 1.0, nan]
    """
    known = np.flatnonzero(np.isfinite(values))
    statistics = jackknife(
        lambda rows: {"mean": float(values[known[rows]].mean()) if rows.size else None}, block[known]
    )
    return statistics.jackknife_values["mean"]


def average_over_raters(
    by_rater: Sequence[Mapping[K, JackknifeStatistics]], weights: Sequence[float] | None = None
) -> dict[K, JackknifeStatistics]:
    """Average raters' statistics, for every comparison by itself: by comparison, in the order of the first rater; {}
    without raters. by_rater: every rater's statistics by comparison; a rater without a value does not count there.
    weights: how much each rater counts, above 0; None for equal. n is the raters' highest, n_undefined their lowest.
    """
    weight = np.ones(len(by_rater)) if weights is None else np.asarray(weights, dtype=np.float64)
    return {
        name: _average_statistics([of_rater[name] for of_rater in by_rater], weight)
        for name in (by_rater[0] if by_rater else ())
    }


def jackknife_estimate(
    value: float | None, jackknife_values: FloatArray, bounds: tuple[float, float] = (-1.0, 1.0)
) -> Estimate:
    """Return a statistic with its interval by Student's t, which covers the true value with the chance `LEVEL`.
    jackknife_values: (blocks,), the statistic with each block of videos left out, NaN where undefined. Without a value,
    or with fewer than two defined blocks, there is no interval. No limit lies outside the bounds.

    >>> estimate = jackknife_estimate(0.5, np.array([0.4, 0.5, 0.6]))
    >>> round(estimate.low, 3), round(estimate.high, 3)
    (0.003, 0.997)
    """
    error, freedom = jackknife_error(jackknife_values)
    if value is None or error is None:
        return Estimate(value, None, None)
    return Estimate(value, *_t_limits(value, error, freedom, bounds))


def jackknife_error(jackknife_values: FloatArray) -> tuple[float | None, int]:
    """Compute the jackknife's standard error of a statistic, and its degrees of freedom, one less than the defined
    blocks. jackknife_values: the statistic with each block of videos left out, NaN where undefined. (None, 0) where
    fewer than two blocks have a value.
    """
    values = jackknife_values[np.isfinite(jackknife_values)]
    if values.size < 2:
        return None, 0
    return math.sqrt((values.size - 1) * float(values.var())), values.size - 1


def jackknife_p_value(value: float | None, jackknife_values: FloatArray) -> float | None:
    """Compute the two-sided p-value of a statistic: how often chance puts it so far from 0 if its true value is 0, by
    Student's t with the jackknife's standard error. jackknife_values: the statistic with each block of videos left out.
    None without a value, or with fewer than two defined blocks.

    >>> jackknife_p_value(0.0, np.array([0.1, -0.1])), jackknife_p_value(0.5, np.array([0.5, 0.5, 0.5]))
    (1.0, 0.0)
    """
    error, freedom = jackknife_error(jackknife_values)
    return None if value is None or error is None else _t_test_p_value(value, error, freedom)


def mean_interval(
    mean: float,
    standard_error: float | None,
    n_clusters: int,
    value_range: tuple[float, float] = (-math.inf, math.inf),
) -> tuple[float, float] | None:
    """Compute Student's t interval (low, high) of a mean of clustered values, with n_clusters - 1 degrees of freedom.
    standard_error: the mean's cluster-robust standard error. value_range: no limit lies outside of it. None with fewer
    than two clusters, or where the standard error is None or nearly 0.

    mean: sum of the clusters' totals t over sum of their sizes n. standard_error: as of Liang and Zeger (1986), sqrt(G
    / (G - 1) * sum((t - mean * n)**2)) / sum(n) over the G clusters.

    >>> low, high = mean_interval(0.5, 0.1, 4)
    >>> round(low, 4), round(high, 4)
    (0.1818, 0.8182)
    >>> mean_interval(0.5, 0.0, 4) is None
    True
    """
    if n_clusters < 2 or standard_error is None or standard_error <= 1e-12 * max(1.0, abs(mean)):
        return None
    return _t_limits(mean, standard_error, n_clusters - 1, value_range)


def _t_test_p_value(value: float, error: float, freedom: int) -> float:
    """Compute the two-sided p-value of a value by Student's t, from its standard error `error` and `freedom` degrees of
    freedom. It is 1 for a value of 0, and 0 for another value with an error of 0.

    >>> round(_t_test_p_value(2.0, 1.0, 9), 4), _t_test_p_value(0.0, 0.0, 9), _t_test_p_value(0.5, 0.0, 9)
    (0.0766, 1.0, 0.0)
    """
    from scipy.special import stdtr

    if abs(value) <= _ROUNDING:
        return 1.0
    return 0.0 if error <= _ROUNDING else 2 * float(stdtr(freedom, -abs(value) / error))


@dataclass(frozen=True, slots=True)
class ClusterMean:
    """The mean of one group's n values, from n_clusters clusters such as videos; None without a value. low, high: its
    interval, None with fewer than two clusters. lead: of the group with the highest mean, the highest p-value
    (two-sided) of its distance to another group; None for other groups.

    Groups with one cluster are ignored for the lead, even one with the highest mean; it needs two groups with two
    clusters.
    """

    mean: float | None
    low: float | None
    high: float | None
    n: int
    n_clusters: int
    lead: float | None = None


def compute_cluster_means(
    batches: Iterable[tuple[FloatArray, FloatArray]], shape: tuple[int, int, int]
) -> tuple[tuple[ClusterMean, ...], ...]:
    """Average every measure of every group, with intervals by Student's t over clusters such as videos. Return a tuple
    of ClusterMeans per measure, with one ClusterMean per group. shape: the numbers of (clusters, measures, groups).
    batches: pairs of arrays, sums of values and numbers of values, which have this shape but fewer clusters; all
    batches together hold every cluster once.

    Two groups are compared cluster by cluster, so what makes a cluster hard for both does not count; the degrees of
    freedom are the clusters of the group that has fewer, less one. Raises ValueError for batches of another shape, and
    for too few or too many clusters.

    >>> [[mean]] = compute_cluster_means([(np.array([[[3.0]], [[1.0]]]), np.array([[[2.0]], [[2.0]]]))], (2, 1, 1))
    >>> mean.mean, round(mean.low, 2), round(mean.high, 2), mean.n
    (1.0, -5.35, 7.35, 4)
    """
    left, n_groups = shape[0], shape[2]
    totals, products = np.zeros((2, *shape[1:])), np.zeros((shape[1], 2 * n_groups, 2 * n_groups))
    filled, centre = np.zeros(shape[1:], dtype=np.int64), None
    for sums, counts in batches:
        if len(sums) > left or sums.shape[1:] != shape[1:] or counts.shape != sums.shape:
            raise ValueError(f"a batch has shape {sums.shape}, and {left} clusters of {shape} are still missing")
        if centre is None:
            # Values near 0 lose no digits in their squares.
            centre = sums.sum(axis=(0, 2)) / np.maximum(counts.sum(axis=(0, 2)), 1)
        both = np.concatenate([sums - centre[:, None] * counts, counts], axis=2)
        products += np.einsum("cmi,cmj->mij", both, both, optimize=True)
        totals += np.stack([sums.sum(axis=0), counts.sum(axis=0)])
        filled += (counts > 0).sum(axis=0)
        left -= len(sums)
    if left:
        raise ValueError(f"{left} of {shape[0]} clusters are missing from the batches")
    shifts = np.zeros(shape[1]) if centre is None else centre
    return tuple(_compute_group_means(totals[:, i], filled[i], products[i], float(shifts[i])) for i in range(shape[1]))


def _fill_undefined_blocks(statistics: JackknifeStatistics, statistic: str) -> FloatArray:
    """Return a statistic without each block; where a block holds none of its items, the statistic's own value."""
    without, value = statistics.jackknife_values[statistic], statistics.values[statistic]
    return np.where(np.isfinite(without), without, np.nan if value is None else value)


def _average_statistics(raters: Sequence[JackknifeStatistics], weight: FloatArray) -> JackknifeStatistics:
    """Average the raters' statistics of one comparison, weighted."""
    values: dict[str, float | None] = {}
    without = {}
    for name in raters[0].values:
        is_known = np.array([rater.values[name] is not None for rater in raters])
        known = [rater for rater in raters if rater.values[name] is not None]
        values[name], without[name] = None, np.full(BLOCKS, np.nan)
        if known:
            weights = weight[is_known]
            whole = np.array([rater.values[name] for rater in known], dtype=float)
            values[name] = float(np.average(whole, weights=weights))
            is_defined = np.isfinite([rater.jackknife_values[name] for rater in known]).any(axis=0)
            blocks = np.average([_fill_undefined_blocks(rater, name) for rater in known], axis=0, weights=weights)
            without[name][is_defined] = blocks[is_defined]
    return JackknifeStatistics(
        values,
        without,
        {name: max(rater.n[name] for rater in raters) for name in values},
        {name: min(rater.n_undefined[name] for rater in raters) for name in values},
        max(rater.n_blocks for rater in raters),
    )


def _t_limits(value: float, error: float, freedom: int, bounds: tuple[float, float]) -> tuple[float, float]:
    from scipy.special import stdtrit

    half = float(stdtrit(freedom, (1 + LEVEL) / 2)) * error
    return max(bounds[0], value - half), min(bounds[1], value + half)


def _compute_group_means(
    totals: FloatArray, filled: FloatArray, products: FloatArray, centre: float
) -> tuple[ClusterMean, ...]:
    """Compute the groups' means of one measure, from sums and counts (2, groups) and their products over clusters."""
    n_groups = filled.size
    counts = np.maximum(totals[1], 1)
    means = totals[0] / counts
    # What a cluster adds to a mean's error: its centred sum less the mean times its count. (groups, sums and counts)
    shares = np.zeros((n_groups, 2 * n_groups))
    shares[np.arange(n_groups), np.arange(n_groups)] = 1 / counts
    shares[np.arange(n_groups), n_groups + np.arange(n_groups)] = (centre - means) / counts

    def error(share: FloatArray, clusters: int) -> float:
        variance = max(0.0, float(share @ products @ share))
        return math.sqrt(variance * clusters / (clusters - 1))

    cluster_means = []
    for group in range(n_groups):
        n, clusters, mean = int(totals[1, group]), int(filled[group]), float(means[group])
        low = high = None
        if clusters > 1:
            low, high = mean_interval(mean, error(shares[group], clusters), clusters) or (mean, mean)
        cluster_means.append(ClusterMean(mean if n else None, low, high, n, clusters))
    several = [group for group in range(n_groups) if filled[group] > 1]
    if len(several) > 1:
        first = max(several, key=lambda group: float(means[group]))
        others = [group for group in several if group != first]
        fewer = {group: int(min(filled[first], filled[group])) for group in others}
        errors = {group: error(shares[first] - shares[group], fewer[group]) for group in others}
        gaps = {group: float(means[first] - means[group]) for group in others}
        lead = max(_t_test_p_value(gaps[group], errors[group], fewer[group] - 1) for group in others)
        cluster_means[first] = replace(cluster_means[first], lead=lead)
    return tuple(cluster_means)
