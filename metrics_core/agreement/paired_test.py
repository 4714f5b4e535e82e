"""The permutation test of two scorers on the same items: how often chance gives their difference, by swapping the two
scorers within videos.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metrics_core.agreement.coefficients import (
    compute_coefficient,
    compute_group_coefficients,
    require_finite_sides,
    require_group_numbers,
)
from metrics_core.agreement.row import KENDALL
from metrics_core.arrays import BoolArray, FloatArray

# The number of swapped values that are compared at a time.
CELLS = 1 << 14


def permutation_p_value(
    compute_difference: Callable[[BoolArray], FloatArray], n_units: int, *, n_items: int, n_resamples: int, seed: int
) -> float | None:
    """Compute the two-sided p-value of a difference between two scorers, by swapping the scorers at random in units
    such as videos. It is how often a swap gives a difference at least as far from 0. None with fewer than two units.
    compute_difference: returns the differences (swaps,) for a mask (swaps, units) of the units in which the scorers are
    swapped. n_items: how many items all units hold.

    All swaps are tried where there are at most n_resamples, else so many at random by the seed. A single unit is
    swapped as a whole or not at all, so it has no p-value.

    >>> gains = np.array([1.0, 2.0, 3.0])
    >>> def difference(swapped): return np.where(swapped, -gains, gains).sum(axis=-1)
    >>> permutation_p_value(difference, 3, n_items=3, n_resamples=99, seed=0)
    0.25
    """
    if n_units < 2:
        return None
    from scipy.stats import permutation_test as scipy_test

    def statistic(swapped: FloatArray, rest: FloatArray, axis: int) -> FloatArray:
        return compute_difference(np.moveaxis(swapped, axis, -1) == 1)

    result = scipy_test(
        (np.zeros(n_units), np.ones(n_units)),
        statistic,
        permutation_type="samples",
        vectorized=True,
        n_resamples=n_resamples,
        batch=max(1, CELLS // max(1, n_items)),
        rng=np.random.default_rng(seed),
    )
    return float(result.pvalue)


@dataclass(frozen=True, slots=True)
class PermutationTest:
    """The result of a permutation test. difference: Kendall's tau-b of a metric with people less the other metric's, in
    [-2, 2]. p: the two-sided p-value of this difference, in (0, 1]. Both are None where a correlation is not defined.
    n: the items. n_units: the groups whose ranks were swapped together; with a single group p is None.
    """

    n: int
    n_units: int
    difference: float | None
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
    """Test whether two metrics differ in Kendall's tau-b with people, by swapping their ranks at random. Return the
    difference, first less second, and its p-value. metric, other, people: (n,), finite. groups (n,): items whose ranks
    are swapped together, such as a video's captions; None swaps every item by itself (Deutsch et al. 2021).

    Ranks are all that tau-b reads, so two metrics that order alike are alike here, whatever their scales. Raises
    ValueError for shapes that do not fit and numbers that are not finite.

    >>> permutation_test([1, 2, 3, 4, 5], [5, 1, 4, 2, 3], [1, 2, 3, 4, 6]).p
    0.125
    """
    left, right = require_finite_sides(metric, people)[0], require_finite_sides(other, people)[0]
    truth = np.asarray(people, dtype=np.float64)
    unit = np.arange(left.size) if groups is None else require_group_numbers("groups", groups, left.size)
    n_units = int(unit.max(initial=-1)) + 1
    first, second = (compute_coefficient(side, truth, KENDALL) for side in (left, right))
    if first is None or second is None:
        return PermutationTest(left.size, n_units, None, None)
    from scipy.stats import rankdata

    ranks = [rankdata(side) for side in (left, right)]

    def difference(swapped: BoolArray) -> FloatArray:
        is_swapped = swapped[..., unit]
        sides = np.stack([np.where(is_swapped, ranks[1], ranks[0]), np.where(is_swapped, ranks[0], ranks[1])])
        swap = np.repeat(np.arange(sides.size // truth.size), truth.size)
        n_swaps = sides.size // truth.size
        coefficients = compute_group_coefficients(sides.ravel(), np.tile(truth, n_swaps), swap, n_swaps, (KENDALL,))
        # Ranks that a swap makes all equal order nothing.
        first_tau, second_tau = np.nan_to_num(coefficients[KENDALL]).reshape(2, *is_swapped.shape[:-1])
        return np.asarray(first_tau - second_tau)

    p = permutation_p_value(difference, n_units, n_items=left.size, n_resamples=n_resamples, seed=seed)
    return PermutationTest(left.size, n_units, first - second, p)
