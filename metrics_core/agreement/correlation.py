"""Rank correlations of two sides, Spearman's rho and Kendall's tau-b, over all items and within groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metrics_core.arrays import FloatArray, IntArray, numbered


@dataclass(frozen=True, slots=True)
class Correlation:
    """Rank correlations of n items, in [-1, 1]; None where a side is constant, and for fewer than two items."""

    n: int
    spearman: float | None
    kendall: float | None


@dataclass(frozen=True, slots=True)
class MeanCorrelation:
    """Unweighted means of the groups' correlations: every group counts once, whatever its size.

    n_undefined of the n_groups groups have no correlation and are left out. The means are None where no group has one.
    """

    n_groups: int
    n_undefined: int
    spearman: float | None
    kendall: float | None


def correlation(metric: npt.ArrayLike, people: npt.ArrayLike) -> Correlation:
    """Compute Spearman's rho (mean ranks for ties) and Kendall's tau-b of two sides (n,).

    Only equal numbers are ties, so round numbers that may differ by rounding errors alone. Raises ValueError for shapes
    that differ and for numbers that are not finite.

    >>> coefficients = correlation([1, 2, 3, 4, 5, 5], [1, 3, 2, 4, 4, 6])
    >>> round(coefficients.spearman, 6), round(coefficients.kendall, 6)
    (0.897059, 0.785714)
    """
    left, right = both_sides(metric, people)
    return Correlation(left.size, spearman_of(left, right), kendall_of(left, right))


def mean_correlation(metric: npt.ArrayLike, people: npt.ArrayLike, groups: Sequence[object]) -> MeanCorrelation:
    """Average `correlation` over the groups.

    groups (n,): the group of every item. With systems as groups, the mean says whether the metric orders the captions
    of one system, where a difference between systems cannot help; with videos, whether it orders the captions of one
    video.

    >>> mean_correlation([1, 2, 9, 8], [1, 2, 3, 4], ["a", "a", "b", "b"]).kendall
    0.0
    """
    left, right = both_sides(metric, people)
    number = group_numbers("groups", groups, left.size)
    n_groups = int(number.max(initial=-1)) + 1
    by_group = [correlation(left[number == group], right[number == group]) for group in range(n_groups)]
    spearman = [coefficients.spearman for coefficients in by_group if coefficients.spearman is not None]
    kendall = [coefficients.kendall for coefficients in by_group if coefficients.kendall is not None]
    return MeanCorrelation(n_groups, n_groups - len(kendall), mean_of(spearman), mean_of(kendall))


def both_sides(metric: npt.ArrayLike, people: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return both sides as (n,) in float64. Raises ValueError for different shapes and numbers that are not finite."""
    left, right = np.asarray(metric, dtype=np.float64), np.asarray(people, dtype=np.float64)
    if left.ndim != 1 or left.shape != right.shape:
        raise ValueError(
            f"metric has shape {left.shape}, people {right.shape}: give both sides one number for every item, (n,)."
        )
    for name, side in (("metric", left), ("people", right)):
        bad = np.flatnonzero(~np.isfinite(side))
        if bad.size:
            raise ValueError(f"{name} {bad[0]} is {side[bad[0]]}: leave out items that lack a number on a side.")
    return left, right


def group_numbers(name: str, groups: Sequence[object], n: int) -> IntArray:
    """Number the groups of n items from 0 in order of appearance. Raises ValueError unless there are n `groups`."""
    if len(groups) != n:
        raise ValueError(f"There are {len(groups)} {name} for {n} items: give one for each.")
    return numbered(groups)


def spearman_of(left: FloatArray, right: FloatArray) -> float | None:
    """Compute Spearman's rho of checked sides; None where a side is constant."""
    if is_constant(left) or is_constant(right):
        return None
    # SciPy takes half a second to import, and the metrics do not need it.
    from scipy.stats import spearmanr

    return float(spearmanr(left, right).statistic)


def kendall_of(left: FloatArray, right: FloatArray) -> float | None:
    """Compute Kendall's tau-b of checked sides; None where a side is constant."""
    if is_constant(left) or is_constant(right):
        return None
    from scipy.stats import kendalltau

    return float(kendalltau(left, right).statistic)


def is_constant(side: FloatArray) -> bool:
    """Whether all numbers of a side are equal, so that it orders nothing."""
    return side.size < 2 or bool((side == side[0]).all())


def mean_of(values: Sequence[float]) -> float | None:
    """Average the values; None without a value."""
    return float(np.mean(values)) if values else None
