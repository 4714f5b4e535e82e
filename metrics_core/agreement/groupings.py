"""A metric and people on the same captions: which captions are compared with each other, and without which videos."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from metrics_core.agreement.coefficients import STATISTICS, Coefficients, by_group, coefficients, without_blocks
from metrics_core.arrays import BoolArray, FloatArray, IntArray
from metrics_core.intervals import BLOCKS, Found, mean_left_out, without_each

Grouping = Literal["pooled", "per_video", "per_system", "within_system"]
"""Which captions are compared with each other.

- pooled: all captions at once (global).
- per_video: the captions of one video over systems; the mean of the videos (item level).
- per_system: the systems' mean values (system level).
- within_system: the captions of one system over videos; the mean of the systems.
"""
PARTIAL = ("pearson", "spearman")
DECIMALS = 9
"""Means are rounded to so many digits, so that equal means stay tied when captions are added in another order."""


@dataclass(frozen=True)
class Sides:
    """A metric and people on the same items, all (n,): the values, and the numbers of each item's video and system.

    A system of -1 is unknown: the item then belongs to no system. block: see `blocks_of`.
    """

    metric: FloatArray
    people: FloatArray
    video: IntArray
    system: IntArray
    block: IntArray

    def only(self, kept: BoolArray | IntArray) -> Sides:
        """The same for some items."""
        groups = (side[kept] for side in (self.video, self.system, self.block))
        return Sides(self.metric[kept], self.people[kept], *groups)


def pooled(sides: Sides, statistics: Sequence[str] = STATISTICS) -> Found:
    """Compare all items at once."""
    # Items in the metric's order are sorted faster again, without each block.
    sides = sides.only(np.argsort(sides.metric, kind="stable"))
    together = np.zeros(sides.metric.size, dtype=np.int64)
    without = without_blocks(sides.metric, sides.people, together, 1, sides.block, BLOCKS, statistics)
    return Found(
        coefficients(sides.metric, sides.people, statistics),
        {name: each[:, 0] for name, each in without.items()},
        dict.fromkeys(statistics, sides.metric.size),
        dict.fromkeys(statistics, 0),
        np.unique(sides.block).size,
    )


def per_video(sides: Sides, n_videos: int) -> Found:
    """Average the statistics of n_videos videos. Videos with one caption, and constant ones, have none."""
    return averaged_videos(by_group(sides.metric, sides.people, sides.video, n_videos), sides)


def averaged_videos(by_video: Coefficients, sides: Sides) -> Found:
    """Average statistics of videos (videos,), left out where NaN."""
    block = np.zeros(next(iter(by_video.values())).size, dtype=np.int64)
    block[sides.video] = sides.block
    return _averaged(by_video, {name: mean_left_out(each, block) for name, each in by_video.items()}, sides)


def within_system(sides: Sides) -> Found:
    """Average the systems' statistics, each over its own captions."""
    n_systems = int(sides.system.max(initial=-1)) + 1
    by_system = by_group(sides.metric, sides.people, sides.system, n_systems)
    without = without_blocks(sides.metric, sides.people, sides.system, n_systems, sides.block, BLOCKS)
    return _averaged(by_system, {name: _mean_defined(each) for name, each in without.items()}, sides)


def per_system(sides: Sides) -> Found:
    """Compare the systems' means. Without videos that a system needs there is no value."""
    n_systems = int(sides.system.max(initial=-1)) + 1
    cell = sides.block * n_systems + sides.system
    sums = [
        np.bincount(cell, side, BLOCKS * n_systems).reshape(BLOCKS, n_systems)
        for side in (sides.metric, sides.people, np.ones(cell.size))
    ]
    present = np.flatnonzero(sums[2].any(axis=0))
    # The first row are all videos, the others all but a block.
    totals = [np.vstack([each.sum(axis=0), each.sum(axis=0) - each])[:, present] for each in sums]
    row = np.repeat(np.arange(BLOCKS + 1), present.size)
    with np.errstate(divide="ignore", invalid="ignore"):
        metric, people = (np.nan_to_num(np.round(each / totals[2], DECIMALS)).ravel() for each in totals[:2])
    found = by_group(metric, people, row, BLOCKS + 1)
    usable = (totals[2] > 0.5).all(axis=1) & np.append(True, sums[2].any(axis=1))
    return Found(
        coefficients(metric[: present.size], people[: present.size]),
        {name: np.where(usable, each, np.nan)[1:] for name, each in found.items()},
        dict.fromkeys(STATISTICS, present.size),
        dict.fromkeys(STATISTICS, 0),
        np.unique(sides.block).size,
    )


def without_system_means(values: npt.ArrayLike, system: IntArray) -> FloatArray:
    """Subtract from each value (n,) the mean of its system, numbered from 0 in `system` (n,), as FRANK does.

    A metric that only knows which systems are good has nothing left.

    >>> without_system_means([1, 3, 10, 20], np.array([0, 0, 1, 1])).tolist()
    [-1.0, 1.0, -5.0, 5.0]
    """
    side = np.asarray(values, dtype=np.float64)
    return side - (np.bincount(system, side) / np.maximum(np.bincount(system), 1))[system]


def without_length(values: npt.ArrayLike, lengths: npt.ArrayLike) -> FloatArray:
    """Subtract from each value (n,) the least-squares line over the lengths (n,).

    >>> without_length([2, 4, 6, 9], [1, 2, 3, 4]).round(2).tolist()
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


def pooled_rest(sides: Sides, remove: Callable[[FloatArray, IntArray], FloatArray]) -> Found:
    """Compare what `remove` leaves of both sides, given the values and positions of the items; anew for each block."""

    def rest(rows: IntArray) -> dict[str, float | None]:
        return coefficients(remove(sides.metric[rows], rows), remove(sides.people[rows], rows), PARTIAL)

    return without_each(rest, sides.block)


def _mean_defined(values: FloatArray) -> FloatArray:
    """The means of rows (rows, n) of the values that are not NaN; NaN for a row without any."""
    defined = np.isfinite(values)
    with np.errstate(invalid="ignore"):
        means: FloatArray = np.where(defined, values, 0).sum(axis=1) / defined.sum(axis=1)
    return means


def _averaged(by: Coefficients, without: Coefficients, sides: Sides) -> Found:
    """The means of groups' statistics (groups,), left out where NaN."""
    defined = {name: each[np.isfinite(each)] for name, each in by.items()}
    return Found(
        {name: float(each.mean()) if each.size else None for name, each in defined.items()},
        without,
        {name: each.size for name, each in defined.items()},
        {name: by[name].size - each.size for name, each in defined.items()},
        np.unique(sides.block).size,
    )
