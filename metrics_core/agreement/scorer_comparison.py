"""Compares two scorers on the same items: whether they order them in the same way, which items move most, and which
scorer is closer to people.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from metrics_core.agreement.baseline_comparison import AspectComparisons, find_strongest_baseline
from metrics_core.agreement.coefficients import (
    KENDALL,
    compute_group_taus,
    require_finite_sides,
    require_group_numbers,
)
from metrics_core.agreement.groupings import DECIMALS, ComparedValues, compute_pooled
from metrics_core.agreement.inputs import AgreementInputs, build_inputs
from metrics_core.agreement.preferences import (
    Preferences,
    compute_preference_accuracy,
    grade_answers,
)
from metrics_core.agreement.row import AgreementRow
from metrics_core.arithmetic import correct_defined_p_values
from metrics_core.arrays import BoolArray, FloatArray, IntArray, number_groups
from metrics_core.intervals import (
    Estimate,
    JackknifeStatistics,
    draw_blocks,
    jackknife_estimate,
    jackknife_means,
)

STATISTICS = ("spearman", "kendall_b", "pearson")
# The number of swapped values that are compared at a time.
CELLS = 1 << 14


@dataclass(frozen=True, slots=True)
class MovedItem:
    """An item that two scorers rank differently. position: its place in the arrays. first, second: its percentile by
    either scorer, in (0, 100), where 99 is better than 99 % of the items; equal values share the mean of their ranks.
    """

    position: int
    first: float
    second: float

    @property
    def move(self) -> float:
        """By how many percentile points the second scorer ranks the item higher; below 0 where it ranks it lower."""
        return self.second - self.first


@dataclass(frozen=True)
class ScoreComparison:
    """Two scorers' values of the same n items of n_videos videos, compared. correlations: Spearman's rho, Kendall's
    tau-b and Pearson's r between the two, by name. mean_difference: second less first. moved_up, moved_down: the items
    that the second scorer ranks higher, and lower, than the first; the biggest difference first.
    """

    n: int
    n_videos: int
    correlations: Mapping[str, Estimate]
    mean_difference: Estimate
    moved_up: tuple[MovedItem, ...]
    moved_down: tuple[MovedItem, ...]


@dataclass(frozen=True)
class PeopleComparison:
    """Two scorers' agreement with people by one aspect: with the mean ratings of n items, or with n preferences between
    captions, where both have scores. first, second: their statistics by name; difference: second less first, with own
    intervals. strongest: the simple score that agrees best with ratings of the same items; None without one.

    p: two-sided, of equal tau-b, or of equal shares of preferences; p_holm: corrected by Holm for the number of
    aspects. The intervals of the difference leave out the same videos of both. p swaps the two scorers' ranks, or what
    they prefer, video by video; it is None where undefined and for a single video.
    """

    aspect: str
    n: int
    n_videos: int
    n_raters: int
    first: Mapping[str, Estimate]
    second: Mapping[str, Estimate]
    difference: Mapping[str, Estimate]
    strongest: AgreementRow | None
    p: float | None
    p_holm: float | None = None


def compare_scores(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    videos: Sequence[object],
    *,
    n_moved: int = 5,
    seed: int = 0,
) -> ScoreComparison:
    """Compare two scorers' values (n,) of the same items. Return their correlations and mean difference with intervals
    over videos, and in either direction up to `n_moved` items whose ranks differ most. videos: (n,), the video of every
    item. Raises ValueError for shapes that do not fit and numbers that are not finite.

    >>> comparison = compare_scores([1, 2, 3, 4], [1, 2, 4, 3], ["a", "a", "b", "b"])
    >>> round(comparison.correlations["kendall_b"].value, 3), comparison.mean_difference.value
    (0.667, 0.0)
    >>> comparison.moved_up[0].position
    2
    """
    left, right = require_finite_sides(first, second)
    video = require_group_numbers("videos", videos, left.size)
    block = draw_blocks(video, seed)
    statistics = compute_pooled(ComparedValues(left, right, video, np.full(left.size, -1), block), STATISTICS)
    difference = right - left
    mean = float(difference.mean()) if difference.size else None
    unbounded = (-math.inf, math.inf)
    up, down = _list_moved_items(left, right, n_moved)
    return ScoreComparison(
        left.size,
        int(video.max(initial=-1)) + 1,
        {name: statistics.compute_estimate(name) for name in STATISTICS},
        jackknife_estimate(mean, jackknife_means(difference, block), unbounded),
        up,
        down,
    )


def _list_moved_items(
    first: FloatArray, second: FloatArray, n: int
) -> tuple[tuple[MovedItem, ...], tuple[MovedItem, ...]]:
    """List the n items that the second scorer ranks highest above the first, and the n lowest below it; ties in the
    order of the items.
    """
    if first.size == 0:
        return (), ()
    from scipy.stats import rankdata

    first_percentiles, second_percentiles = (100 * (rankdata(side) - 0.5) / side.size for side in (first, second))
    # Rounding must not order equal moves.
    move = np.round(second_percentiles - first_percentiles, DECIMALS)
    ordered = (np.argsort(-sign * move, kind="stable")[:n] for sign in (1, -1))
    up, down = (
        tuple(
            MovedItem(int(i), float(first_percentiles[i]), float(second_percentiles[i]))
            for i in order
            if sign * move[i] > 0
        )
        for sign, order in zip((1, -1), ordered, strict=True)
    )
    return up, down


def compare_with_people(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    by_aspect: Mapping[str, npt.ArrayLike | Preferences],
    videos: Sequence[object],
    baselines: Mapping[str, npt.ArrayLike] | None = None,
    *,
    n_resamples: int = 1000,
    seed: int = 0,
) -> tuple[PeopleComparison, ...]:
    """Compare how far two scorers' values (n,) agree with people: a PeopleComparison by aspect, in the order of
    `by_aspect`, with p-values corrected for the number of aspects. by_aspect: ratings (n, raters), or preferences; NaN
    is a missing number. videos: (n,). baselines: simple scores (n,) by name, for `strongest`. n_resamples: the most
    swaps of the permutation test.

    Raises ValueError for shapes that do not fit and infinite numbers.

    >>> people = {"quality": [[1], [2], [3], [4], [5]]}
    >>> comparison = compare_with_people([2, 1, 4, 3, 3], [1, 2, 3, 4, 6], people, range(5))[0]
    >>> round(comparison.difference["kendall_b"].value, 3), comparison.p
    (0.684, 0.125)
    """
    ratings = {aspect: given for aspect, given in by_aspect.items() if not isinstance(given, Preferences)}
    inputs = build_inputs({"first": first, "second": second}, ratings, videos, baselines=baselines, seed=seed)
    comparisons = [
        _compare_answers(inputs, aspect, given, n_resamples)
        if isinstance(given, Preferences)
        else _compare_ratings(inputs, aspect, n_resamples)
        for aspect, given in by_aspect.items()
    ]
    corrected = correct_defined_p_values([comparison.p for comparison in comparisons])
    return tuple(replace(comparison, p_holm=p) for comparison, p in zip(comparisons, corrected, strict=True))


def _compare_ratings(inputs: AgreementInputs, aspect: str, n_resamples: int) -> PeopleComparison:
    """Compare both scorers with the ratings of one aspect, without correcting the p-value."""
    comparisons, sides = AspectComparisons(inputs, aspect), (inputs.values["first"], inputs.values["second"])
    kept = comparisons.is_rated & np.isfinite(sides[0]) & np.isfinite(sides[1])
    people, video = comparisons.people[kept], number_groups(inputs.video[kept].tolist())
    both = [compute_pooled(inputs.select_items(side, comparisons.people, kept), STATISTICS) for side in sides]
    p = None
    if None not in [side.values[KENDALL] for side in both]:
        difference = _swap_ranks(sides[0][kept], sides[1][kept], people, video)
        p = _test_by_swaps(difference, video, people.size, n_resamples, inputs.seed)
    n_raters = int((~np.isnan(comparisons.ratings[kept])).any(axis=0).sum())
    return _build_comparison(aspect, both, (-2.0, 2.0), video, n_raters, p, find_strongest_baseline(comparisons, kept))


def _compare_answers(
    inputs: AgreementInputs, aspect: str, preferences: Preferences, n_resamples: int
) -> PeopleComparison:
    """Compare both scorers with the preferences of one aspect, without correcting the p-value."""
    sides = inputs.values["first"], inputs.values["second"]
    right = [grade_answers(side, preferences) for side in sides]
    rows = np.isfinite(right[0]) & np.isfinite(right[1])
    kept = preferences.filter_rows(rows)
    video = number_groups(kept.video.tolist())
    gains = np.bincount(video, (right[1] - right[0])[rows], int(video.max(initial=-1)) + 1)

    def difference(swapped: BoolArray) -> FloatArray:
        return np.asarray(np.where(swapped, -gains, gains).sum(axis=-1))

    p = _test_by_swaps(difference, video, gains.size, n_resamples, inputs.seed)
    both = [compute_preference_accuracy(side, kept, inputs.seed) for side in sides]
    return _build_comparison(aspect, both, (-1.0, 1.0), video, np.unique(kept.rater).size, p, None)


def _build_comparison(
    aspect: str,
    both: Sequence[JackknifeStatistics],
    bounds: tuple[float, float],
    video: IntArray,
    n_raters: int,
    p: float | None,
    strongest: AgreementRow | None,
) -> PeopleComparison:
    """Build the comparison of both scorers' statistics, whose differences lie within `bounds`. video: (n,)."""
    first, second = ({name: side.compute_estimate(name) for name in side.values} for side in both)
    difference = {name: jackknife_estimate(*both[1].subtract(both[0], name), bounds) for name in first}
    n_videos = int(video.max(initial=-1)) + 1
    return PeopleComparison(aspect, video.size, n_videos, n_raters, first, second, difference, strongest, p)


