"""Weighted estimates, without bias, of which of two metrics, thresholds or systems is better, from ratings of captions
that were drawn with unequal chances (see `sampling`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from metrics_core.agreement.coefficients import list_group_pairs
from metrics_core.arrays import BoolArray, FloatArray, IntArray, number_groups
from metrics_core.calibration.rated_search import FEWEST_VIDEOS
from metrics_core.intervals import confidence_sequence

FEWEST_CAPTIONS = 5
"""The least number of good captions and of other captions, both between the two thresholds and outside, for an interval
of their difference.
"""
EXPECTED_DIFFERENCE = 0.1
"""A difference of tau-b or of Youden's J that is worth finding; for ratings it is this share of their scale."""
T = TypeVar("T", FloatArray, npt.NDArray[np.int8])
# So many pairs are compared at a time.
CELLS = 1 << 16


@dataclass(frozen=True, slots=True)
class DifferenceEstimate:
    """By how much the second of two metrics, thresholds or systems is better than the first (`value`); below 0 where
    the first is better. low, high: its interval over videos, which stays valid if it is looked at after every rating.
    value, low and high are None where undefined. n: the captions with a weight above 0, or for systems the videos;
    n_videos: their videos.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int
    n_videos: int

    @property
    def winner(self) -> int | None:
        """The better one by more than chance: 0 for the first, 1 for the second. None while that is open, below
        FEWEST_VIDEOS (10) videos, and without an interval.
        """
        if self.n_videos < FEWEST_VIDEOS or self.low is None or self.high is None:
            return None
        return 1 if self.low > 0 else 0 if self.high < 0 else None


def compute_tau_difference(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    people: npt.ArrayLike,
    weights: npt.ArrayLike,
    videos: Sequence[object],
) -> DifferenceEstimate:
    """Compute by how much Kendall's tau-b of the second metric with people's ratings is above that of the first, over
    weighted captions, with its interval over videos. first, second, people, weights: finite (n,), see
    `compute_draw_weights` for the weights. videos: (n,), the video of every caption. A caption of weight 0 does not
    count.

    A pair weighs the product of its captions' weights, so equal weights give plain tau-b.

    >>> ones, people = np.ones(5), [1, 2, 3, 4, 5]
    >>> round(compute_tau_difference([2, 1, 4, 3, 3], [1, 2, 3, 4, 6], people, ones, range(5)).value, 3)
    0.684
    """
    sides = np.array([first, second, people], dtype=np.float64)
    weight = np.asarray(weights, dtype=np.float64)
    kept = weight > 0
    sides, weight, video = sides[:, kept], weight[kept], _number_videos(videos, kept)
    item_sums = _pair_sums(sides, weight)
    by_video = np.stack([np.bincount(video, sums) for sums in item_sums])
    total = item_sums.sum(axis=1)
    # Without a video: all pairs less those with an item of it, where pairs inside it were taken twice.
    left = total[:, None] - 2 * by_video + _pair_sums_inside_videos(sides, weight, video)
    exact, jackknife_values = (_tau_difference(sums) for sums in (total, left))
    return _build_estimate(float(exact), jackknife_values, video, (-2.0, 2.0), EXPECTED_DIFFERENCE)


def _pair_sums(sides: FloatArray, weight: FloatArray) -> FloatArray:
    """Sum the weights of each item's pairs, (5, items), where a pair counts once with either of its items;
    `_tau_difference` explains the five rows.
    """
    sums = np.zeros((5, weight.size))
    step = max(1, CELLS // max(1, weight.size))
    for begin in range(0, weight.size, step):
        rows = slice(begin, begin + step)
        # Signs of one byte are compared several times faster than numbers.
        signs = ((s[rows, None] > s).view(np.int8) - (s[rows, None] < s).view(np.int8) for s in sides)
        for number, pairs in enumerate(_pair_products(*signs)):
            sums[number, rows] = pairs.astype(np.float64) @ weight
    return sums * weight


def _pair_sums_inside_videos(sides: FloatArray, weight: FloatArray, video: IntArray) -> FloatArray:
    """Sum as `_pair_sums` does over the pairs of captions of one video, (5, videos), every pair twice."""
    first, second = list_group_pairs(video)
    products, n_videos = 2 * weight[first] * weight[second], int(video.max(initial=-1)) + 1
    signs = (np.sign(side[first] - side[second]) for side in sides)
    return np.stack([np.bincount(video[first], pairs * products, n_videos) for pairs in _pair_products(*signs)])


def _pair_products(first: T, second: T, people: T) -> tuple[T, T, T, T, T]:
    """Return what pairs add to the five sums of `_tau_difference`, from the signs of their differences."""
    return first * people, second * people, first * first, second * second, people * people


def _tau_difference(sums: FloatArray) -> FloatArray:
    """Compute tau-b of the second metric less that of the first, (..), from sums over pairs (5, ..); NaN where one is
    undefined.

    The five sums: the first metric's concordant less discordant pairs, the second's, and the pairs that differ by the
    first metric, by the second, by people.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        first, second = (sums[side] / np.sqrt(sums[2 + side] * sums[4]) for side in (0, 1))
        difference: FloatArray = np.asarray(second - first)
    return difference


