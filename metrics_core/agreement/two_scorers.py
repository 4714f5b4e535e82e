"""Two scorers on the same items: do they order them alike, which move most, and is one closer to people?

By paired permutation test, Williams' test and Holm's correction.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import numpy.typing as npt

from metrics_core.agreement.coefficients import both_sides, by_group, coefficient, group_numbers
from metrics_core.agreement.groupings import DECIMALS, Sides, pooled
from metrics_core.agreement.raters import mean_rating
from metrics_core.agreement.same_items import STATISTIC, Coefficient, strongest_baseline
from metrics_core.agreement.table import Inputs, checked_inputs
from metrics_core.arithmetic import holm_defined
from metrics_core.arrays import FloatArray
from metrics_core.intervals import LEVEL, Estimate, blocks_of, estimate, mean_left_out

STATISTICS = ("spearman", "kendall_b", "pearson")
# So many swapped ranks are compared at a time.
CELLS = 1 << 14


@dataclass(frozen=True, slots=True)
class Mover:
    """An item whose rank differs, and its percentile by each scorer, in (0, 100): 99 is better than 99 % of the items.

    Equal values share the mean of their ranks.
    """

    position: int
    first: float
    second: float

    @property
    def move(self) -> float:
        """Percentile points by which the second scorer ranks the item higher; below 0 where it ranks it lower."""
        return self.second - self.first


@dataclass(frozen=True)
class ScoresCompared:
    """Two scorers' values of the same n items of n_videos videos.

    correlations: Spearman's rho, Kendall's tau-b and Pearson's r between the two. mean_difference: second less first.
    up, down: the items that the second scorer ranks higher, and lower, than the first; the biggest difference first.
    """

    n: int
    n_videos: int
    correlations: Mapping[str, Estimate]
    mean_difference: Estimate
    up: tuple[Mover, ...]
    down: tuple[Mover, ...]


@dataclass(frozen=True)
class PeopleCompared:
    """Two scorers against the mean rating of one aspect, on the n items that have all three numbers.

    first, second: each scorer's coefficients with people; difference: second less first, with an interval of its own,
    because the same videos are left out of both. p: two-sided, of equal tau-b, by swapping the two scorers' ranks
    video by video; None where undefined and for a single video. p_williams: Williams' test of equal Pearson
    correlations, two-sided; it takes the items as independent. Both are also corrected by Holm for the number of
    aspects. strongest: of the baselines, on the same items, see `SameItems`; None without one.
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
    p_williams: float | None = None
    p_williams_holm: float | None = None


def compare_scores(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    videos: Sequence[object],
    *,
    n_movers: int = 5,
    level: float = LEVEL,
    seed: int = 0,
) -> ScoresCompared:
    """Compare two scorers' values (n,) of the same items, whose videos are given (n,).

    Raises ValueError for shapes that do not fit and numbers that are not finite.

    >>> found = compare_scores([1, 2, 3, 4], [1, 2, 4, 3], ["a", "a", "b", "b"])
    >>> round(found.correlations["kendall_b"].value, 3), found.mean_difference.value, found.up[0].position
    (0.667, 0.0, 2)
    """
    left, right = both_sides(first, second)
    video = group_numbers("videos", videos, left.size)
    block = blocks_of(video, seed)
    found = pooled(Sides(left, right, video, np.full(left.size, -1), block), STATISTICS)
    difference = right - left
    mean = float(difference.mean()) if difference.size else None
    unbounded = (-math.inf, math.inf)
    up, down = _movers(left, right, n_movers)
    return ScoresCompared(
        left.size,
        int(video.max(initial=-1)) + 1,
        {name: found.estimate(name, level) for name in STATISTICS},
        estimate(mean, mean_left_out(difference, block), level, unbounded),
        up,
        down,
    )


