"""How values are distributed: extremes and a histogram, and means of groups."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]
Groups = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True)
class Distribution:
    """Histogram and extremes of `n` values. counts: the values in equal bins from `low` to `high`.

    A value on a limit is in the bin above it, and `high` is in the last one. If all values are equal, all are in the
    first bin.
    """

    n: int
    low: float
    high: float
    counts: tuple[int, ...]


def compute_distribution(values: Values, bins: int = 30) -> Distribution:
    """Return the distribution of values (n,), at least one, all finite. bins: the number of equal bins of the
    histogram.

    >>> compute_distribution(np.array([0.5, 0.1, 0.9, 0.9]), bins=2)
    Distribution(n=4, low=0.1, high=0.9, counts=(1, 3))
    """
    ordered = np.sort(values)
    counts = np.bincount(_find_bins(ordered, bins), minlength=bins).tolist()
    return Distribution(len(ordered), float(ordered[0]), float(ordered[-1]), tuple(counts))


def compute_group_means(values: Values, groups: Groups) -> tuple[Values, npt.NDArray[np.intp]]:
    """Return the mean value of every group, in ascending order of the groups' numbers, and the position of one of its
    values. values, groups: (n,).

    >>> means, positions = compute_group_means(np.array([0.5, 0.1, 0.9]), np.array([7, 2, 7]))
    >>> means.tolist(), positions.tolist()
    ([0.1, 0.7], [1, 0])
    """
    _, positions, places, sizes = np.unique(groups, return_index=True, return_inverse=True, return_counts=True)
    return np.bincount(places, weights=values) / sizes, positions


def _find_bins(ordered: Values, bins: int) -> npt.NDArray[np.intp]:
    """Return the bin of every value, from 0; the values ascend."""
    low, high = float(ordered[0]), float(ordered[-1])
    if low == high:
        return np.zeros(len(ordered), dtype=np.intp)
    # Numbers near the largest of float64 are halved, since their difference would be infinite.
    scale = 1.0 if isfinite(high - low) else 0.5
    places = bins * ((ordered * scale - low * scale) / (high * scale - low * scale))
    return np.minimum(places.astype(np.intp), bins - 1)
