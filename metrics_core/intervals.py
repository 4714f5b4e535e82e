"""Intervals over videos: a statistic is computed again without some videos, and Student's t makes that an interval.

Captions of one video resemble each other, so a video is left out with all its captions. How much the statistic moves
(the jackknife) gives its standard error, and the number of videos the degrees of freedom: with few videos the error
itself is uncertain, and t makes the interval as wide as that asks for. docs/agreement.md compares it with bootstraps.
`compute_cluster_means` averages values without leaving videos out, from sums that arrive in batches: the memory does not grow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from metrics_core.arrays import FloatArray, IntArray

BLOCKS = 50
"""More videos than these are dealt to so many blocks, which are left out one at a time."""
LEVEL = 0.95
# Numbers that differ by less are equal but for rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its interval over videos; None where undefined, and of one video without an interval."""

    value: float | None
    low: float | None
    high: float | None


def draw_blocks(video: IntArray, seed: int) -> IntArray:
    """Deal videos (n,), numbered from 0, to blocks at random: the block of every item (n,), from 0 to BLOCKS - 1.

    Up to BLOCKS videos each are a block of their own.
    """
    n_videos = int(video.max(initial=-1)) + 1
    return (np.random.default_rng(seed).permutation(n_videos) % BLOCKS)[video]


@dataclass(frozen=True)
class JackknifeStatistics:
    """Statistics of one comparison: their values (None where undefined), and theirs without each block of videos.

    left_out: (BLOCKS,) by statistic, NaN where a block holds nothing of it, or leaves nothing. n: the items, or the
    groups that have a value. n_undefined: the groups without a value. n_blocks: the blocks that hold items.
    """

    values: dict[str, float | None]
    jackknife_values: dict[str, FloatArray]
    n: dict[str, int]
    n_undefined: dict[str, int]
    n_blocks: int

    def compute_estimate(self, statistic: str, level: float = LEVEL) -> Estimate:
        """A statistic with its interval."""
        is_share = "accuracy" in statistic or statistic in ("f1", "tied_pairs")
        bounds = (0.0 if is_share else -1.0, 1.0)
        return jackknife_estimate(self.values[statistic], self.jackknife_values[statistic], level, bounds)

    def merge(self, more: JackknifeStatistics) -> JackknifeStatistics:
        """The statistics of both."""
        return JackknifeStatistics(
            self.values | more.values,
            self.jackknife_values | more.jackknife_values,
            self.n | more.n,
            self.n_undefined | more.n_undefined,
            self.n_blocks,
        )

    def count_undefined_blocks(self, statistic: str) -> int:
        """The blocks without which the statistic has no value."""
        return max(0, self.n_blocks - int(np.isfinite(self.jackknife_values[statistic]).sum()))

    def subtract(
        self, other: JackknifeStatistics, statistic: str, sign: float = 1.0
    ) -> tuple[float | None, FloatArray]:
        """By how much a statistic is above another one's, times `sign`, on the same videos; and without each block."""
        sides = self.values[statistic], other.values[statistic]
        if sides[0] is None or sides[1] is None:
            return None, np.full(BLOCKS, np.nan)
        mine, theirs = _fill_undefined_blocks(self, statistic), _fill_undefined_blocks(other, statistic)
        told = np.isfinite(self.jackknife_values[statistic]) | np.isfinite(other.jackknife_values[statistic])
        return sides[0] - sign * sides[1], np.where(told, mine - sign * theirs, np.nan)


def jackknife(compute: Callable[[IntArray], Mapping[str, float | None]], block: IntArray) -> JackknifeStatistics:
    """The statistics of items (n,), and without each block. of: gives them for the positions of some items.

    >>> found = jackknife(lambda rows: {"n": float(rows.size)}, np.array([0, 0, 1]))
    >>> found.values, found.left_out["n"][:3].tolist()
    ({'n': 3.0}, [1.0, 2.0, nan])
    """
    values, held = dict(compute(np.arange(block.size))), np.unique(block)
    left_out = {name: np.full(BLOCKS, np.nan) for name in values}
    for number in held.tolist() if held.size > 1 else ():
        for name, value in compute(np.flatnonzero(block != number)).items():
            left_out[name][number] = math.nan if value is None else value
    return JackknifeStatistics(values, left_out, dict.fromkeys(values, block.size), dict.fromkeys(values, 0), held.size)


