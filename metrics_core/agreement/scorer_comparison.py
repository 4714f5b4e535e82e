"""Compares two scorers on the same items: whether they order them alike, which items move most, and which scorer is
closer to people.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from metrics_core.agreement.baseline_comparison import AspectComparisons, Coefficient, find_strongest_baseline
from metrics_core.agreement.coefficients import require_finite_sides, require_group_numbers
from metrics_core.agreement.groupings import DECIMALS, ComparedValues, compute_pooled
from metrics_core.agreement.inputs import AgreementInputs, build_inputs
from metrics_core.agreement.paired_test import permutation_test
from metrics_core.arithmetic import correct_defined_p_values
from metrics_core.arrays import FloatArray
from metrics_core.intervals import Estimate, draw_blocks, jackknife_estimate, jackknife_means

STATISTICS = ("spearman", "kendall_b", "pearson")


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
    """Two scorers' agreement with the mean rating of one aspect, on the n items that have both scores and a rating.
    first, second: the scorer's coefficients with people, by name; difference: second less first, with intervals of its
    own. strongest: the simple score that agrees best on the same items; None without one. p: two-sided, of equal tau-b;
    p_holm: corrected by Holm for the number of aspects.

    The intervals of the difference leave out the same videos of both. p swaps the two scorers' ranks video by video; it
    is None where undefined and for a single video.
    """

    aspect: str
    n: int
    n_videos: int
    n_raters: int
    first: Mapping[str, Estimate]
    second: Mapping[str, Estimate]
    difference: Mapping[str, Estimate]
    strongest: Coefficient | None
    p: float | None = None
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
    ratings: Mapping[str, npt.ArrayLike],
    videos: Sequence[object],
    baselines: Mapping[str, npt.ArrayLike] | None = None,
    *,
    n_resamples: int = 1000,
    seed: int = 0,
) -> tuple[PeopleComparison, ...]:
    """Compare how far two scorers' values (n,) agree with people's ratings (n, raters): a PeopleComparison by aspect,
    in the order of `ratings`, with p-values also corrected for the number of aspects. NaN stands for a missing number.
    videos: (n,). baselines: simple scores, values (n,) by name, of which the strongest is reported, too.

    n_resamples: the greatest number of swaps of the test. Raises ValueError for shapes that do not fit and infinite
    numbers.

    >>> people = {"quality": [[1], [2], [3], [4], [5]]}
    >>> comparison = compare_with_people([2, 1, 4, 3, 3], [1, 2, 3, 4, 6], people, range(5))[0]
    >>> round(comparison.difference["kendall_b"].value, 3), comparison.p
    (0.684, 0.125)
    """
    inputs = build_inputs({"first": first, "second": second}, ratings, videos, baselines=baselines, seed=seed)
    comparisons = [_compare_aspect(inputs, aspect, n_resamples) for aspect in inputs.ratings]
    corrected = correct_defined_p_values([comparison.p for comparison in comparisons])
    return tuple(replace(comparison, p_holm=p) for comparison, p in zip(comparisons, corrected, strict=True))


def _compare_aspect(inputs: AgreementInputs, aspect: str, n_resamples: int) -> PeopleComparison:
    """Compare both scorers with people by one aspect, without correcting the p-value."""
    comparisons, sides = AspectComparisons(inputs, aspect), (inputs.values["first"], inputs.values["second"])
    kept = comparisons.is_rated & np.isfinite(sides[0]) & np.isfinite(sides[1])
    both = [compute_pooled(inputs.select_items(side, comparisons.people, kept), STATISTICS) for side in sides]
    first, second = ({name: side.compute_estimate(name) for name in STATISTICS} for side in both)
    test = permutation_test(
        sides[0][kept],
        sides[1][kept],
        comparisons.people[kept],
        inputs.video[kept].tolist(),
        n_resamples=n_resamples,
        seed=inputs.seed,
    )
    return PeopleComparison(
        aspect,
        int(kept.sum()),
        np.unique(inputs.video[kept]).size,
        int((~np.isnan(comparisons.ratings[kept])).any(axis=0).sum()),
        first,
        second,
        {name: jackknife_estimate(*both[1].subtract(both[0], name), (-2.0, 2.0)) for name in STATISTICS},
        find_strongest_baseline(comparisons, kept),
        test.p,
    )
