"""Statistics over pairs of captions and of systems: tie calibration (Deutsch et al. 2023) and soft pairwise accuracy
(WMT24).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

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
# Up to this many videos all flips of signs are tried.
EXACT = 10


@dataclass(frozen=True)
class CaptionPairs:
    """Pairs of captions as arrays (pairs,): the positions `first` and `second` of their captions, and the metric's
    absolute difference `gap`. is_tied_by_people: people rate both alike. is_ordered_alike: people do not, and the
    metric's difference has the sign of theirs.
    """

    first: IntArray
    second: IntArray
    gap: FloatArray
    is_tied_by_people: BoolArray
    is_ordered_alike: BoolArray

    def mark_correct(self, epsilon: float | FloatArray) -> BoolArray:
        """Mark in a mask (pairs,) the pairs that the metric orders or ties as people do, where its differences up to
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
    """Find the epsilon, up to which metric differences count as ties, that makes most of the chosen pairs correct.
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
    metric: FloatArray, people: FloatArray, video: IntArray, n_videos: int, seed: int
) -> FloatArray:
    """Compute each video's pairwise accuracy (n_videos,), where metric differences up to epsilon count as ties. The
    seed deals videos to two halves; a video's epsilon is the best one on the other half. NaN for a video without a
    pair, and where the other half has no pair.
    """
    pairs = build_pairs(metric, people, video)
    half = np.random.default_rng(seed).permutation(n_videos) % 2
    pair_video = video[pairs.first]
    correct, known = _mark_held_out(pairs, half[pair_video])
    total = np.bincount(pair_video, known, n_videos)
    with np.errstate(invalid="ignore"):
        return np.where(total > 0, np.bincount(pair_video, correct, n_videos) / total, np.nan)


def compute_pooled_held_out_accuracy(
    metric: FloatArray, people: FloatArray, video: IntArray, block: IntArray, n_videos: int, seed: int
) -> tuple[float | None, FloatArray]:
    """Compute the pairwise accuracy over pairs of captions of all videos, where metric differences up to epsilon count
    as ties. The seed deals videos to two halves; a pair lies in one half, and its epsilon is the best one on the other
    half. The second result is the accuracy again without each block of videos, (BLOCKS,). Where a half has no pair, the
    accuracy is None and the array NaN.

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


def compute_soft_accuracy(
    metric: FloatArray, people: FloatArray, system: IntArray, video: IntArray, n_resamples: int, seed: int
) -> float | None:
    """Compute how alike a metric and people judge the differences between systems, in [0, 1]. It is 1 - mean |p of
    people - p of the metric| over all pairs of systems with a common video, where p is the one-sided p-value that the
    first system is better. None without such a pair. metric, people: finite (n,); system, video: (n,), numbers from 0.
    n_resamples: the number of random flips of signs from which p is computed.

    p is the share of random flips of the signs of the differences on common videos whose sum reaches the observed sum.
    People and metric share the flips; up to EXACT videos all flips are tried. A system's captions of one video are
    averaged.

    >>> metric, people = np.array([0.9, 0.4, 0.6, 0.5, 0.5, 0.5]), np.array([3.0, 4, 5, 2, 3, 5])
    >>> compute_soft_accuracy(metric, people, np.repeat([0, 1], 3), np.tile([0, 1, 2], 2), 1000, 0)
    0.875
    """
    sums = [sum_by_video_and_system(side, system, video) for side in (metric, people, np.ones(metric.size))]
    with np.errstate(invalid="ignore"):
        means = [side / sums[2] for side in sums[:2]]
    first, second = np.array(list(combinations(range(sums[2].shape[1]), 2)), dtype=np.int64).reshape(-1, 2).T
    differences = [side[:, first] - side[:, second] for side in means]
    common = np.isfinite(differences[0]).any(axis=0)
    if not common.any():
        return None
    signs = _draw_sign_flips(sums[2].shape[0], n_resamples, seed)
    p_metric, p_people = (_compute_flip_p_values(np.nan_to_num(side[:, common]), signs) for side in differences)
    return float(1 - np.abs(p_people - p_metric).mean())


def _draw_sign_flips(n: int, n_resamples: int, seed: int) -> FloatArray:
    """Return signs, 1 or -1, for n differences in an array (flips, n). Up to 10 differences (EXACT) it has all 2^n
    combinations; of more, n_resamples random rows by the seed, where the first row leaves all signs as they are.
    """
    if n <= EXACT:
        return np.where(np.arange(2**n)[:, None] >> np.arange(n) & 1, -1.0, 1.0)
    signs = np.where(np.random.default_rng(seed).random((n_resamples, n)) < 0.5, -1.0, 1.0)
    # The signs as seen are one of the flips, so that no p-value is 0.
    signs[0] = 1
    return signs


def _compute_flip_p_values(differences: FloatArray, signs: FloatArray) -> FloatArray:
    """Compute one-sided p-values (pairs,) of the sums over videos of `differences` (videos, pairs). A p-value is the
    share of the sign flips, the rows of `signs` (flips, videos), whose sum reaches the observed sum.
    """
    seen = differences.sum(axis=0)
    p: FloatArray = (signs @ differences >= seen - TOLERANCE * np.abs(differences).sum(axis=0)).mean(axis=0)
    return p


def sum_by_video_and_system(weights: FloatArray, system: IntArray, video: IntArray) -> FloatArray:
    """Sum weights (n,) by video and system: an array (videos, systems), 0 where a system has no item of a video.
    system, video: (n,), numbers from 0.
    """
    sums = np.zeros((int(video.max(initial=-1)) + 1, int(system.max(initial=-1)) + 1))
    np.add.at(sums, (video, system), weights)
    return sums