def jackknife_means(values: FloatArray, block: IntArray) -> FloatArray:
    """The mean of the values (n,) that are not NaN without each block: (BLOCKS,), NaN where that tells nothing.

    >>> jackknife_means(np.array([1.0, 3.0, np.nan]), np.array([0, 1, 2]))[:3].tolist()
    [3.0, 1.0, nan]
    """
    known = np.flatnonzero(np.isfinite(values))
    found = jackknife(lambda rows: {"mean": float(values[known[rows]].mean()) if rows.size else None}, block[known])
    return found.jackknife_values["mean"]


def average_over_raters(
    by_rater: Sequence[dict[str, JackknifeStatistics]], weights: Sequence[float] | None = None
) -> dict[str, JackknifeStatistics]:
    """Average the raters' statistics by grouping; a rater without a value is left out.

    weights: how much each rater counts, above 0; None for all alike. n and n_undefined are those of the rater with the
    most items or groups.
    """
    weight = np.ones(len(by_rater)) if weights is None else np.asarray(weights, dtype=np.float64)
    return {
        grouping: _average_statistics([each[grouping] for each in by_rater], weight)
        for grouping in (by_rater[0] if by_rater else ())
    }


def jackknife_estimate(
    value: float | None, jackknife_values: FloatArray, level: float = LEVEL, bounds: tuple[float, float] = (-1.0, 1.0)
) -> Estimate:
    """A statistic with its interval, from its values without each block: (blocks,), NaN where there is none.

    No limit lies outside the bounds. Without a value, leaving something out says nothing.

    >>> found = compute_estimate(0.5, np.array([0.4, 0.5, 0.6]))
    >>> round(found.low, 3), round(found.high, 3)
    (0.003, 0.997)
    """
    error, freedom = jackknife_error(jackknife_values)
    if value is None or error is None:
        return Estimate(value, None, None)
    return Estimate(value, *_t_limits(value, error, freedom, level, bounds))


def confidence_sequence(
    value: float | None,
    jackknife_values: FloatArray,
    expected_difference: float,
    level: float = LEVEL,
    bounds: tuple[float, float] = (-1.0, 1.0),
) -> Estimate:
    """A statistic with an interval that may be looked at after every new item: a confidence sequence.

    All looks together miss the truth with a chance of 1 - level, where `estimate` misses it with that chance at one
    look. left_out: the statistic without each video. usual: a difference that is worth finding; about such a one the
    interval is narrowest beside that of one look, and it holds whatever it is. No limit lies outside the bounds.

    It is Robbins' (1970) mixture of normal distributions, with a variance of usual squared, over the differences that
    there may be, and the standard error in the place of the known one (asymptotic: Waudby-Smith and others 2024).
    Student's t takes the place of the normal distribution at the same chance, as few videos give an uncertain error.

    >>> found = confidence_sequence(0.5, np.linspace(0.48, 0.52, 30), 0.1)
    >>> round(found.low, 3), round(found.high, 3)
    (0.273, 0.727)
    """
    from scipy.special import ndtr, stdtrit

    error, freedom = jackknife_error(jackknife_values)
    if value is None or error is None:
        return Estimate(value, None, None)
    if error <= _ROUNDING:
        return Estimate(value, value, value)
    information = (expected_difference / error) ** 2
    normal = math.sqrt((1 + 1 / information) * (math.log1p(information) - 2 * math.log(1 - level)))
    # A chance below any float's has no quantile.
    half = -float(stdtrit(freedom, max(1e-100, float(ndtr(-normal))))) * error
    return Estimate(value, max(bounds[0], value - half), min(bounds[1], value + half))


