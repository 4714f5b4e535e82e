"""Means of groups with intervals over clusters, from sums that arrive in batches: the memory does not grow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from metrics_core.agreement.groups import quotient
from metrics_core.arrays import BoolArray, FloatArray, IntArray
from metrics_core.calibration.intervals import limits


@dataclass(frozen=True, slots=True)
class ClusterMean:
    """The mean of a group's n values, with its percentile interval; None where undefined.

    An interval needs two clusters that hold a value. best: the share of the resamples in which no other group of the
    measure has a higher mean, ties shared; None for a group without an interval.
    """

    mean: float | None
    low: float | None
    high: float | None
    n: int
    best: float | None


def cluster_means(
    batches: Iterable[tuple[FloatArray, FloatArray]],
    shape: tuple[int, int, int],
    *,
    level: float = 0.95,
    n_resamples: int = 1000,
    seed: int = 0,
) -> tuple[tuple[ClusterMean, ...], ...]:
    """Average every measure of every group, and resample clusters, such as videos, for the intervals.

    shape: (clusters, measures, groups) of everything. batches: sums of values and numbers of values, both of this shape
    but for fewer clusters; one batch follows the other. A resample draws as many clusters as there are, with
    replacement, as if all were in memory at once. It is left out of the interval of a group that it holds no value of,
    and of `best` unless it holds values of all groups with an interval. Raises ValueError for batches of another shape.

    >>> [[found]] = cluster_means([(np.array([[[3.0]], [[1.0]]]), np.array([[[2.0]], [[2.0]]]))], (2, 1, 1))
    >>> found.mean, found.low, found.high, found.n
    (1.0, 0.5, 1.5, 4)
    """
    rng = np.random.default_rng(seed)
    left, to_draw = shape[0], np.full(n_resamples, shape[0], dtype=np.int64)
    drawn, totals, filled = np.zeros((2, n_resamples, *shape[1:])), np.zeros((2, *shape[1:])), np.zeros(shape[1:])
    for batch in map(np.stack, batches):
        size = batch.shape[1]
        if size > left or batch.shape[2:] != shape[1:]:
            raise ValueError(f"a batch has shape {batch.shape[1:]}, and {left} clusters are to come of {shape}")
        if not size:
            continue
        here = to_draw if size == left else rng.binomial(to_draw, size / left)
        drawn += np.tensordot(_weights(here, size, rng), batch, axes=(1, 1)).swapaxes(0, 1)
        totals += batch.sum(axis=1)
        filled += (batch[1] > 0).sum(axis=0)
        left, to_draw = left - size, to_draw - here
    if left:
        raise ValueError(f"{left} of {shape[0]} clusters did not come")
    return tuple(_means(totals[:, i], filled[i] > 1, drawn[:, :, i], level) for i in range(shape[1]))


def _weights(totals: IntArray, size: int, rng: np.random.Generator) -> FloatArray:
    """Count how often each resample draws each of `size` clusters in totals (resamples,) draws: (resamples, size)."""
    ends = np.cumsum(totals)
    draws = rng.integers(size, size=int(ends[-1]), dtype=np.uint32)
    counts = np.empty((totals.size, size))
    # Resample by resample: the counts of one stay in the processor's cache.
    for row, start, end in zip(counts, ends - totals, ends, strict=True):
        row[:] = np.bincount(draws[start:end], minlength=size)
    return counts


def _means(totals: FloatArray, has_interval: BoolArray, drawn: FloatArray, level: float) -> tuple[ClusterMean, ...]:
    """The groups' means of one measure, from sums and counts of all data (2, groups) and of resamples."""
    resampled = quotient(*drawn)
    best = _shares_of_best(resampled, has_interval)
    found = []
    for group, (total, n) in enumerate(totals.T.tolist()):
        values = resampled[np.isfinite(resampled[:, group]), group] if has_interval[group] else np.zeros(0)
        low, high = limits(values, level)
        found.append(ClusterMean(total / n if n else None, low, high, int(n), best[group]))
    return tuple(found)


def _shares_of_best(resampled: FloatArray, has_interval: BoolArray) -> list[float | None]:
    """The share of the complete resamples in which each group is highest, ties shared; None without an interval."""
    chosen = np.flatnonzero(has_interval)
    rows = resampled[:, chosen]
    rows = rows[np.isfinite(rows).all(axis=1)]
    shares: list[float | None] = [None] * resampled.shape[1]
    if rows.size:
        is_best = rows == rows.max(axis=1, keepdims=True)
        means = (is_best / is_best.sum(axis=1, keepdims=True)).mean(axis=0)
        for group, share in zip(chosen.tolist(), means.tolist(), strict=True):
            shares[group] = share
    return shares
