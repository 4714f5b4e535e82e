"""Two scorers on the same samples: do they order them alike, and which samples move most?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metrics_core.agreement.correlation import both_sides, group_numbers
from metrics_core.agreement.groupings import Sides, pooled
from metrics_core.agreement.resampling import Draws, draw, interval
from metrics_core.agreement.systems import DECIMALS
from metrics_core.arrays import FloatArray, IntArray

STATISTICS = ("spearman", "kendall_b", "pearson")


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its percentile interval over videos; None where undefined, and of one video without an interval."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Mover:
    """An item whose rank differs, and its percentile by each scorer, in (0, 100): 99 is better than 99 % of the items.

    Equal values share the mean of their ranks.
    """

    position: int
    first: float
    second: float

    @property
    def move(self) -> float:
        """Percentile points by which the second scorer ranks the item higher; below 0 where it ranks it lower."""
        return self.second - self.first


@dataclass(frozen=True)
class ScoresCompared:
    """Two scorers' values of the same n items of n_videos videos.

    correlations: Spearman's rho, Kendall's tau-b and Pearson's r between the two. mean_difference: second less first.
    up, down: the items that the second scorer ranks higher, and lower, than the first; the biggest difference first.
    """

    n: int
    n_videos: int
    correlations: Mapping[str, Estimate]
    mean_difference: Estimate
    up: tuple[Mover, ...]
    down: tuple[Mover, ...]


def compare_scores(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    videos: Sequence[object],
    *,
    n_movers: int = 5,
    level: float = 0.95,
    n_resamples: int = 1000,
    seed: int = 0,
) -> ScoresCompared:
    """Compare two scorers' values (n,) of the same items, whose videos are given (n,).

    Raises ValueError for shapes that do not fit and numbers that are not finite.

    >>> found = compare_scores([1, 2, 3, 4], [1, 2, 4, 3], ["a", "a", "b", "b"])
    >>> round(found.correlations["kendall_b"].value, 3), found.mean_difference.value, found.up[0].position
    (0.667, 0.0, 2)
    """
    left, right = both_sides(first, second)
    video = group_numbers("videos", videos, left.size)
    n_videos = int(video.max(initial=-1)) + 1
    draws = draw(n_videos, 0, "videos", n_resamples, seed)
    found = pooled(sides_of(left, right, video), draws, STATISTICS)
    correlations = {name: estimate(found.values[name], found.resampled[name], level) for name in STATISTICS}
    difference = _mean_difference(right - left, video, draws, level)
    up, down = _movers(left, right, n_movers)
    return ScoresCompared(left.size, n_videos, correlations, difference, up, down)


def sides_of(left: FloatArray, right: FloatArray, video: IntArray) -> Sides:
    """Both sides without systems."""
    return Sides(left, right, video, np.full(left.size, -1, dtype=np.int64))


def estimate(value: float | None, resampled: FloatArray, level: float) -> Estimate:
    """A value with its interval; without a value, resamples that happen to have one say nothing."""
    limits = interval(resampled, level)
    return Estimate(None, None, None) if value is None else Estimate(value, limits.low, limits.high)


def _mean_difference(difference: FloatArray, video: IntArray, draws: Draws, level: float) -> Estimate:
    """The mean of the items' differences (n,)."""
    n_videos = draws.videos.shape[1]
    sums, counts = (draws.videos @ np.bincount(video, each, n_videos) for each in (difference, np.ones(video.size)))
    return estimate(float(difference.mean()) if difference.size else None, sums / counts, level)


def _movers(first: FloatArray, second: FloatArray, n: int) -> tuple[tuple[Mover, ...], tuple[Mover, ...]]:
    """The n items that the second side ranks highest above the first, and the n lowest below it; ties in order."""
    if first.size == 0:
        return (), ()
    from scipy.stats import rankdata

    one, other = (100 * (rankdata(side) - 0.5) / side.size for side in (first, second))
    # Rounding must not order equal moves.
    move = np.round(other - one, DECIMALS)
    ordered = (np.argsort(-sign * move, kind="stable")[:n] for sign in (1, -1))
    up, down = (
        tuple(Mover(int(i), float(one[i]), float(other[i])) for i in order if sign * move[i] > 0)
        for sign, order in zip((1, -1), ordered, strict=True)
    )
    return up, down