def compute_youden_difference(
    values: npt.ArrayLike,
    good: npt.ArrayLike,
    lower: float,
    upper: float,
    weights: npt.ArrayLike,
    videos: Sequence[object],
) -> DifferenceEstimate:
    """Compute by how much Youden's J of the threshold `upper` is above that of `lower`, over weighted captions, with
    its interval over videos. Youden's J is the share of good captions that reach the threshold less that of other
    captions. values: (n,), the metric's. good: (n,), whether people rate the caption as good. weights: (n,), see
    `compute_draw_weights`; a caption of weight 0 does not count. videos: (n,).

    There is no interval with fewer than FEWEST_CAPTIONS captions of a kind (good or other, between the thresholds or
    outside), because the jackknife takes shares near 0 and 1 for certain.

    >>> values, good = [0.1, 0.5, 0.6, 0.9], [False, False, True, True]
    >>> compute_youden_difference(values, good, 0.5, 0.9, np.ones(4), range(4)).value
    0.0
    """
    scores, is_good = np.asarray(values, dtype=np.float64), np.asarray(good, dtype=np.bool_)
    weight = np.asarray(weights, dtype=np.float64)
    kept = weight > 0
    between = (scores >= lower) & (scores < upper)
    columns = np.stack([is_good, ~is_good, is_good & between, ~is_good & between], axis=1) * weight[:, None]
    video = _number_videos(videos, kept)

    def gain(sums: FloatArray) -> FloatArray:
        return sums[..., 3] / sums[..., 1] - sums[..., 2] / sums[..., 0]

    estimate = _estimate_from_sums(columns[kept], gain, video, (-1.0, 1.0), EXPECTED_DIFFERENCE)
    cells = np.bincount(2 * between[kept] + is_good[kept], minlength=4)
    return estimate if cells.min() >= FEWEST_CAPTIONS else replace(estimate, low=None, high=None)


def choose_least_good_rating(ratings: npt.ArrayLike, weights: npt.ArrayLike) -> float:
    """Return the rating from which on a caption counts as good: the weighted median of ratings (n,). Where no rating is
    below the median, it is the next rating above it, if there is one. weights: (n,). At least one rating is needed.

    >>> choose_least_good_rating([5, 4, 1], [1, 1, 3]), choose_least_good_rating([5, 4, 1], [1, 1, 1])
    (4.0, 4.0)
    """
    values, weight = np.asarray(ratings, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weight[order])
    median = float(values[order][np.searchsorted(reached, reached[-1] / 2)])
    return median if median > values.min() else float(values[values > median].min(initial=values.max()))


def compute_rating_difference(
    differences: npt.ArrayLike,
    weights: npt.ArrayLike,
    videos: Sequence[object],
    *,
    greatest_difference: float,
) -> DifferenceEstimate:
    """Compute the weighted mean of the second system's rating less the first system's rating of the same video, with
    its interval over videos. differences, weights, videos: (n,), an item for each video; see `compute_draw_weights` for
    the weights, where 0 leaves out a video. greatest_difference: the ratings' highest less their lowest possible value;
    it bounds the interval.

    >>> estimate = compute_rating_difference([1.0, 0.0, 2.0], [1.0, 1.0, 2.0], "abc", greatest_difference=4.0)
    >>> estimate.value, estimate.n
    (1.25, 3)
    """
    weight = np.asarray(weights, dtype=np.float64)
    kept = weight > 0
    columns = np.stack([np.asarray(differences, dtype=np.float64) * weight, weight], axis=1)[kept]

    def mean(sums: FloatArray) -> FloatArray:
        return sums[..., 0] / sums[..., 1]

    return _estimate_from_sums(
        columns,
        mean,
        _number_videos(videos, kept),
        (-greatest_difference, greatest_difference),
        EXPECTED_DIFFERENCE * greatest_difference,
    )


def _estimate_from_sums(
    columns: FloatArray,
    compute: Callable[[FloatArray], FloatArray],
    video: IntArray,
    bounds: tuple[float, float],
    expected_difference: float,
) -> DifferenceEstimate:
    """Compute a function of the columns' sums over the units (n, columns), with its interval over videos."""
    sums = np.zeros((int(video.max(initial=-1)) + 1, columns.shape[1]))
    np.add.at(sums, video, columns)
    total = sums.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        exact, jackknife_values = compute(total), compute(total - sums)
    return _build_estimate(float(exact), jackknife_values, video, bounds, expected_difference)


def _number_videos(videos: Sequence[object], kept: BoolArray) -> IntArray:
    """Number the videos of the units that are kept."""
    return number_groups([video for video, is_kept in zip(videos, kept.tolist(), strict=True) if is_kept])


def _build_estimate(
    value: float,
    jackknife_values: FloatArray,
    video: IntArray,
    bounds: tuple[float, float],
    expected_difference: float,
) -> DifferenceEstimate:
    estimate = confidence_sequence(
        value if math.isfinite(value) else None, jackknife_values, expected_difference, bounds
    )
    return DifferenceEstimate(estimate.value, estimate.low, estimate.high, video.size, int(video.max(initial=-1)) + 1)
