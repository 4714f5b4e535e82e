"""Is one metric closer to people than another? Paired permutation test, Williams' test and Holm's correction."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import numpy.typing as npt

from metrics_core.agreement.coefficients import (
    CELLS,
    both_sides,
    by_group,
    coefficient,
    dense_ranks,
    group_numbers,
    mean_ranks,
)
from metrics_core.agreement.raters import mean_rating
from metrics_core.agreement.table import Inputs, checked_inputs
from metrics_core.arrays import FloatArray

STATISTIC = "kendall_b"


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

    ranks = [mean_ranks(dense_ranks(side)) for side in (left, right)]

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


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Correct p-values for their number by Holm's steps, in their order.

    >>> holm([0.01, 0.04, 0.03])
    (0.03, 0.06, 0.06)
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    corrected, highest = [0.0] * len(p_values), 0.0
    for step, position in enumerate(order):
        highest = max(highest, min(1.0, p_values[position] * (len(p_values) - step)))
        corrected[position] = highest
    return tuple(corrected)


def holm_defined(p_values: Sequence[float | None]) -> list[float | None]:
    """Correct by Holm those p-values that are defined.

    >>> holm_defined([0.03, None, 0.01])
    [0.03, None, 0.02]
    """
    corrected = iter(holm([p for p in p_values if p is not None]))
    return [None if p is None else next(corrected) for p in p_values]