def _movers(first: FloatArray, second: FloatArray, n: int) -> tuple[tuple[Mover, ...], tuple[Mover, ...]]:
    """The n items that the second side ranks highest above the first, and the n lowest below it; ties in order."""
    if first.size == 0:
        return (), ()
    from scipy.stats import rankdata

    one, other = (100 * (rankdata(side) - 0.5) / side.size for side in (first, second))
    # Rounding must not order equal moves.
    move = np.round(other - one, DECIMALS)
    ordered = (np.argsort(-sign * move, kind="stable")[:n] for sign in (1, -1))
    up, down = (
        tuple(Mover(int(i), float(one[i]), float(other[i])) for i in order if sign * move[i] > 0)
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
    level: float = LEVEL,
    n_resamples: int = 1000,
    seed: int = 0,
) -> tuple[PeopleCompared, ...]:
    """Compare two scorers' values (n,) with ratings (n, raters) by aspect, NaN where a number is missing.

    baselines: values (n,) by name, of which the strongest stands beside. n_resamples: the swaps of the test. Raises
    ValueError for shapes that do not fit and infinite numbers.

    >>> people = {"quality": [[1], [2], [3], [4], [5]]}
    >>> found = compare_with_people([2, 1, 4, 3, 3], [1, 2, 3, 4, 6], people, range(5))[0]
    >>> round(found.difference["kendall_b"].value, 3), found.p
    (0.684, 0.125)
    """
    scorers = {"first": first, "second": second}
    inputs = checked_inputs(scorers, ratings, videos, baselines=baselines, seed=seed)
    tests = comparison_rows(scorers, inputs.ratings, videos, n_resamples=n_resamples, seed=seed)
    williams = [None if (p := test.p_williams) is None else 2 * min(p, 1 - p) for test in tests]
    chances = zip(tests, holm_defined([test.p for test in tests]), williams, holm_defined(williams), strict=True)
    return tuple(
        replace(_with_people(inputs, test.aspect, level), p=test.p, p_holm=p, p_williams=one, p_williams_holm=other)
        for test, p, one, other in chances
    )


def _with_people(inputs: Inputs, aspect: str, level: float) -> PeopleCompared:
    """Both scorers' coefficients with people and their differences, without the tests."""
    rated, sides = inputs.ratings[aspect], (inputs.values["first"], inputs.values["second"])
    people = mean_rating(rated)
    kept = np.isfinite(people) & np.isfinite(sides[0]) & np.isfinite(sides[1])
    one, other = (pooled(inputs.sides(side, people, kept), STATISTICS) for side in sides)
    first, second = ({name: each.estimate(name, level) for name in STATISTICS} for each in (one, other))
    return PeopleCompared(
        aspect,
        int(kept.sum()),
        np.unique(inputs.video[kept]).size,
        int((~np.isnan(rated[kept])).any(axis=0).sum()),
        first,
        second,
        {name: estimate(*other.less(one, name), level, (-2.0, 2.0)) for name in STATISTICS},
        strongest_baseline(inputs, people, kept, level),
    )


@dataclass(frozen=True, slots=True)
class PermutationTest:
    """Kendall's tau-b of a metric with people, less the other metric's, and how often chance gives so large a one.

    difference in [-2, 2]; p in (0, 1], two-sided; both None where a correlation is not defined. n_units: the groups
    whose ranks were swapped together. Of one group p is None: it is swapped as a whole or not at all.
    """

    n: int
    n_units: int
    difference: float | None
    p: float | None


@dataclass(frozen=True, slots=True)
class WilliamsTest:
    """Williams' t with n - 3 degrees of freedom, above 0 where the first correlation is higher, and its one-sided p.

    Both are None for fewer than four items and where the correlations leave nothing to test.
    """

    t: float | None
    p: float | None


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """Kendall's tau-b of a metric with people less the other metric's, over the n items that have all three numbers.

    p: two-sided, by swapping the two metrics' ranks video by video. p_holm: p corrected for the number of comparisons
    of its aspect. p_williams: one-sided, that the metric's Pearson correlation is higher; it takes the items as
    independent, so it is too small where videos have several captions. None where undefined.
    """

    metric: str
    other: str
    aspect: str
    difference: float | None
    p: float | None
    p_holm: float | None
    p_williams: float | None
    n: int


def comparison_rows(
    metrics: Mapping[str, npt.ArrayLike],
    ratings: Mapping[str, npt.ArrayLike],
    videos: Sequence[object],
    *,
    n_resamples: int = 1000,
    seed: int = 0,
) -> tuple[ComparisonRow, ...]:
    """Compare every two metrics by every aspect; arguments and errors are those of `agreement_rows`.

    >>> rows = comparison_rows({"a": [1, 2, 3, 4, 6], "b": [2, 1, 4, 3, 3]}, {"q": [[1], [2], [3], [4], [5]]}, range(5))
    >>> rows[0].metric, round(rows[0].difference, 3), rows[0].p
    ('a', 0.684, 0.125)
    """
    inputs = checked_inputs(metrics, ratings, videos)
    found = []
    for aspect in inputs.ratings:
        rows = list(_rows(inputs, aspect, n_resamples, seed))
        corrected = holm_defined([row.p for row in rows])
        found += [replace(row, p_holm=p) for row, p in zip(rows, corrected, strict=True)]
    return tuple(found)


def _rows(inputs: Inputs, aspect: str, n_resamples: int, seed: int) -> Iterator[ComparisonRow]:
    """Yield the comparisons by one aspect, not corrected."""
    people = mean_rating(inputs.ratings[aspect])
    for (metric, left), (other, right) in combinations(inputs.values.items(), 2):
        kept = np.isfinite(left) & np.isfinite(right) & np.isfinite(people)
        sides = left[kept], right[kept], people[kept]
        test = permutation_test(*sides, inputs.video[kept].tolist(), n_resamples=n_resamples, seed=seed)
        yield ComparisonRow(metric, other, aspect, test.difference, test.p, None, _williams(*sides).p, test.n)


