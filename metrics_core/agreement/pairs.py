"""Pairwise accuracy of captions with calibrated ties (Deutsch et al. 2023)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from metrics_core.agreement.coefficients import list_group_pairs
from metrics_core.arrays import BoolArray, FloatArray, IntArray
from metrics_core.intervals import BLOCKS

TOLERANCE = 1e-9
"""Differences up to this are rounding errors: 0.5 - 0.4 counts as a gap of 0.1, and 0.1 + 0.2 is tied with 0.3."""
MAX_ITEMS = 2000
"""The number of items up to which all pairs are used to find and test an epsilon; of more items so many are drawn,
since 9,048 captions have 41 million pairs.
"""


@dataclass(frozen=True)
class CaptionPairs:
    """Pairs of captions as arrays (pairs,): the positions `first` and `second` of their captions, and the metric's
    absolute difference `gap`. is_tied_by_people: people rate both the same. is_ordered_alike: people rate them
    differently, and the metric's difference has the same sign.
    """

    first: IntArray
    second: IntArray
    gap: FloatArray
    is_tied_by_people: BoolArray
    is_ordered_alike: BoolArray

    def mark_correct(self, epsilon: float | FloatArray) -> BoolArray:
        """Return a mask (pairs,) of the pairs that the metric orders or ties as people do, where its differences up to
        `epsilon` count as ties.
        """
        metric_tied = self.gap <= epsilon + TOLERANCE
        right: BoolArray = np.where(metric_tied, self.is_tied_by_people, self.is_ordered_alike)
        return right


def build_pairs(metric: FloatArray, people: FloatArray, group: IntArray) -> CaptionPairs:
    """Build all pairs of items of the same group. metric, people: values and ratings (n,); group: (n,), the number of
    each item's group.
    """
    first, second = list_group_pairs(group)
    difference, rating_difference = metric[first] - metric[second], people[first] - people[second]
    tied = np.abs(rating_difference) <= TOLERANCE
    return CaptionPairs(
        first, second, np.abs(difference), tied, ~tied & (np.sign(difference) == np.sign(rating_difference))
    )


def find_best_epsilon(pairs: CaptionPairs, chosen: BoolArray) -> float | None:
    """Find the epsilon with which most of the chosen pairs are correct; metric differences up to epsilon count as ties.
    Candidates are 0 and the metric's differences; of equally good ones the smallest is taken. None without a chosen
    pair. chosen: a mask (pairs,).

    An accuracy to report needs other pairs: see `compute_held_out_accuracy`.

    >>> pairs = build_pairs(np.array([0.10, 0.15, 0.50, 0.72]), np.array([1.0, 1, 2, 3]), np.zeros(4, np.int64))
    >>> round(find_best_epsilon(pairs, np.full(6, True)), 9)
    0.05
    """
    gap, tied, agreeing = pairs.gap[chosen], pairs.is_tied_by_people[chosen], pairs.is_ordered_alike[chosen]
    if gap.size == 0:
        return None
    order = np.argsort(gap)
    gaps = gap[order]
    # A pair that becomes a tie gains if people tie it and loses if the metric had ordered it as they do.
    gains = np.cumsum(tied[order].astype(np.int64) - agreeing[order])
    last = np.flatnonzero(np.append(np.diff(gaps) > TOLERANCE, True))
    candidates, correct = gaps[last], gains[last]
    if gaps[0] > TOLERANCE:
        candidates, correct = np.append(0.0, candidates), np.append(0, correct)
    return float(candidates[np.argmax(correct)])


def compute_held_out_accuracy(
    metric: FloatArray, people: FloatArray, video: IntArray, block: IntArray, n_videos: int, seed: int
) -> tuple[float | None, FloatArray]:
    """Compute the pairwise accuracy over pairs of captions of all videos, where metric differences up to epsilon count
    as ties; also with each block of videos left out, (BLOCKS,). The seed deals videos to two halves; the epsilon of one
    half is the best on the other. None and NaN where a half has no pair.

    Without a block of videos epsilon stays. Of more than MAX_ITEMS items so many are drawn at random. A block is NaN
    that holds no item, or leaves no pair.
    """
    rng = np.random.default_rng(seed)
    half = (rng.permutation(n_videos) % 2)[video]
    if metric.size > MAX_ITEMS:
        drawn = np.sort(rng.choice(metric.size, MAX_ITEMS, replace=False))
        metric, people, block, half = metric[drawn], people[drawn], block[drawn], half[drawn]
    pairs = build_pairs(metric, people, half)
    correct, known = _mark_held_out(pairs, half[pairs.first])
    if not known.all() or not known.size:
        return None, np.full(BLOCKS, np.nan)
    ends, is_inside = (block[pairs.first], block[pairs.second]), block[pairs.first] == block[pairs.second]

    def sum_without_blocks(counts: FloatArray) -> FloatArray:
        """Sum over pairs, without those that have an item of each block."""
        first, second = (np.bincount(end, counts, BLOCKS) for end in ends)
        both = np.bincount(ends[0], counts * is_inside, BLOCKS)
        rest: FloatArray = counts.sum() - first - second + both
        return rest

    n_left, n_right = sum_without_blocks(known), sum_without_blocks(correct)
    is_known = (np.bincount(block, minlength=BLOCKS) > 0) & (n_left > 0)
    return float(correct.mean()), np.where(is_known, n_right / np.maximum(n_left, 1), np.nan)


def _mark_held_out(pairs: CaptionPairs, half: IntArray) -> tuple[FloatArray, FloatArray]:
    """Mark with 1 or 0 which pairs are correct by the epsilon that is best on the pairs of the other half, and which
    pairs have such an epsilon.
    """
    correct, known = np.zeros(pairs.gap.size), np.zeros(pairs.gap.size)
    for number in (0, 1):
        inside = half == number
        epsilon = find_best_epsilon(pairs, ~inside)
        if epsilon is not None:
            correct[inside], known[inside] = pairs.mark_correct(epsilon)[inside], 1
    return correct, known
