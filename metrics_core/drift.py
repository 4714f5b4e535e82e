"""Compares every group of values, such as a shard's scores, with all other values: a rank test with an effect size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metrics_core.arithmetic import correct_p_values

LEAST_DELTA = 0.147
"""The lowest Cliff's delta, without its sign, at which a difference counts as more than negligible (Romano et al.
2006).
"""


@dataclass(frozen=True, slots=True)
class GroupShift:
    """The difference of the n values of group `group` from those of all other groups. delta: Cliff's delta in [-1, 1],
    the share of pairs in which the group's value is greater, less the share in which it is smaller. p: two-sided, of
    the Mann-Whitney test with ties, corrected by Holm for the number of groups.
    """

    group: int
    n: int
    delta: float
    p: float

    @property
    def is_shifted(self) -> bool:
        """Whether the group differs by more than chance (p below 0.01) and by more than a negligible effect (delta of
        LEAST_DELTA or more, without its sign).
        """
        return self.p < 0.01 and abs(self.delta) >= LEAST_DELTA


def measure_shifts(values: npt.ArrayLike, groups: npt.ArrayLike, least_size: int = 20) -> list[GroupShift]:
    """Compare each group's values with those of all other groups: a GroupShift by group, ascending. Groups with fewer
    than `least_size` values, inside or outside, are left out. values: (n,), finite and independent, such as means of
    videos. groups: (n,), whole numbers from 0. Raises ValueError for other shapes and values that are not finite.

    >>> shifts = measure_shifts([1.0] * 30 + [2.0] * 30 + [1.0] * 60, [0] * 30 + [1] * 30 + [2] * 60)
    >>> [(shift.group, round(shift.delta, 2), shift.is_shifted) for shift in shifts]
    [(0, -0.33, True), (1, 1.0, True), (2, -0.5, True)]
    """
    from scipy.special import ndtr
    from scipy.stats import rankdata

    numbers, members = np.asarray(values, dtype=np.float64), np.asarray(groups, dtype=np.intp)
    if numbers.ndim != 1 or members.shape != numbers.shape or not np.isfinite(numbers).all():
        raise ValueError(
            f"values have shape {numbers.shape} and groups {members.shape}: give finite values (n,) and (n,)"
        )
    n = len(numbers)
    sizes = np.bincount(members) if n else np.empty(0, dtype=np.intp)
    (compared,) = np.nonzero((sizes >= least_size) & (n - sizes >= least_size))
    if not len(compared):
        return []
    ranks = np.asarray(rankdata(numbers))
    inside = sizes[compared].astype(np.float64)
    outside = n - inside
    wins = np.bincount(members, weights=ranks)[compared] - inside * (inside + 1) / 2
    _, tied = np.unique(numbers, return_counts=True)
    ties = float((tied.astype(np.float64) ** 3 - tied).sum())
    spread = np.sqrt(inside * outside / 12 * (n + 1 - ties / (n * (n - 1))))
    with np.errstate(divide="ignore", invalid="ignore"):
        # Where all values are equal nothing differs.
        z = np.where(spread > 0, (wins - inside * outside / 2) / spread, 0.0)
    adjusted = correct_p_values((2 * ndtr(-np.abs(z))).tolist())
    deltas = 2 * wins / (inside * outside) - 1
    rows = zip(compared.tolist(), inside.astype(int).tolist(), deltas.tolist(), adjusted, strict=True)
    return [GroupShift(*row) for row in rows]
