"""Statistics of a metric with people over groups of captions (all, by video, by system), and again without each block
of videos.
"""

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
    """A metric's values (`metric`) and people's ratings (`people`) of the same items, with the numbers of each item's
    video, system and block of videos; all are arrays (n,). A system of -1 is unknown: the item then belongs to no
    system. block: see `draw_blocks`.
    """

    metric: FloatArray
    people: FloatArray
    video: IntArray
    system: IntArray
    block: IntArray

    def select_items(self, kept: BoolArray | IntArray) -> ComparedValues:
        """Return the same record for some items only, in the order of `kept`: a mask (n,) or positions."""
        groups = (side[kept] for side in (self.video, self.system, self.block))
        return ComparedValues(self.metric[kept], self.people[kept], *groups)


def compute_pooled(sides: ComparedValues, statistics: Sequence[str] = STATISTICS) -> JackknifeStatistics:
    """Compute statistics of a metric with people over all items at once, and again without each block of videos, which
    gives their intervals. statistics: names of STATISTICS, such as "kendall_b".
    """
    # Items in the metric's order are sorted faster again, without each block.
    sides = sides.select_items(np.argsort(sides.metric, kind="stable"))
    return jackknife(lambda rows: compute_coefficients(sides.metric[rows], sides.people[rows], statistics), sides.block)


def compute_per_video(sides: ComparedValues, n_videos: int) -> JackknifeStatistics:
    """Compute the statistics of a metric with people within each of n_videos videos and average them over videos; and
    again without each block of videos. A video without a value of a statistic, such as one with a single caption, is
    left out of its average and counted in n_undefined.
    """
    return average_over_videos(compute_group_coefficients(sides.metric, sides.people, sides.video, n_videos), sides)


def average_over_videos(by_video: GroupCoefficients, sides: ComparedValues) -> JackknifeStatistics:
    """Average statistics over videos, and again without each block of videos. by_video: an array (videos,) by the name
    of a statistic; NaN is left out and counted in n_undefined. sides: the items, which give each video its block.
    """
    block = np.zeros(next(iter(by_video.values())).size, dtype=np.int64)
    block[sides.video] = sides.block
    return _build_group_averages(
        by_video, {name: jackknife_means(of_videos, block) for name, of_videos in by_video.items()}, sides
    )


def compute_within_system(sides: ComparedValues) -> JackknifeStatistics:
    """Compute the statistics of a metric with people within each system and average them over systems; and again
    without each block of videos. A system without a value of a statistic is left out of its average and counted in
    n_undefined. Every item needs a known system, from 0.
    """
    n_systems = int(sides.system.max(initial=-1)) + 1

    def compute_by_system(rows: IntArray) -> GroupCoefficients:
        return compute_group_coefficients(sides.metric[rows], sides.people[rows], sides.system[rows], n_systems)

    without = jackknife(lambda rows: _average_groups(compute_by_system(rows)), sides.block)
    return _build_group_averages(compute_by_system(np.arange(sides.metric.size)), without.jackknife_values, sides)


def compute_per_system(sides: ComparedValues) -> JackknifeStatistics:
    """Compute the statistics of the systems' mean values with their mean ratings, and again without each block of
    videos. They are NaN for a block without which a system has no caption left. n counts systems. Every item needs a
    known system, from 0.
    """
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
    """Subtract from each value (n,) the mean of its system, as FRANK does: an array (n,). system: (n,), the number of
    each item's system, from 0.

    Of a metric that only knows which systems are good, nothing is left.

    >>> subtract_system_means([1, 3, 10, 20], np.array([0, 0, 1, 1])).tolist()
    [-1.0, 1.0, -5.0, 5.0]
    """
    side = np.asarray(values, dtype=np.float64)
    return side - (np.bincount(system, side) / np.maximum(np.bincount(system), 1))[system]


def subtract_length_trend(values: npt.ArrayLike, lengths: npt.ArrayLike) -> FloatArray:
    """Subtract from each value (n,) the least-squares line over the lengths (n,): an array (n,) with mean 0, empty for
    no values.

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
    """Compute Pearson's r and Spearman's rho of a metric with people after `remove` has taken an influence out of both,
    and again without each block of videos. remove: gets values and the positions of their items, and returns the values
    that are left.
    """

    def rest(rows: IntArray) -> dict[str, float | None]:
        return compute_coefficients(
            remove(sides.metric[rows], rows), remove(sides.people[rows], rows), PARTIAL_STATISTICS
        )

    return jackknife(rest, sides.block)


def _average_groups(by: GroupCoefficients) -> dict[str, float | None]:
    """Average statistics over groups, (groups,) by name, NaN left out; None without any."""
    defined = {name: values[np.isfinite(values)] for name, values in by.items()}
    return {name: float(values.mean()) if values.size else None for name, values in defined.items()}


def _build_group_averages(
    by: GroupCoefficients, without: GroupCoefficients, sides: ComparedValues
) -> JackknifeStatistics:
    """Build the record of statistics averaged over groups, (groups,) by name, from them and from their averages without
    each block.
    """
    n = {name: int(np.isfinite(values).sum()) for name, values in by.items()}
    n_undefined = {name: values.size - n[name] for name, values in by.items()}
    return JackknifeStatistics(_average_groups(by), without, n, n_undefined, np.unique(sides.block).size)
