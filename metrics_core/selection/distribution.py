"""How values are distributed: extremes, a histogram, and thresholds that keep a share, of all and of every group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from metrics_core.selection.strata import count_in_share

Values = npt.NDArray[np.float64]
Groups = npt.NDArray[np.integer[Any]]


class GroupThreshold(NamedTuple):
    """The threshold that keeps a share, from 0 to 1, of the `n` values of one group. value: the lowest of the best
    floor(share * n) values, at least one. n_kept: how many values are at least `value`; more than that if several equal
    it.
    """

    group: int
    n: int
    share: float
    value: float
    n_kept: int


@dataclass(frozen=True, slots=True)
class Distribution:
    """Histogram, extremes and thresholds of `n` values. counts: the values in equal bins from `low` to `high`.
    thresholds: by share, the lowest of the best floor(share * n) values, at least one. n_kept: by share, how many
    values are at least as high as its threshold.

    A value on a limit is in the bin above it, and `high` is in the last one. If all values are equal, all are in the
    first bin. `count_in_share(share, n)` computes how many values a share is.
    """

    n: int
    low: float
    high: float
    counts: tuple[int, ...]
    thresholds: Mapping[float, float]
    n_kept: Mapping[float, int]


def compute_distribution(values: Values, shares: Sequence[float] = (), bins: int = 30) -> Distribution:
    """Return the distribution of values (n,), at least one, all finite. shares: from 0 to 1, for which thresholds are
    computed. bins: the number of equal bins of the histogram.

    >>> compute_distribution(np.array([0.5, 0.1, 0.9, 0.9]), [0.25], bins=2)
    Distribution(n=4, low=0.1, high=0.9, counts=(1, 3), thresholds={0.25: 0.9}, n_kept={0.25: 2})
    """
    ordered = np.sort(values)
    kept = [_find_threshold(ordered, share) for share in shares]
    return Distribution(
        n=len(ordered),
        low=float(ordered[0]),
        high=float(ordered[-1]),
        counts=tuple(np.bincount(_find_bins(ordered, bins), minlength=bins).tolist()),
        thresholds={share: value for share, (value, _) in zip(shares, kept, strict=True)},
        n_kept={share: n_kept for share, (_, n_kept) in zip(shares, kept, strict=True)},
    )


def compute_group_thresholds(values: Values, groups: Groups, shares: Sequence[float]) -> list[GroupThreshold]:
    """Return the thresholds that keep these shares, from 0 to 1, of the values of every group, ordered by group and
    share. values: (n,), finite; groups: (n,), the number of the group of every value.

    >>> compute_group_thresholds(np.array([0.5, 0.9]), np.array([1, 1]), [0.5])
    [GroupThreshold(group=1, n=2, share=0.5, value=0.9, n_kept=1)]
    """
    return [
        GroupThreshold(group, len(ordered), share, *_find_threshold(ordered, share))
        for group, ordered in _sort_groups(values, groups)
        for share in sorted(shares)
    ]


def compute_group_means(values: Values, groups: Groups) -> tuple[Values, npt.NDArray[np.intp]]:
    """Return the mean value of every group, in ascending order of the groups' numbers, and the position of one value of
    every group. values, groups: (n,).

    >>> means, positions = compute_group_means(np.array([0.5, 0.1, 0.9]), np.array([7, 2, 7]))
    >>> means.tolist(), positions.tolist()
    ([0.1, 0.7], [1, 0])
    """
    _, positions, places, sizes = np.unique(groups, return_index=True, return_inverse=True, return_counts=True)
    return np.bincount(places, weights=values) / sizes, positions


def _sort_groups(values: Values, groups: Groups) -> Iterator[tuple[int, Values]]:
    """Yield the number of every group, in ascending order, with its values in ascending order."""
    # NumPy sorts short integers in linear time.
    order = np.argsort(groups, kind="stable")
    numbers, starts = np.unique(groups[order], return_index=True)
    yield from zip(numbers.tolist(), map(np.sort, np.split(values[order], starts[1:])), strict=False)


def _find_threshold(ordered: Values, share: float) -> tuple[float, int]:
    """Return the lowest of the best values that a share is, and how many of the ascending values are at least this."""
    n = len(ordered)
    value = ordered[n - count_in_share(share, n)]
    return float(value), n - int(np.searchsorted(ordered, value))


def _find_bins(ordered: Values, bins: int) -> npt.NDArray[np.intp]:
    """Return the bin of every value, from 0; the values ascend."""
    low, high = float(ordered[0]), float(ordered[-1])
    if low == high:
        return np.zeros(len(ordered), dtype=np.intp)
    # Numbers near the greatest of float64 are halved, since their difference would be infinite.
    scale = 1.0 if isfinite(high - low) else 0.5
    places = bins * ((ordered * scale - low * scale) / (high * scale - low * scale))
    return np.minimum(places.astype(np.intp), bins - 1)
