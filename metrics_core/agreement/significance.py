"""Is one metric closer to people than another? Paired permutation test, Williams' test and Holm's correction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metrics_core.agreement.coefficients import Moments, pearson_of
from metrics_core.agreement.correlation import both_sides, group_numbers
from metrics_core.arrays import FloatArray, IntArray

# Permutations come in batches of up to this many swaps (16 MiB).
CELLS = 1 << 21


@dataclass(frozen=True, slots=True)
class PermutationTest:
    """Pearson's r of a metric with people, less the other metric's, and how often chance gives as large a difference.

    difference in [-2, 2]; p in (0, 1], two-sided; both None where a correlation is not defined. n_units: the groups
    whose scores were swapped together. Of one group p is None: it is swapped as a whole or not at all.
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


def permutation_test(
    metric: npt.ArrayLike,
    other: npt.ArrayLike,
    people: npt.ArrayLike,
    groups: Sequence[object] | None = None,
    *,
    n_resamples: int = 1000,
    seed: int = 0,
) -> PermutationTest:
    """Swap the standardised scores of two metrics at random and compare their Pearson correlations with people (n,).

    groups (n,): items whose scores are swapped together, such as a video's captions; None swaps each item alone
    (Deutsch et al. 2021). SciPy tries all swaps where there are at most n_resamples. Raises ValueError for shapes that
    do not fit and numbers that are not finite.

    >>> permutation_test([1, 2, 3, 4, 5], [5, 1, 4, 2, 3], [1, 2, 3, 4, 6]).p
    0.1875
    """
    left, right = both_sides(metric, people)[0], both_sides(other, people)[0]
    truth = np.asarray(people, dtype=np.float64)
    unit = np.arange(left.size) if groups is None else group_numbers("groups", groups, left.size)
    n_units = int(unit.max(initial=-1)) + 1
    first, second = pearson_of(left, truth), pearson_of(right, truth)
    if first is None or second is None:
        return PermutationTest(left.size, n_units, None, None)
    if n_units < 2:
        return PermutationTest(left.size, n_units, first - second, None)
    from scipy.stats import permutation_test as scipy_test

    sums = _sums_by_unit(left, right, truth, unit, n_units)

    def difference(swapped: FloatArray, kept: FloatArray, axis: int) -> FloatArray:
        """Differences of the correlations, where 1 in `swapped` marks the units that have the other metric's score."""
        mask = np.moveaxis(swapped, axis, -1)
        one, two = (_correlations(sums, each, left.size) for each in (mask, 1 - mask))
        return one - two

    result = scipy_test(
        (np.zeros(n_units), np.ones(n_units)),
        difference,
        permutation_type="samples",
        vectorized=True,
        n_resamples=n_resamples,
        batch=max(1, CELLS // n_units),
        rng=np.random.default_rng(seed),
    )
    return PermutationTest(left.size, n_units, first - second, float(result.pvalue))


def _sums_by_unit(left: FloatArray, right: FloatArray, truth: FloatArray, unit: IntArray, n_units: int) -> FloatArray:
    """Sums of z, z² and z times people in every unit, for both metrics: (2, units, 3); z are standardised scores."""
    y = (truth - truth.mean()) / truth.std()
    standard = [(side - side.mean()) / side.std() for side in (left, right)]
    return np.stack(
        [np.stack([np.bincount(unit, each, n_units) for each in (z, z * z, z * y)], axis=1) for z in standard]
    )


def _correlations(sums: FloatArray, swapped: FloatArray, n: int) -> FloatArray:
    """Pearson's r with people, of the first metric where `swapped` (.., units) is 0 and of the second where it is 1."""
    z, squares, products = np.moveaxis(swapped @ (sums[1] - sums[0]) + sums[0].sum(axis=0), -1, 0)
    zero, count = np.zeros_like(z), np.full_like(z, n)
    return Moments(count, z, zero, squares, count, products).correlation()


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
