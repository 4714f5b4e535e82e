"""The statistics of every group of items, and their mean over groups, also in resamples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from metrics_core.agreement.coefficients import STATISTICS, Coefficients, coefficients
from metrics_core.agreement.small_groups import rowwise_coefficients
from metrics_core.arrays import FloatArray, IntArray

# Up to this many items, every pair of a group is compared; SciPy takes larger groups one by one.
SMALL = 64


@dataclass(frozen=True)
class Resamples:
    """A grouping's statistics: their values (None where undefined), and theirs in every resample (NaN where undefined).

    n: the items, or the groups that have a value. n_undefined: the groups without a value, which are left out.
    """

    values: dict[str, float | None]
    resampled: Coefficients
    n: dict[str, int]
    n_undefined: dict[str, int]


def by_group(metric: FloatArray, people: FloatArray, group: IntArray, n_groups: int) -> Coefficients:
    """Compute the statistics of every group of items (n,), (groups,); NaN for a group without items."""
    found = {name: np.full(n_groups, np.nan) for name in STATISTICS}
    by_size: dict[int, list[tuple[int, IntArray]]] = {}
    for number, rows in groups_of(group):
        by_size.setdefault(rows.size, []).append((number, rows))
    for size, members in by_size.items():
        numbers, rows = np.array([number for number, _ in members]), np.stack([rows for _, rows in members])
        for name, values in _of_equal_size(metric[rows], people[rows], size).items():
            found[name][numbers] = values
    return found


def _of_equal_size(metric: FloatArray, people: FloatArray, size: int) -> Coefficients:
    """The statistics of groups of one size, (groups, size)."""
    if size <= SMALL:
        return rowwise_coefficients(metric, people, np.ones(metric.shape))
    rows = [coefficients(*pair) for pair in zip(metric, people, strict=True)]
    return {name: np.array([np.nan if row[name] is None else row[name] for row in rows]) for name in STATISTICS}


def groups_of(group: IntArray) -> list[tuple[int, IntArray]]:
    """Each group's number and the positions of its items, in ascending order; negative numbers are no group."""
    order = np.argsort(group, kind="stable")
    members = np.split(order, np.flatnonzero(np.diff(group[order])) + 1) if group.size else []
    return [(int(group[rows[0]]), rows) for rows in members if group[rows[0]] >= 0]


def averaged(by: Coefficients, weights: FloatArray, resampled: Callable[[str], FloatArray] | None = None) -> Resamples:
    """Average groups' statistics (groups,), left out where NaN; in resamples with the groups' weights, unless given."""
    defined = {name: np.isfinite(values) for name, values in by.items()}

    def means(name: str) -> FloatArray:
        return quotient(weights @ np.where(defined[name], by[name], 0), weights @ defined[name])

    return Resamples(
        {name: float(values[defined[name]].mean()) if defined[name].any() else None for name, values in by.items()},
        {name: (resampled or means)(name) for name in by},
        {name: int(each.sum()) for name, each in defined.items()},
        {name: int((~each).sum()) for name, each in defined.items()},
    )


def quotient(sums: FloatArray, counts: FloatArray) -> FloatArray:
    """sums / counts, and NaN where the count is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(counts > 0, sums / counts, np.nan)
