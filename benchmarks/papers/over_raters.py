"""A metric's rank correlation with several raters: the mean over them, with an interval over videos."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from metrics_core.agreement.groupings import Sides, pooled
from metrics_core.agreement.rater_rows import mean_of_raters
from metrics_core.agreement.resampling import draw, interval
from metrics_core.arrays import FloatArray, numbered

STATISTICS = ("kendall_b", "spearman")
RESAMPLES = 1000


@dataclass(frozen=True)
class Mean:
    """A mean over raters with its 95 % interval; None where it is not defined."""

    value: float | None
    low: float | None
    high: float | None


def over_raters(values: FloatArray, ratings: FloatArray, videos: Sequence[object]) -> dict[str, Mean]:
    """Kendall's tau-b and Spearman's rho of values (n,) with each rater of ratings (n, raters), averaged.

    >>> found = over_raters(np.array([1.0, 2, 3]), np.array([[1.0, 3], [2, 2], [3, 1]]), ["a", "b", "c"])
    >>> found["kendall_b"].value
    0.0
    """
    video = numbered(videos)
    draws = draw(int(video.max()) + 1, 0, "videos", RESAMPLES, 0)
    unknown = np.full(video.size, -1, dtype=np.int64)
    sides = [Sides(values.astype(np.float64), rater, video, unknown) for rater in ratings.T]
    found = mean_of_raters([{"pooled": pooled(each, draws, STATISTICS)} for each in sides])["pooled"]
    limits = {name: interval(found.resampled[name], 0.95) for name in STATISTICS}
    return {name: Mean(found.values[name], limits[name].low, limits[name].high) for name in STATISTICS}
