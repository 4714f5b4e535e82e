"""Statistics of a metric with people over captions, within videos and over systems, and again without each block of
videos.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from metrics_core.agreement.coefficients import KENDALL, compute_coefficient, compute_coefficients, compute_group_taus
from metrics_core.arrays import BoolArray, FloatArray, IntArray
from metrics_core.intervals import JackknifeStatistics, jackknife, jackknife_means

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


def compute_pooled(sides: ComparedValues, statistics: Sequence[str] = (KENDALL,)) -> JackknifeStatistics:
    """Compute statistics of a metric with people over all items at once, also with each block of videos left out, which
    gives their intervals. statistics: names of `compute_coefficients`.
    """
    # Items in the metric's order are sorted faster again, without each block.
    sides = sides.select_items(np.argsort(sides.metric, kind="stable"))
    return jackknife(lambda rows: compute_coefficients(sides.metric[rows], sides.people[rows], statistics), sides.block)


def compute_per_video(sides: ComparedValues, n_videos: int) -> JackknifeStatistics:
    """Compute the average over n_videos videos of tau-b of a metric with people within the video, also with each block
    of videos left out. A video without a value, such as one with a single caption, is left out of the average and
    counted in n_undefined.
    """
    taus, block = compute_group_taus(sides.metric, sides.people, sides.video, n_videos), np.zeros(n_videos, np.int64)
    block[sides.video] = sides.block
    defined = taus[np.isfinite(taus)]
    return JackknifeStatistics(
        {KENDALL: float(defined.mean()) if defined.size else None},
        {KENDALL: jackknife_means(taus, block)},
        {KENDALL: defined.size},
        {KENDALL: n_videos - defined.size},
        np.unique(sides.block).size,
    )


def compute_per_system(sides: ComparedValues) -> JackknifeStatistics:
    """Compute tau-b of the systems' mean values with their mean ratings, also with each block of videos left out: NaN
    for a block without which a system has no caption left. n counts systems. Every item needs a known system, from 0.
    """
    present = np.unique(sides.system)

    def compare_means(rows: IntArray) -> dict[str, float | None]:
        system = sides.system[rows]
        n = np.bincount(system, minlength=int(present.max(initial=-1)) + 1)[present]
        if not n.all():
            return {KENDALL: None}
        means = [
            np.round(np.bincount(system, side[rows])[present] / n, DECIMALS) for side in (sides.metric, sides.people)
        ]
        return {KENDALL: compute_coefficient(means[0], means[1], KENDALL)}

    return replace(jackknife(compare_means, sides.block), n={KENDALL: present.size})
