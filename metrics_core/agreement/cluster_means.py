"""Means of groups with intervals over clusters, from sums that arrive in batches: the memory does not grow."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from metrics_core.arrays import FloatArray
from metrics_core.intervals import LEVEL, mean_interval, two_sided


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


def cluster_means(
    batches: Iterable[tuple[FloatArray, FloatArray]], shape: tuple[int, int, int], *, level: float = LEVEL
) -> tuple[tuple[ClusterMean, ...], ...]:
    """Average every measure of every group, with Student's t over clusters, such as videos.

    shape: (clusters, measures, groups) of everything. batches: sums of values and numbers of values, both of this shape
    but for fewer clusters; one batch follows the other. Two groups are compared cluster by cluster, so what makes a
    cluster hard for both does not count; the degrees of freedom are the clusters of the group that has fewer, less one.
    Raises ValueError for batches of another shape.

    >>> [[found]] = cluster_means([(np.array([[[3.0]], [[1.0]]]), np.array([[[2.0]], [[2.0]]]))], (2, 1, 1))
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
    return tuple(_means(totals[:, i], filled[i], products[i], float(shifts[i]), level) for i in range(shape[1]))


def _means(
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
        lead = max(two_sided(gaps[group], errors[group], fewer[group] - 1) for group in others)
        found[first] = replace(found[first], lead=lead)
    return tuple(found)
