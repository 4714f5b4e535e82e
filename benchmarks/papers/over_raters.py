"""A metric's rank correlation with several raters: the mean over them, with an interval over videos."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metrics_core.agreement.groupings import ComparedValues, compute_pooled
from metrics_core.arrays import FloatArray, number_groups
from metrics_core.intervals import Estimate, average_over_raters, draw_blocks

STATISTICS = ("kendall_b", "spearman")


def over_raters(values: FloatArray, ratings: FloatArray, videos: Sequence[object]) -> dict[str, Estimate]:
    """Kendall's tau-b and Spearman's rho of values (n,) with each rater of ratings (n, raters), averaged.

    >>> found = over_raters(np.array([1.0, 2, 3]), np.array([[1.0, 3], [2, 2], [3, 1]]), ["a", "b", "c"])
    >>> found["kendall_b"].value
    0.0
    """
    video = number_groups(videos)
    groups = video, np.full(video.size, -1, dtype=np.int64), draw_blocks(video, 0)
    sides = [ComparedValues(values.astype(np.float64), rater, *groups) for rater in ratings.T]
    found = average_over_raters([{"pooled": compute_pooled(each, STATISTICS)} for each in sides])["pooled"]
    return {name: found.compute_estimate(name) for name in STATISTICS}
