"""A metric and people on the same items: all statistics in all groupings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from metrics_core.agreement.groupings import Sides, per_system, per_video, pooled, within_system
from metrics_core.agreement.groups import Resamples, averaged
from metrics_core.agreement.inputs import Inputs
from metrics_core.agreement.partial import without_length, without_system_means
from metrics_core.agreement.resampling import Draws
from metrics_core.agreement.soft_pairwise import soft_accuracy_of
from metrics_core.agreement.ties import held_out_accuracy
from metrics_core.arrays import BoolArray, FloatArray

PARTIAL = ("pearson", "spearman")
CALIBRATED = "pairwise_accuracy_calibrated"
"""Pairwise accuracy where small differences of the metric are ties; how small was chosen on the other half of the
videos."""
SOFT = "soft_pairwise_accuracy"


def compared(
    inputs: Inputs, metric: FloatArray, people: FloatArray, kept: BoolArray, draws: Draws
) -> dict[str, Resamples]:
    """Compute the statistics of the kept items, by grouping. Groupings that need systems are absent without them."""
    sides = Sides(metric[kept], people[kept], inputs.video[kept], inputs.system[kept])
    found = {"pooled": pooled(sides, draws), "per_video": with_calibrated_ties(per_video(sides, draws), sides, draws)}
    if inputs.lengths is not None:
        length = inputs.lengths[kept]
        rests = [without_length(side, length) for side in (sides.metric, sides.people)]
        found["pooled without length"] = pooled(replace(sides, metric=rests[0], people=rests[1]), draws, PARTIAL)
    known = sides.only(sides.system >= 0)
    if inputs.n_systems:
        rests = [without_system_means(side, known.system) for side in (known.metric, known.people)]
        residuals = replace(known, metric=rests[0], people=rests[1])
        found["pooled without system means"] = pooled(residuals, draws, PARTIAL)
        found["per_system"] = with_soft_accuracy(per_system(known, draws), known, draws)
        found["within_system"] = within_system(known, draws)
    return found


def pooled_with(inputs: Inputs, metric: FloatArray, people: FloatArray, draws: Draws) -> Resamples:
    """Compute the pooled statistics of the items that have both numbers."""
    kept = np.isfinite(metric) & np.isfinite(people)
    return pooled(Sides(metric[kept], people[kept], inputs.video[kept], inputs.system[kept]), draws)


def with_calibrated_ties(found: Resamples, sides: Sides, draws: Draws) -> Resamples:
    """Add the pairwise accuracy with a held-out epsilon. Its interval takes epsilon as known and draws only videos."""
    n_videos = draws.videos.shape[1]
    by_video = held_out_accuracy(sides.metric, sides.people, sides.video, n_videos, draws.seed)
    return joined(found, averaged({CALIBRATED: by_video}, draws.videos))


def with_soft_accuracy(found: Resamples, sides: Sides, draws: Draws) -> Resamples:
    """Add the soft pairwise accuracy, without an interval: it rests on resamples itself."""
    value = soft_accuracy_of(sides.metric, sides.people, sides.system, sides.video, draws.n, draws.seed)
    n = {SOFT: found.n["pearson"]}
    return joined(found, Resamples({SOFT: value}, {SOFT: np.zeros(0)}, n, {SOFT: 0}))


def joined(found: Resamples, more: Resamples) -> Resamples:
    """The statistics of both."""
    return Resamples(
        found.values | more.values,
        found.resampled | more.resampled,
        found.n | more.n,
        found.n_undefined | more.n_undefined,
    )
