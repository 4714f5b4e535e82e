"""Discordant pairs of many resamples at once, in n log n steps.

Pairs of items are met as merge sort meets them: items are split in two by the highest bit in which their ranks on one
side differ, and in the order of the other side every right item follows the left items that it does not contradict.
A running sum of the left items' weights therefore counts the pairs of all resamples together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from metrics_core.arrays import FloatArray, IntArray


@dataclass(frozen=True)
class Merge:
    """One step of the merging, the same for every resample.

    left: the items that may come first, in order. right: the items that discord with some of them, (right,); for each,
    these are the items `left[start:end]`.
    """

    left: IntArray
    right: IntArray
    start: IntArray
    end: IntArray


def merges_of(x: IntArray, y: IntArray) -> list[Merge]:
    """Plan the merging of items with dense ranks x and y (n,): a step per bit of the side with fewer ranks."""
    few, many = sorted((x, y), key=lambda side: int(side.max(initial=0)))
    return [_merge(few >> bit, many) for bit in range(int(few.max(initial=0)).bit_length())]


def _merge(few: IntArray, many: IntArray) -> Merge:
    """Merge the items whose `few` ends in 0 with those that differ in this last bit alone."""
    block, is_right = few >> 1, (few & 1).astype(np.bool_)
    order = np.lexsort((is_right, many, block))
    right_in_order = is_right[order]
    n_left = np.cumsum(~right_in_order)
    last = np.append(np.flatnonzero(np.diff(block[order])), order.size - 1)
    # Blocks numbered from 0 in order, so that `last` can be asked for the end of each item's block.
    number = np.cumsum(np.append(0, np.diff(block[order]) > 0))
    start, end = n_left[right_in_order], n_left[last][number[right_in_order]]
    discord = end > start
    return Merge(order[~right_in_order], order[right_in_order][discord], start[discord], end[discord])


def discordant_pairs(merges: list[Merge], weights: FloatArray) -> FloatArray:
    """Count the pairs that the two sides order differently, in every resample (resamples,).

    weights (n, resamples): how often an item was drawn. A pair counts as often as the product of its items' weights.

    >>> merges = merges_of(np.array([0, 1, 2]), np.array([1, 2, 0]))
    >>> discordant_pairs(merges, np.array([[1.0, 2.0], [1.0, 0.0], [1.0, 3.0]])).tolist()
    [2.0, 6.0]
    """
    total = np.zeros(weights.shape[1])
    for counts in _counts(merges, weights):
        total += counts
    return total


def discordant_partners(merges: list[Merge], n: int) -> FloatArray:
    """Count for each of n items the items that the two sides order differently with it: (n,).

    >>> discordant_partners(merges_of(np.array([0, 1, 2]), np.array([1, 2, 0])), 3).tolist()
    [1.0, 1.0, 2.0]
    """
    found = np.zeros(n)
    for merge in merges:
        found[merge.right] += merge.end - merge.start
        begun, ended = (np.bincount(side, minlength=merge.left.size + 1) for side in (merge.start, merge.end))
        found[merge.left] += np.cumsum(begun - ended)[:-1]
    return found


def _counts(merges: list[Merge], weights: FloatArray) -> Iterator[FloatArray]:
    """Yield the discordant pairs of each merge."""
    for merge in merges:
        running = np.zeros((merge.left.size + 1, weights.shape[1]))
        np.cumsum(weights[merge.left], axis=0, out=running[1:])
        between = running[merge.end]
        between -= running[merge.start]
        yield np.einsum("ir,ir->r", weights[merge.right], between)
