"""A metric's rank correlation with several raters: the mean over them, with an interval over videos."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metrics_core.agreement.groupings import Sides, pooled
from metrics_core.arrays import FloatArray, numbered
from metrics_core.intervals import Estimate, blocks_of, mean_over_raters

STATISTICS = ("kendall_b", "spearman")


def over_raters(values: FloatArray, ratings: FloatArray, videos: Sequence[object]) -> dict[str, Estimate]:
    """Kendall's tau-b and Spearman's rho of values (n,) with each rater of ratings (n, raters), averaged.

    >>> found = over_raters(np.array([1.0, 2, 3]), np.array([[1.0, 3], [2, 2], [3, 1]]), ["a", "b", "c"])
    >>> found["kendall_b"].value
    0.0
    """
    video = numbered(videos)
    groups = video, np.full(video.size, -1, dtype=np.int64), blocks_of(video, 0)
    sides = [Sides(values.astype(np.float64), rater, *groups) for rater in ratings.T]
    found = mean_over_raters([{"pooled": pooled(each, STATISTICS)} for each in sides])["pooled"]
    return {name: found.estimate(name) for name in STATISTICS}
