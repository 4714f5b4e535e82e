"""Tie calibration: below which difference a metric's scores of two captions count as a tie (Deutsch et al. 2023)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metrics_core.agreement.correlation import both_sides, group_numbers
from metrics_core.agreement.pairwise import TOLERANCE, pairs_inside
from metrics_core.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class TieCalibration:
    """The epsilon with the highest pairwise accuracy: metric differences up to it are ties.

    accuracy: over all n_pairs pairs, in [0, 1], and as good as it is because epsilon was chosen on these pairs. Both
    are None without a pair.
    """

    epsilon: float | None
    accuracy: float | None
    n_pairs: int


@dataclass(frozen=True)
class Pairs:
    """Pairs of captions, each (pairs,): gap is the metric's absolute difference.

    tied: people tie them. agreeing: people do not, and the metric's difference has the sign of theirs.
    """

    one: IntArray
    gap: FloatArray
    tied: BoolArray
    agreeing: BoolArray

    def correct(self, epsilon: float | FloatArray) -> BoolArray:
        """Which pairs are right where differences up to epsilon are ties."""
        metric_tied = self.gap <= epsilon + TOLERANCE
        right: BoolArray = np.where(metric_tied, self.tied, self.agreeing)
        return right


def calibrate_ties(metric: npt.ArrayLike, people: npt.ArrayLike, groups: Sequence[object]) -> TieCalibration:
    """Choose epsilon over the pairs of items of the same group, among 0 and the metric's differences.

    Of equally good ones the smallest is chosen. Raises ValueError for shapes that do not fit and numbers that are not
    finite. An accuracy to report needs other pairs: see `held_out_accuracy`.

    >>> found = calibrate_ties([0.10, 0.15, 0.50, 0.72], [1, 1, 2, 3], ["v"] * 4)
    >>> round(found.epsilon, 9), found.accuracy
    (0.05, 1.0)
    """
    left, right = both_sides(metric, people)
    pairs = pairs_of(left, right, group_numbers("groups", groups, left.size))
    return best_epsilon(pairs, np.ones(pairs.gap.size, dtype=np.bool_))


def pairs_of(metric: FloatArray, people: FloatArray, group: IntArray) -> Pairs:
    """Compare every two items of the same group."""
    one, other = pairs_inside(group)
    difference, wanted = metric[one] - metric[other], people[one] - people[other]
    tied = np.abs(wanted) <= TOLERANCE
    return Pairs(one, np.abs(difference), tied, ~tied & (np.sign(difference) == np.sign(wanted)))


def best_epsilon(pairs: Pairs, chosen: BoolArray) -> TieCalibration:
    """Choose epsilon on the chosen pairs (pairs,)."""
    gap, tied, agreeing = pairs.gap[chosen], pairs.tied[chosen], pairs.agreeing[chosen]
    if gap.size == 0:
        return TieCalibration(None, None, 0)
    order = np.argsort(gap)
    gaps = gap[order]
    # A pair that becomes a tie gains if people tie it and loses if the metric had ordered it as they do.
    gains = np.cumsum(tied[order].astype(np.int64) - agreeing[order])
    last = np.flatnonzero(np.append(np.diff(gaps) > TOLERANCE, True))
    candidates, correct = gaps[last], gains[last]
    if gaps[0] > TOLERANCE:
        candidates, correct = np.append(0.0, candidates), np.append(0, correct)
    best = int(np.argmax(correct))
    return TieCalibration(float(candidates[best]), float(agreeing.sum() + correct[best]) / gap.size, gap.size)


def held_out_accuracy(
    metric: FloatArray, people: FloatArray, video: IntArray, n_videos: int, seed: int, n_folds: int = 2
) -> FloatArray:
    """Compute each video's pairwise accuracy (n_videos,), with the epsilon that is best on the other folds of videos.

    Videos are dealt to folds at random. NaN for a video without a pair, and for all without pairs in another fold.
    """
    pairs = pairs_of(metric, people, video)
    fold = np.random.default_rng(seed).permutation(n_videos) % n_folds
    of_pair = video[pairs.one]
    correct, known = np.zeros(pairs.gap.size), np.zeros(pairs.gap.size)
    for number in range(n_folds):
        inside = fold[of_pair] == number
        epsilon = best_epsilon(pairs, ~inside).epsilon
        if epsilon is not None:
            correct[inside], known[inside] = pairs.correct(epsilon)[inside], 1
    total = np.bincount(of_pair, known, n_videos)
    with np.errstate(invalid="ignore"):
        return np.where(total > 0, np.bincount(of_pair, correct, n_videos) / total, np.nan)