def _williams(left: FloatArray, right: FloatArray, people: FloatArray) -> WilliamsTest:
    """Williams' test of two metrics; undefined where a correlation is."""
    pairs = (left, people), (right, people), (left, right)
    first, second, between = (coefficient(*pair, "pearson") for pair in pairs)
    if first is None or second is None or between is None:
        return WilliamsTest(None, None)
    return williams_test(first, second, between, people.size)


def permutation_test(
    metric: npt.ArrayLike,
    other: npt.ArrayLike,
    people: npt.ArrayLike,
    groups: Sequence[object] | None = None,
    *,
    n_resamples: int = 1000,
    seed: int = 0,
) -> PermutationTest:
    """Swap the ranks of two metrics at random and compare their tau-b with people (n,).

    groups (n,): items whose ranks are swapped together, such as a video's captions; None swaps each item alone
    (Deutsch et al. 2021). Ranks are all that tau-b reads, so two metrics that order alike are alike here, whatever
    their scales. SciPy tries all swaps where there are at most n_resamples. Raises ValueError for shapes that do not
    fit and numbers that are not finite.

    >>> permutation_test([1, 2, 3, 4, 5], [5, 1, 4, 2, 3], [1, 2, 3, 4, 6]).p
    0.125
    """
    left, right = both_sides(metric, people)[0], both_sides(other, people)[0]
    truth = np.asarray(people, dtype=np.float64)
    unit = np.arange(left.size) if groups is None else group_numbers("groups", groups, left.size)
    n_units = int(unit.max(initial=-1)) + 1
    first, second = (coefficient(side, truth, STATISTIC) for side in (left, right))
    if first is None or second is None:
        return PermutationTest(left.size, n_units, None, None)
    if n_units < 2:
        return PermutationTest(left.size, n_units, first - second, None)
    from scipy.stats import permutation_test as scipy_test
    from scipy.stats import rankdata

    ranks = [rankdata(side) for side in (left, right)]

    def difference(swapped: FloatArray, kept: FloatArray, axis: int) -> FloatArray:
        """The differences where 1 in `swapped` marks the units that have the other metric's ranks."""
        of_other = np.moveaxis(swapped, axis, -1)[..., unit] == 1
        sides = np.stack([np.where(of_other, ranks[1], ranks[0]), np.where(of_other, ranks[0], ranks[1])])
        swap = np.repeat(np.arange(sides.size // truth.size), truth.size)
        found = by_group(
            sides.ravel(), np.tile(truth, swap.size // truth.size), swap, swap.size // truth.size, (STATISTIC,)
        )
        # Ranks that a swap makes all equal order nothing.
        one, two = np.nan_to_num(found[STATISTIC]).reshape(2, *of_other.shape[:-1])
        return np.asarray(one - two)

    result = scipy_test(
        (np.zeros(n_units), np.ones(n_units)),
        difference,
        permutation_type="samples",
        vectorized=True,
        n_resamples=n_resamples,
        batch=max(1, CELLS // left.size),
        rng=np.random.default_rng(seed),
    )
    return PermutationTest(left.size, n_units, first - second, float(result.pvalue))


def williams_test(r12: float, r13: float, r23: float, n: int) -> WilliamsTest:
    """Compare two correlations that share a variable: r12 with r13, given r23 between the two metrics and n items.

    Variable 1 are people. Raises ValueError for correlations outside [-1, 1].

    >>> test = williams_test(0.4, 0.3, 0.5, 103)
    >>> round(test.t, 6), round(test.p, 6)
    (1.093255, 0.138454)
    """
    if not all(-1 <= r <= 1 for r in (r12, r13, r23)):
        raise ValueError(f"The correlations are {r12}, {r13} and {r23}: give numbers from -1 to 1.")
    determinant = 1 - r12**2 - r13**2 - r23**2 + 2 * r12 * r13 * r23
    if n < 4:
        return WilliamsTest(None, None)
    below = 2 * determinant * (n - 1) / (n - 3) + ((r12 + r13) / 2) ** 2 * (1 - r23) ** 3
    # Two metrics that are one another's copy leave 0, or what rounding left of it.
    if below <= 1e-12 or r23 >= 1:
        return WilliamsTest(None, None)
    from scipy.stats import t as student

    t = (r12 - r13) * math.sqrt((n - 1) * (1 + r23) / below)
    return WilliamsTest(t, float(student.sf(t, n - 3)))
