"""Every statistic of many resamples of the same items, without a copy of an item.

A resample is a weight per cluster: how often the cluster was drawn. Ties, ranks and moments are sums by value and
cluster, linear in the weights, and discordant pairs are counted by merging; so the cost grows with n log n.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from metrics_core.agreement.coefficients import STATISTICS, Coefficients, Moments, PairCounts, coefficients_of
from metrics_core.agreement.inversions import Merge, discordant_pairs, merges_of
from metrics_core.agreement.resampling import dense_ranks
from metrics_core.arrays import FloatArray, IntArray

# Resamples come in batches whose arrays of items by resamples hold up to this many numbers (16 MiB).
CELLS = 1 << 21


def resampled_coefficients(
    metric: FloatArray,
    people: FloatArray,
    cluster: IntArray,
    weights: FloatArray,
    statistics: tuple[str, ...] = STATISTICS,
) -> Coefficients:
    """Compute the statistics of every resample.

    metric, people (n,): the items' values. cluster (n,): the row of `weights` (clusters, resamples) that says how often
    an item was drawn. Copies of one item are tied on both sides; pairwise accuracy leaves such pairs out.
    """
    if metric.size == 0 or weights.shape[1] == 0:
        return {name: np.full(weights.shape[1], np.nan) for name in statistics}
    items = Items(metric, people, cluster, dense_ranks(metric), dense_ranks(people))
    merges = merges_of(items.x, items.y) if needs_pairs(statistics) else None
    at_once = max(1, CELLS // metric.size)
    batches = [
        _batch(items, merges, np.ascontiguousarray(weights[:, start : start + at_once]))
        for start in range(0, weights.shape[1], at_once)
    ]
    return {name: np.concatenate([batch[name] for batch in batches]) for name in statistics}


def needs_pairs(statistics: tuple[str, ...]) -> bool:
    """Whether one of the statistics rests on the order of pairs."""
    return any(name.startswith(("kendall", "pairwise")) for name in statistics)


@dataclass(frozen=True)
class Items:
    """Both sides of n items, their clusters, and the dense ranks of both sides, all (n,)."""

    metric: FloatArray
    people: FloatArray
    cluster: IntArray
    x: IntArray
    y: IntArray

    def tied(self) -> IntArray:
        """Numbers that are equal for items tied on both sides."""
        return dense_ranks(self.x * (int(self.y.max(initial=0)) + 1) + self.y)


def _batch(items: Items, merges: list[Merge] | None, weights: FloatArray) -> Coefficients:
    """Compute every statistic of one batch; those of pairs are NaN without merges."""
    n_clusters, of_items = weights.shape[0], weights[items.cluster]
    by_x, by_y = (sums_by(side, items.cluster, n_clusters, weights) for side in (items.x, items.y))
    by_both = sums_by(items.tied(), items.cluster, n_clusters, weights)
    n = by_x.sum(axis=0)
    tied_x, tied_y, tied_both = ((by**2).sum(axis=0) for by in (by_x, by_y, by_both))
    copies = np.bincount(items.cluster, minlength=n_clusters) @ weights**2
    discordant = np.full_like(n, np.nan) if merges is None else discordant_pairs(merges, of_items)
    counts = PairCounts(
        n=n,
        pairs=(n**2 - copies) / 2,
        # Pairs untied on both sides are ordered alike or discordant.
        surplus=(n**2 - tied_x - tied_y + tied_both) / 2 - 2 * discordant,
        untied_x=(n**2 - tied_x) / 2,
        untied_y=(n**2 - tied_y) / 2,
        tied=(tied_both - copies) / 2,
        levels=np.minimum((by_x > 0).sum(axis=0), (by_y > 0).sum(axis=0)).astype(np.float64),
    )
    values = moments(items.metric, items.people, items.cluster, weights, n)
    return coefficients_of(counts, values, _ranks(items.x, items.y, by_x, by_y, of_items))


def sums_by(value: IntArray, cluster: IntArray, n_clusters: int, weights: FloatArray) -> FloatArray:
    """Sum the weights of the items with each value: (values, resamples)."""
    from scipy.sparse import csr_array

    shape = (int(value.max(initial=-1)) + 1, n_clusters)
    # SciPy adds up the items of one value and cluster.
    sums: FloatArray = csr_array((np.ones(value.size), (value, cluster)), shape=shape) @ weights
    return sums


def moments(metric: FloatArray, people: FloatArray, cluster: IntArray, weights: FloatArray, n: FloatArray) -> Moments:
    """Sums of the values of every resample."""
    x, y = metric - metric.mean(), people - people.mean()
    columns = (np.bincount(cluster, each, weights.shape[0]) @ weights for each in (x, y, x * x, y * y, x * y))
    return Moments(n, *columns)


def _ranks(x: IntArray, y: IntArray, by_x: FloatArray, by_y: FloatArray, of_items: FloatArray) -> Moments:
    """Sums of the mean ranks of every resample, centred."""
    n = by_x.sum(axis=0)
    left, right = (np.cumsum(by, axis=0) - by / 2 - n / 2 for by in (by_x, by_y))
    product = np.einsum("ir,ir,ir->r", of_items, left[x], right[y])
    zero = np.zeros_like(n)
    return Moments(n, zero, zero, (by_x * left**2).sum(axis=0), (by_y * right**2).sum(axis=0), product)