def _swap_ranks(
    first: FloatArray, second: FloatArray, people: FloatArray, video: IntArray
) -> Callable[[BoolArray], FloatArray]:
    """Return a function that computes the difference of both scorers' tau-b with people (swaps,) for a mask (swaps,
    videos) of the videos in which their ranks are swapped. Ranks are all that tau-b reads, so two scorers that order
    the same are equal here, whatever their scales (Deutsch et al. 2021).
    """
    from scipy.stats import rankdata

    ranks = [rankdata(side) for side in (first, second)]

    def difference(swapped: BoolArray) -> FloatArray:
        is_swapped = swapped[..., video]
        sides = np.stack([np.where(is_swapped, ranks[1], ranks[0]), np.where(is_swapped, ranks[0], ranks[1])])
        n_swaps = sides.size // people.size
        swap = np.repeat(np.arange(n_swaps), people.size)
        taus = compute_group_taus(sides.ravel(), np.tile(people, n_swaps), swap, n_swaps)
        # Ranks that a swap makes all equal order nothing.
        first_tau, second_tau = np.nan_to_num(taus).reshape(2, *is_swapped.shape[:-1])
        return np.asarray(first_tau - second_tau)

    return difference


def _test_by_swaps(
    compute_difference: Callable[[BoolArray], FloatArray], video: IntArray, n_items: int, n_resamples: int, seed: int
) -> float | None:
    """Compute the two-sided p-value of a difference between two scorers: how often swapping them at random in videos
    gives a difference at least as far from 0. None with fewer than two videos. compute_difference: returns the
    differences (swaps,) for a mask (swaps, videos). n_items: how many items one swap compares.

    All swaps are tried where there are at most n_resamples, else so many at random by the seed.

    >>> gains = np.array([1.0, 2.0, 3.0])
    >>> _test_by_swaps(lambda swapped: np.where(swapped, -gains, gains).sum(axis=-1), np.arange(3), 3, 99, 0)
    0.25
    """
    n_videos = int(video.max(initial=-1)) + 1
    if n_videos < 2:
        return None
    from scipy.stats import permutation_test

    def statistic(swapped: FloatArray, rest: FloatArray, axis: int) -> FloatArray:
        return compute_difference(np.moveaxis(swapped, axis, -1) == 1)

    result = permutation_test(
        (np.zeros(n_videos), np.ones(n_videos)),
        statistic,
        permutation_type="samples",
        vectorized=True,
        n_resamples=n_resamples,
        batch=max(1, CELLS // max(1, n_items)),
        rng=np.random.default_rng(seed),
    )
    return float(result.pvalue)