def jackknife_error(jackknife_values: FloatArray) -> tuple[float | None, int]:
    """The jackknife's standard error, and its degrees of freedom; None where fewer than two blocks tell."""
    values = jackknife_values[np.isfinite(jackknife_values)]
    if values.size < 2:
        return None, 0
    return math.sqrt((values.size - 1) * float(values.var())), values.size - 1


def jackknife_p_value(value: float | None, jackknife_values: FloatArray) -> float | None:
    """How often a statistic whose truth is 0 lies as far from it as this one, by the same t; None where undefined.

    >>> jackknife_p_value(0.0, np.array([0.1, -0.1])), jackknife_p_value(0.5, np.array([0.5, 0.5, 0.5]))
    (1.0, 0.0)
    """
    error, freedom = jackknife_error(jackknife_values)
    return None if value is None or error is None else t_test_p_value(value, error, freedom)


def mean_interval(
    mean: float,
    standard_error: float | None,
    n_clusters: int,
    value_range: tuple[float, float] = (-math.inf, math.inf),
    level: float = LEVEL,
) -> tuple[float, float] | None:
    """Student's t interval of a mean of clustered values, with n_clusters - 1 degrees of freedom.

    mean: sum of the clusters' totals t over sum of their sizes n. standard_error: cluster-robust, as of Liang and Zeger
    (1986), sqrt(G / (G - 1) * sum((t - mean * n)**2)) / sum(n) over the G clusters. value_range: no limit lies outside
    of it. None where the interval is undefined: fewer than two clusters, or clusters whose means do not differ.

    >>> low, high = mean_interval(0.5, 0.1, 4)
    >>> round(low, 4), round(high, 4)
    (0.1818, 0.8182)
    >>> mean_interval(0.5, 0.0, 4) is None
    True
    """
    if n_clusters < 2 or standard_error is None or standard_error <= 1e-12 * max(1.0, abs(mean)):
        return None
    return _t_limits(mean, standard_error, n_clusters - 1, level, value_range)


def t_test_p_value(value: float, error: float, freedom: int) -> float:
    """How often Student's t with so many degrees of freedom lies as far from 0 as value / error.

    >>> round(t_test_p_value(2.0, 1.0, 9), 4), t_test_p_value(0.0, 0.0, 9), t_test_p_value(0.5, 0.0, 9)
    (0.0766, 1.0, 0.0)
    """
    from scipy.special import stdtr

    if abs(value) <= _ROUNDING:
        return 1.0
    return 0.0 if error <= _ROUNDING else 2 * float(stdtr(freedom, -abs(value) / error))


@dataclass(frozen=True, slots=True)
class ClusterMean:
    """The mean of a group's n values from n_clusters clusters, with its interval; None where undefined.

    An interval needs two clusters that hold a value; where all have the same mean it is that mean. lead: for the group
    with the highest mean, how likely chance alone puts it so far above the nearest other group, two-sided; None for
    the others, and where fewer than two groups have two clusters.
    """

    mean: float | None
    low: float | None
    high: float | None
    n: int
    n_clusters: int
    lead: float | None = None


