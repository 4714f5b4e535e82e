"""A metric and people on the same captions: which captions are compared with each other, and without which videos."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from metrics_core.agreement.coefficients import (
    STATISTICS,
    GroupCoefficients,
    compute_coefficients,
    compute_group_coefficients,
)
from metrics_core.arrays import BoolArray, FloatArray, IntArray
from metrics_core.intervals import JackknifeStatistics, jackknife, jackknife_means

Grouping = Literal["pooled", "per_video", "per_system", "within_system"]
"""Which captions are compared with each other.

- pooled: all captions at once (global).
- per_video: the captions of one video over systems; the mean of the videos (item level).
- per_system: the systems' mean values (system level).
- within_system: the captions of one system over videos; the mean of the systems.
"""
PARTIAL_STATISTICS = ("pearson", "spearman")
DECIMALS = 9
"""Means are rounded to so many digits, so that equal means stay tied when captions are added in another order."""


@dataclass(frozen=True)
class ComparedValues:
    """A metric and people on the same items, all (n,): the values, and the numbers of each item's video and system.

    A system of -1 is unknown: the item then belongs to no system. block: see `blocks_of`.
    """

    metric: FloatArray
    people: FloatArray
    video: IntArray
    system: IntArray
    block: IntArray

    def select_items(self, kept: BoolArray | IntArray) -> ComparedValues:
        """The same for some items."""
        groups = (side[kept] for side in (self.video, self.system, self.block))
        return ComparedValues(self.metric[kept], self.people[kept], *groups)


def compute_pooled(sides: ComparedValues, statistics: Sequence[str] = STATISTICS) -> JackknifeStatistics:
    """Compare all items at once."""
    # Items in the metric's order are sorted faster again, without each block.
    sides = sides.select_items(np.argsort(sides.metric, kind="stable"))
    return jackknife(lambda rows: compute_coefficients(sides.metric[rows], sides.people[rows], statistics), sides.block)


def compute_per_video(sides: ComparedValues, n_videos: int) -> JackknifeStatistics:
    """Average the statistics of n_videos videos. Videos with one caption, and constant ones, have none."""
    return average_over_videos(compute_group_coefficients(sides.metric, sides.people, sides.video, n_videos), sides)


def average_over_videos(by_video: GroupCoefficients, sides: ComparedValues) -> JackknifeStatistics:
    """Average statistics of videos (videos,), left out where NaN."""
    block = np.zeros(next(iter(by_video.values())).size, dtype=np.int64)
    block[sides.video] = sides.block
    return _build_group_averages(
        by_video, {name: jackknife_means(each, block) for name, each in by_video.items()}, sides
    )


def compute_within_system(sides: ComparedValues) -> JackknifeStatistics:
    """Average the systems' statistics, each over its own captions."""
    n_systems = int(sides.system.max(initial=-1)) + 1

    def compute_by_system(rows: IntArray) -> GroupCoefficients:
        return compute_group_coefficients(sides.metric[rows], sides.people[rows], sides.system[rows], n_systems)

    without = jackknife(lambda rows: _average_groups(compute_by_system(rows)), sides.block)
    return _build_group_averages(compute_by_system(np.arange(sides.metric.size)), without.jackknife_values, sides)


def compute_per_system(sides: ComparedValues) -> JackknifeStatistics:
    """Compare the systems' means. Without videos that a system needs there is no value."""
    present = np.unique(sides.system)

    def compare_means(rows: IntArray) -> dict[str, float | None]:
        system = sides.system[rows]
        n = np.bincount(system, minlength=int(present.max(initial=-1)) + 1)[present]
        if not n.all():
            return dict.fromkeys(STATISTICS)
        means = [np.bincount(system, side[rows])[present] / n for side in (sides.metric, sides.people)]
        return compute_coefficients(np.round(means[0], DECIMALS), np.round(means[1], DECIMALS))

    return replace(jackknife(compare_means, sides.block), n=dict.fromkeys(STATISTICS, present.size))


def subtract_system_means(values: npt.ArrayLike, system: IntArray) -> FloatArray:
    """Subtract from each value (n,) the mean of its system, numbered from 0 in `system` (n,), as FRANK does.

    A metric that only knows which systems are good has nothing left.

    >>> subtract_system_means([1, 3, 10, 20], np.array([0, 0, 1, 1])).tolist()
    [-1.0, 1.0, -5.0, 5.0]
    """
    side = np.asarray(values, dtype=np.float64)
    return side - (np.bincount(system, side) / np.maximum(np.bincount(system), 1))[system]


def subtract_length_trend(values: npt.ArrayLike, lengths: npt.ArrayLike) -> FloatArray:
    """Subtract from each value (n,) the least-squares line over the lengths (n,).

    >>> subtract_length_trend([2, 4, 6, 9], [1, 2, 3, 4]).round(2).tolist()
    [0.2, -0.1, -0.4, 0.3]
    """
    side, length = np.asarray(values, dtype=np.float64), np.asarray(lengths, dtype=np.float64)
    if side.size == 0:
        return side
    centred, x = side - side.mean(), length - length.mean()
    squares = float(x @ x)
    rest: FloatArray = centred - x * (float(x @ centred) / squares) if squares > 0 else centred
    # What rounding leaves of values on one line is no order.
    return np.where(np.abs(rest) <= 1e-12 * np.abs(side).max(initial=0), 0.0, rest)


def compute_partial(sides: ComparedValues, remove: Callable[[FloatArray, IntArray], FloatArray]) -> JackknifeStatistics:
    """Compare what `remove` leaves of both sides, given the values and positions of the items; anew for each block."""

    def rest(rows: IntArray) -> dict[str, float | None]:
        return compute_coefficients(
            remove(sides.metric[rows], rows), remove(sides.people[rows], rows), PARTIAL_STATISTICS
        )

    return jackknife(rest, sides.block)


def _average_groups(by: GroupCoefficients) -> dict[str, float | None]:
    """The means of groups' statistics (groups,), left out where NaN; None without any."""
    defined = {name: each[np.isfinite(each)] for name, each in by.items()}
    return {name: float(each.mean()) if each.size else None for name, each in defined.items()}


def _build_group_averages(
    by: GroupCoefficients, without: GroupCoefficients, sides: ComparedValues
) -> JackknifeStatistics:
    """The means of groups' statistics (groups,), and without each block."""
    n = {name: int(np.isfinite(each).sum()) for name, each in by.items()}
    n_undefined = {name: each.size - n[name] for name, each in by.items()}
    return JackknifeStatistics(_average_groups(by), without, n, n_undefined, np.unique(sides.block).size)
