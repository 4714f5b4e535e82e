"""The agreement table's input, checked: values, ratings and groups of the same items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metrics_core.agreement.correlation import group_numbers
from metrics_core.agreement.raters import checked_ratings
from metrics_core.arrays import FloatArray, IntArray


@dataclass(frozen=True)
class Inputs:
    """n items: metrics' and baselines' values (n,), NaN for undefined, ratings (n, raters), numbered groups (n,)."""

    values: dict[str, FloatArray]
    baselines: frozenset[str]
    ratings: dict[str, FloatArray]
    video: IntArray
    system: IntArray
    lengths: FloatArray | None

    @property
    def n_videos(self) -> int:
        """The number of different videos."""
        return int(self.video.max(initial=-1)) + 1

    @property
    def n_systems(self) -> int:
        """The number of different known systems."""
        return int(self.system.max(initial=-1)) + 1


def checked_inputs(
    metrics: Mapping[str, npt.ArrayLike],
    baselines: Mapping[str, npt.ArrayLike],
    ratings: Mapping[str, npt.ArrayLike],
    videos: Sequence[object],
    systems: Sequence[object | None] | None,
    lengths: npt.ArrayLike | None,
) -> Inputs:
    """Check and convert the input of `agreement_rows`, and raise its ValueErrors."""
    n = len(videos)
    twice = sorted(set(metrics) & set(baselines))
    if twice:
        raise ValueError(f"{twice[0]!r} names a metric and a baseline: give them different names.")
    values = {name: checked_values(name, side, n) for name, side in {**metrics, **baselines}.items()}
    rated = {aspect: checked_ratings(of_aspect) for aspect, of_aspect in ratings.items()}
    for aspect, of_aspect in rated.items():
        if len(of_aspect) != n:
            raise ValueError(f"{aspect} has ratings of {len(of_aspect)} items, there are {n}: give a row for each.")
    return Inputs(
        values,
        frozenset(baselines),
        rated,
        group_numbers("videos", videos, n),
        known_numbers(systems, n),
        None if lengths is None else checked_lengths(lengths, n),
    )


def checked_values(name: str, values: npt.ArrayLike, n: int) -> FloatArray:
    """Return values (n,) as float64. Raises ValueError for another shape and infinite numbers."""
    side = np.asarray(values, dtype=np.float64)
    if side.shape != (n,):
        raise ValueError(f"{name} has shape {side.shape}: give one number for each of the {n} items.")
    if np.isinf(side).any():
        raise ValueError(f"{name} has an infinite value: give numbers, and NaN where it is undefined.")
    return side


def checked_lengths(lengths: npt.ArrayLike, n: int) -> FloatArray:
    """Return lengths (n,) as float64. Raises ValueError for another shape and numbers that are not finite."""
    side = checked_values("lengths", lengths, n)
    if np.isnan(side).any():
        raise ValueError("A length is NaN: every text has a length.")
    return side


def known_numbers(systems: Sequence[object | None] | None, n: int) -> IntArray:
    """Number the systems of n items from 0 in order of appearance, and None as -1."""
    if systems is None:
        return np.full(n, -1, dtype=np.int64)
    number = group_numbers("systems", systems, n)
    known = np.array([system is not None for system in systems], dtype=np.bool_)
    renumbered = np.full(n, -1, dtype=np.int64)
    renumbered[known] = np.unique(number[known], return_inverse=True)[1]
    return renumbered
