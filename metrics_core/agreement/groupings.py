"""The four ways to group captions before a metric is compared with people, each with its resamples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from metrics_core.agreement.coefficients import STATISTICS, Coefficients, coefficients
from metrics_core.agreement.first_order import first_order_coefficients
from metrics_core.agreement.groups import Resamples, averaged, by_group, groups_of, quotient
from metrics_core.agreement.resampling import Draws
from metrics_core.agreement.small_groups import rowwise_coefficients
from metrics_core.agreement.systems import DECIMALS, sums_of
from metrics_core.agreement.weighted import resampled_coefficients
from metrics_core.arrays import BoolArray, FloatArray, IntArray

Grouping = Literal["pooled", "per_video", "per_system", "within_system"]
"""Which captions are compared with each other.

- pooled: all captions at once (global).
- per_video: the captions of one video over systems; the mean of the videos (item level).
- per_system: the systems' mean values (system level).
- within_system: the captions of one system over videos; the mean of the systems.
"""

EXACT = 5_000
"""Resamples of up to so many items are computed exactly; of more, to first order (see `first_order`)."""


@dataclass(frozen=True)
class Sides:
    """A metric and people on the same items, all (n,): the values, and the numbers of each item's video and system.

    A system of -1 is unknown: the item then belongs to no system.
    """

    metric: FloatArray
    people: FloatArray
    video: IntArray
    system: IntArray

    def only(self, kept: BoolArray | IntArray) -> Sides:
        """The same for some items."""
        return Sides(self.metric[kept], self.people[kept], self.video[kept], self.system[kept])


def pooled(sides: Sides, draws: Draws, statistics: tuple[str, ...] = STATISTICS) -> Resamples:
    """Compare all items at once."""
    if draws.systems is not None:
        sides = sides.only(sides.system >= 0)
    if draws.systems is None:
        resampled = of_drawn_videos(sides, draws, statistics)
    else:
        # A video's captions now have different weights, so each item is a cluster of its own.
        weights, cluster = item_weights(sides, draws), np.arange(sides.video.size)
        resampled = resampled_coefficients(sides.metric, sides.people, cluster, weights, statistics)
    return Resamples(
        coefficients(sides.metric, sides.people, statistics),
        resampled,
        dict.fromkeys(statistics, sides.metric.size),
        dict.fromkeys(statistics, 0),
    )


def of_drawn_videos(sides: Sides, draws: Draws, statistics: tuple[str, ...] = STATISTICS) -> Coefficients:
    """Compute the statistics of all items in every resample of videos: exactly, and of many items to first order."""
    compute = resampled_coefficients if sides.video.size <= EXACT else first_order_coefficients
    return compute(sides.metric, sides.people, sides.video, draws.videos.T, statistics)


def item_weights(sides: Sides, draws: Draws) -> FloatArray:
    """How often each resample of videos and systems holds each item: (n, resamples)."""
    assert draws.systems is not None
    return np.ascontiguousarray((draws.videos[:, sides.video] * draws.systems[:, sides.system]).T)


def per_video(sides: Sides, draws: Draws) -> Resamples:
    """Average the videos' statistics. Videos with one caption, and constant ones, have none."""
    by_video = by_group(sides.metric, sides.people, sides.video, draws.videos.shape[1])
    if draws.systems is None:
        return averaged(by_video, draws.videos)
    resampled = video_means(sides, draws)
    return averaged(by_video, draws.videos, lambda name: resampled[name])


def video_means(sides: Sides, draws: Draws) -> Coefficients:
    """Average the videos' statistics in every resample of videos and systems."""
    sides = sides.only(sides.system >= 0)
    assert draws.systems is not None
    totals = {name: np.zeros((2, draws.n)) for name in STATISTICS}
    for video, rows in groups_of(sides.video):
        found = rowwise_coefficients(
            sides.metric[None, rows], sides.people[None, rows], draws.systems[:, sides.system[rows]]
        )
        for name, values in found.items():
            defined = np.isfinite(values)
            totals[name] += draws.videos[:, video] * np.stack([np.where(defined, values, 0), defined])
    return {name: quotient(*total) for name, total in totals.items()}


def within_system(sides: Sides, draws: Draws) -> Resamples:
    """Average the systems' statistics, each over its own captions."""
    n_systems = int(sides.system.max(initial=-1)) + 1
    by_system = by_group(sides.metric, sides.people, sides.system, n_systems)
    resampled = {name: np.full((draws.n, n_systems), np.nan) for name in STATISTICS}
    for system, rows in groups_of(sides.system):
        one = sides.only(rows)
        for name, values in of_drawn_videos(one, draws).items():
            resampled[name][:, system] = values
    weights = np.ones((draws.n, n_systems)) if draws.systems is None else draws.systems[:, :n_systems]

    def means(name: str) -> FloatArray:
        defined = np.isfinite(resampled[name])
        return quotient((weights * np.where(defined, resampled[name], 0)).sum(axis=1), (weights * defined).sum(axis=1))

    return averaged(by_system, weights, means)


def per_system(sides: Sides, draws: Draws) -> Resamples:
    """Compare the systems' means. A resample in which a drawn system has no caption is undefined."""
    sides = sides.only(sides.system >= 0)
    sums = [
        sums_of(each, sides.system, sides.video).T for each in (sides.metric, sides.people, np.ones(sides.video.size))
    ]
    # Videos that follow the last one of these items have no caption here.
    videos = draws.videos[:, : sums[0].shape[1]]
    n_systems = sums[0].shape[0]
    present = sums[2].sum(axis=1) > 0
    means = [np.round(each.sum(axis=1)[present] / sums[2].sum(axis=1)[present], DECIMALS) for each in sums[:2]]
    weights = np.ones((draws.n, n_systems)) if draws.systems is None else draws.systems[:, :n_systems]
    weights = weights * present
    metric, people, count = (videos @ each.T for each in sums)
    with np.errstate(divide="ignore", invalid="ignore"):
        sides_drawn = [np.nan_to_num(np.round(each / count, DECIMALS)) for each in (metric, people)]
    resampled = rowwise_coefficients(sides_drawn[0], sides_drawn[1], weights)
    incomplete = ((count == 0) & (weights > 0)).any(axis=1)
    n = int(present.sum())
    return Resamples(
        coefficients(means[0], means[1]),
        {name: np.where(incomplete, np.nan, values) for name, values in resampled.items()},
        dict.fromkeys(STATISTICS, n),
        dict.fromkeys(STATISTICS, 0),
    )
