"""Every statistic of many resamples of the same items, without a copy of an item.

A resample is a weight per cluster: how often the cluster was drawn. With weights w, concordant less discordant pairs
are w' A w / 2, where A sums the products of signs over the items of two clusters. A costs n² once and is made some rows
at a time, never held as a whole; 1,000 resamples are then products of matrices. Signs and weights are small integers,
so float32 holds all these sums exactly up to 16.7 million items. Ties, ranks and moments are sums by value and
cluster, linear in w.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from metrics_core.agreement.coefficients import STATISTICS, Coefficients, Moments, PairCounts, coefficients_of
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
    wanted_signs = any(name.startswith(("kendall", "pairwise")) for name in statistics)
    surplus = surplus_pairs(metric, people, cluster, weights) if wanted_signs else np.full(weights.shape[1], np.nan)
    at_once = max(1, CELLS // max(1, metric.size))
    batches = [
        _batch(metric, people, cluster, weights[:, start : start + at_once], surplus[start : start + at_once])
        for start in range(0, weights.shape[1], at_once)
    ]
    return {name: np.concatenate([batch[name] for batch in batches]) for name in statistics}


def _batch(
    metric: FloatArray,
    people: FloatArray,
    cluster: IntArray,
    weights: FloatArray,
    surplus: FloatArray,
) -> Coefficients:
    """Compute every statistic of one batch, given its concordant less discordant pairs."""
    n_clusters = weights.shape[0]
    x, y = dense_ranks(metric), dense_ranks(people)
    by_x, by_y = (sums_by(side, cluster, n_clusters, weights) for side in (x, y))
    both = x * (int(y.max(initial=0)) + 1) + y
    by_both = sums_by(dense_ranks(both), cluster, n_clusters, weights)
    n = by_x.sum(axis=0)
    copies = np.bincount(cluster, minlength=n_clusters) @ weights**2
    counts = PairCounts(
        n=n,
        pairs=(n**2 - copies) / 2,
        surplus=surplus,
        untied_x=(n**2 - (by_x**2).sum(axis=0)) / 2,
        untied_y=(n**2 - (by_y**2).sum(axis=0)) / 2,
        tied=((by_both**2).sum(axis=0) - copies) / 2,
        levels=np.minimum((by_x > 0).sum(axis=0), (by_y > 0).sum(axis=0)).astype(np.float64),
    )
    return coefficients_of(
        counts, _moments(metric, people, cluster, weights, n), _ranks(x, y, by_x, by_y, cluster, weights)
    )


def sums_by(value: IntArray, cluster: IntArray, n_clusters: int, weights: FloatArray) -> FloatArray:
    """Sum the weights of the items with each value: (values, resamples)."""
    from scipy.sparse import csr_array

    shape = (int(value.max(initial=-1)) + 1, n_clusters)
    # SciPy adds up the items of one value and cluster.
    sums: FloatArray = csr_array((np.ones(value.size), (value, cluster)), shape=shape) @ weights
    return sums


def _moments(metric: FloatArray, people: FloatArray, cluster: IntArray, weights: FloatArray, n: FloatArray) -> Moments:
    """Sums of the values of every resample."""
    x, y = metric - metric.mean(), people - people.mean()
    columns = (np.bincount(cluster, each, weights.shape[0]) @ weights for each in (x, y, x * x, y * y, x * y))
    return Moments(n, *columns)


def _ranks(
    x: IntArray, y: IntArray, by_x: FloatArray, by_y: FloatArray, cluster: IntArray, weights: FloatArray
) -> Moments:
    """Sums of the mean ranks of every resample, centred."""
    n = by_x.sum(axis=0)
    left, right = (np.cumsum(by, axis=0) - by / 2 - n / 2 for by in (by_x, by_y))
    product = np.einsum("ir,ir,ir->r", weights[cluster], left[x], right[y])
    zero = np.zeros_like(n)
    return Moments(n, zero, zero, (by_x * left**2).sum(axis=0), (by_y * right**2).sum(axis=0), product)


def surplus_pairs(metric: FloatArray, people: FloatArray, cluster: IntArray, weights: FloatArray) -> FloatArray:
    """Count concordant less discordant pairs of every resample: (resamples,)."""
    from scipy.sparse import csr_array

    x, y = dense_ranks(metric).astype(np.int32), dense_ranks(people).astype(np.int32)
    ones, small = np.ones(x.size, dtype=np.float32), weights.astype(np.float32)
    members = csr_array((ones, (cluster, np.arange(x.size))), shape=(weights.shape[0], x.size))
    surplus = np.zeros(weights.shape[1])
    at_once = max(1, CELLS // max(1, x.size))
    order = np.argsort(cluster, kind="stable")
    for start in range(0, x.size, at_once):
        block = order[start : start + at_once]
        products = (_signs(x, x[block]) * _signs(y, y[block])).astype(np.float32)
        inside, row = np.unique(cluster[block], return_inverse=True)
        gather = csr_array((ones[: block.size], (row, np.arange(block.size))), shape=(inside.size, block.size))
        by_cluster = gather @ np.ascontiguousarray((members @ products).T)
        surplus += np.einsum("vr,vr->r", weights[inside], by_cluster @ small)
    return surplus / 2


def _signs(values: NDArray[np.int32], others: NDArray[np.int32]) -> NDArray[np.int8]:
    """Signs of values (n,) less others (m,): (n, m)."""
    one, other = values[:, None], others[None, :]
    signs: NDArray[np.int8] = (one > other).view(np.int8) - (one < other).view(np.int8)
    return signs
