"""How alike two sides rank the same items: Spearman's rho and Kendall's tau-b, pooled and inside groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metrics_core.agreement.inputs import both_sides, group_numbers
from metrics_core.calibration.labels import FloatArray


@dataclass(frozen=True, slots=True)
class Correlation:
    """Rank correlations of n items in [-1, 1]; None where a side is constant, and so for fewer than two items."""

    n: int
    spearman: float | None
    kendall: float | None


@dataclass(frozen=True, slots=True)
class MeanCorrelation:
    """Unweighted means of the groups' correlations, each group counting once whatever its size.

    n_undefined of n_groups groups have no correlation and are left out; None where that is all of them.
    """

    n_groups: int
    n_undefined: int
    spearman: float | None
    kendall: float | None


def correlation(metric: npt.ArrayLike, people: npt.ArrayLike) -> Correlation:
    """Spearman's rho (mean ranks for ties) and Kendall's tau-b of two sides (n,).

    Only equal numbers are ties: round what may differ by rounding alone. Raises ValueError for shapes that differ and
    for numbers that are not finite.

    >>> found = correlation([1, 2, 3, 4, 5, 5], [1, 3, 2, 4, 4, 6])
    >>> round(found.spearman, 6), round(found.kendall, 6)
    (0.897059, 0.785714)
    """
    left, right = both_sides(metric, people)
    return Correlation(left.size, spearman_of(left, right), kendall_of(left, right))


def mean_correlation(metric: npt.ArrayLike, people: npt.ArrayLike, groups: Sequence[object]) -> MeanCorrelation:
    """The mean of `correlation` inside each group.

    groups (n,): the system of each caption asks whether the metric orders the captions of one system, so that a
    difference between systems cannot help; the video of each asks whether it orders the captions of one video.

    >>> mean_correlation([1, 2, 9, 8], [1, 2, 3, 4], ["a", "a", "b", "b"]).kendall
    0.0
    """
    left, right = both_sides(metric, people)
    number = group_numbers("groups", groups, left.size)
    n_groups = int(number.max(initial=-1)) + 1
    found = [correlation(left[number == group], right[number == group]) for group in range(n_groups)]
    spearman = [each.spearman for each in found if each.spearman is not None]
    kendall = [each.kendall for each in found if each.kendall is not None]
    return MeanCorrelation(n_groups, n_groups - len(kendall), mean_of(spearman), mean_of(kendall))


def spearman_of(left: FloatArray, right: FloatArray) -> float | None:
    """Spearman's rho of checked sides."""
    if is_constant(left) or is_constant(right):
        return None
    # Imported here because the other metrics do without it, and it takes half a second.
    from scipy.stats import spearmanr

    return float(spearmanr(left, right).statistic)


def kendall_of(left: FloatArray, right: FloatArray) -> float | None:
    """Kendall's tau-b of checked sides."""
    if is_constant(left) or is_constant(right):
        return None
    from scipy.stats import kendalltau

    return float(kendalltau(left, right).statistic)


def is_constant(side: FloatArray) -> bool:
    """Whether a side orders nothing."""
    return side.size < 2 or bool((side == side[0]).all())


def mean_of(values: Sequence[float]) -> float | None:
    """The mean; None of nothing."""
    return float(np.mean(values)) if values else None