def compute_cluster_means(
    batches: Iterable[tuple[FloatArray, FloatArray]], shape: tuple[int, int, int], *, level: float = LEVEL
) -> tuple[tuple[ClusterMean, ...], ...]:
    """Average every measure of every group, with Student's t over clusters, such as videos.

    shape: (clusters, measures, groups) of everything. batches: sums of values and numbers of values, both of this shape
    but for fewer clusters; one batch follows the other. Two groups are compared cluster by cluster, so what makes a
    cluster hard for both does not count; the degrees of freedom are the clusters of the group that has fewer, less one.
    Raises ValueError for batches of another shape.

    >>> [[found]] = compute_cluster_means([(np.array([[[3.0]], [[1.0]]]), np.array([[[2.0]], [[2.0]]]))], (2, 1, 1))
    >>> found.mean, round(found.low, 2), round(found.high, 2), found.n
    (1.0, -5.35, 7.35, 4)
    """
    left, n_groups = shape[0], shape[2]
    totals, products = np.zeros((2, *shape[1:])), np.zeros((shape[1], 2 * n_groups, 2 * n_groups))
    filled, centre = np.zeros(shape[1:], dtype=np.int64), None
    for sums, counts in batches:
        if len(sums) > left or sums.shape[1:] != shape[1:] or counts.shape != sums.shape:
            raise ValueError(f"a batch has shape {sums.shape}, and {left} clusters are to come of {shape}")
        if centre is None:
            # Values near 0 lose no digits in their squares.
            centre = sums.sum(axis=(0, 2)) / np.maximum(counts.sum(axis=(0, 2)), 1)
        both = np.concatenate([sums - centre[:, None] * counts, counts], axis=2)
        products += np.einsum("cmi,cmj->mij", both, both, optimize=True)
        totals += np.stack([sums.sum(axis=0), counts.sum(axis=0)])
        filled += (counts > 0).sum(axis=0)
        left -= len(sums)
    if left:
        raise ValueError(f"{left} of {shape[0]} clusters did not come")
    shifts = np.zeros(shape[1]) if centre is None else centre
    return tuple(
        _compute_group_means(totals[:, i], filled[i], products[i], float(shifts[i]), level) for i in range(shape[1])
    )


def _fill_undefined_blocks(found: JackknifeStatistics, statistic: str) -> FloatArray:
    """A defined statistic without each block; where a block holds nothing of it, its own value."""
    without, value = found.jackknife_values[statistic], found.values[statistic]
    return np.where(np.isfinite(without), without, np.nan if value is None else value)


def _average_statistics(raters: Sequence[JackknifeStatistics], weight: FloatArray) -> JackknifeStatistics:
    """The weighted mean of the raters' statistics of one grouping."""
    values: dict[str, float | None] = {}
    without = {}
    for name in raters[0].values:
        is_known = np.array([each.values[name] is not None for each in raters])
        known = [each for each in raters if each.values[name] is not None]
        values[name], without[name] = None, np.full(BLOCKS, np.nan)
        if known:
            own = weight[is_known]
            values[name] = float(np.average(np.array([each.values[name] for each in known], dtype=float), weights=own))
            told = np.isfinite([each.jackknife_values[name] for each in known]).any(axis=0)
            without[name][told] = np.average(
                [_fill_undefined_blocks(each, name) for each in known], axis=0, weights=own
            )[told]
    return JackknifeStatistics(
        values,
        without,
        {name: max(each.n[name] for each in raters) for name in values},
        {name: min(each.n_undefined[name] for each in raters) for name in values},
        max(each.n_blocks for each in raters),
    )


def _t_limits(
    value: float, error: float, freedom: int, level: float, bounds: tuple[float, float]
) -> tuple[float, float]:
    from scipy.special import stdtrit

    half = float(stdtrit(freedom, (1 + level) / 2)) * error
    return max(bounds[0], value - half), min(bounds[1], value + half)


def _compute_group_means(
    totals: FloatArray, filled: FloatArray, products: FloatArray, centre: float, level: float
) -> tuple[ClusterMean, ...]:
    """The groups' means of one measure, from sums and counts (2, groups) and their products over clusters."""
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

    found = []
    for group in range(n_groups):
        n, clusters, mean = int(totals[1, group]), int(filled[group]), float(means[group])
        low = high = None
        if clusters > 1:
            low, high = mean_interval(mean, error(shares[group], clusters), clusters, level=level) or (mean, mean)
        found.append(ClusterMean(mean if n else None, low, high, n, clusters))
    several = [group for group in range(n_groups) if filled[group] > 1]
    if len(several) > 1:
        first = max(several, key=lambda group: float(means[group]))
        others = [group for group in several if group != first]
        fewer = {group: int(min(filled[first], filled[group])) for group in others}
        errors = {group: error(shares[first] - shares[group], fewer[group]) for group in others}
        gaps = {group: float(means[first] - means[group]) for group in others}
        lead = max(t_test_p_value(gaps[group], errors[group], fewer[group] - 1) for group in others)
        found[first] = replace(found[first], lead=lead)
    return tuple(found)
