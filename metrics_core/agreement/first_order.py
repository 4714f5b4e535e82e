"""Every statistic of resamples of many items, by its counts to first order in the weights.

Ties, discordant pairs and products of ranks are sums over pairs or triples of items. Around the data as they are, each
changes in proportion to the weight of every item; the statistics follow exactly from these sums. With thousands of
items the rest is far below the width of an interval, and the cost no longer grows with items times resamples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from metrics_core.agreement.coefficients import STATISTICS, Coefficients, Moments, PairCounts, coefficients_of
from metrics_core.agreement.inversions import discordant_partners, merges_of
from metrics_core.agreement.resampling import dense_ranks
from metrics_core.agreement.weighted import Items, moments, needs_pairs, sums_by
from metrics_core.arrays import FloatArray, IntArray

MANY_LEVELS = 1000
"""A side with more different values than these keeps their number in every resample: tau-c hardly depends on it."""


def first_order_coefficients(
    metric: FloatArray,
    people: FloatArray,
    cluster: IntArray,
    weights: FloatArray,
    statistics: tuple[str, ...] = STATISTICS,
) -> Coefficients:
    """Compute the statistics of every resample to first order; arguments as in `resampled_coefficients`."""
    items = Items(metric, people, cluster, dense_ranks(metric), dense_ranks(people))
    drawn = Drawn(cluster, weights)
    tied_x, tied_y, tied_both = (
        np.bincount(side)[side].astype(np.float64) for side in (items.x, items.y, items.tied())
    )
    all_items = np.full(metric.size, float(metric.size))
    partners = np.full(metric.size, np.nan)
    if needs_pairs(statistics):
        partners = discordant_partners(merges_of(items.x, items.y), metric.size)
    degrees = np.stack([all_items, tied_x, tied_y, tied_both, partners])
    squared, by_x, by_y, by_both, discordant = drawn.first_order(degrees, 2)
    n = drawn.sums(np.ones((1, metric.size)))[0]
    copies = np.bincount(cluster, minlength=weights.shape[0]) @ weights**2
    counts = PairCounts(
        n=n,
        pairs=(squared - copies) / 2,
        surplus=(squared - by_x - by_y + by_both) / 2 - discordant,
        untied_x=(squared - by_x) / 2,
        untied_y=(squared - by_y) / 2,
        tied=(by_both - copies) / 2,
        levels=_levels(items, weights),
    )
    values = moments(metric, people, cluster, weights, n)
    found = coefficients_of(counts, values, _ranks(items, drawn))
    return {name: found[name] for name in statistics}


@dataclass(frozen=True)
class Drawn:
    """The cluster of every item (n,), and how often each resample drew each cluster: (clusters, resamples)."""

    cluster: IntArray
    weights: FloatArray

    def sums(self, of_items: FloatArray) -> FloatArray:
        """Add up the numbers of the items (rows, n) in every resample: (rows, resamples)."""
        n_clusters = self.weights.shape[0]
        found: FloatArray = np.stack([np.bincount(self.cluster, row, n_clusters) for row in of_items]) @ self.weights
        return found

    def first_order(self, of_items: FloatArray, degree: int) -> FloatArray:
        """Sums over ordered `degree`-tuples of items, to first order: (rows, resamples).

        of_items (rows, n): by how much a sum grows with an item's weight, divided by `degree`.
        """
        found: FloatArray = degree * self.sums(of_items) - (degree - 1) * of_items.sum(axis=1, keepdims=True)
        return found


def _levels(items: Items, weights: FloatArray) -> FloatArray:
    """The smaller number of different values of a side in every resample: (resamples,)."""
    few = min(items.x, items.y, key=lambda side: int(side.max(initial=0)))
    n_levels = int(few.max(initial=0)) + 1
    if n_levels > MANY_LEVELS:
        return np.full(weights.shape[1], float(n_levels))
    found: FloatArray = (sums_by(few, items.cluster, weights.shape[0], weights) > 0).sum(axis=0).astype(np.float64)
    return found


def _ranks(items: Items, drawn: Drawn) -> Moments:
    """Sums of products of the centred mean ranks. A mean rank itself depends on the weights of all items before it."""
    x, y = (_centred_ranks(side) for side in (items.x, items.y))
    products = [(x, x, items.x, items.x), (y, y, items.y, items.y), (x, y, items.x, items.y)]
    of_items = [left * right + _moved(right, by) + _moved(left, other) for left, right, by, other in products]
    xx, yy, xy = drawn.first_order(np.stack(of_items) / 3, 3)
    zero = np.zeros_like(xy)
    return Moments(zero + 1, zero, zero, xx, yy, xy)


def _centred_ranks(side: IntArray) -> FloatArray:
    """The mean ranks of dense ranks (n,), less their mean."""
    sizes = np.bincount(side)
    ranks: FloatArray = (np.cumsum(sizes) - sizes / 2 - side.size / 2)[side]
    return ranks


def _moved(other: FloatArray, side: IntArray) -> FloatArray:
    """By how much a sum of ranks times `other` (n,), which adds up to 0, grows with the weight of each item."""
    by_value = np.bincount(side, other)
    moved: FloatArray = (by_value / 2 - np.cumsum(by_value))[side]
    return moved
