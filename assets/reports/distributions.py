"""Distributions of metrics' scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from assets.reports.data import MetricSummary
from db.scores.score_arrays import ScoreArrays
from metrics_core.selection.distribution import compute_distribution

_N_BINS = 40


@dataclass(frozen=True, eq=False)
class MetricSpread:
    """The histogram of a metric's values for one kind of samples. counts: of equal bins from `low` to `high`."""

    metric: str
    kind: str
    low: float
    high: float
    counts: tuple[int, ...]


def compute_metric_spreads(
    samples: Mapping[str, ScoreArrays], metrics: Sequence[MetricSummary]
) -> tuple[MetricSpread, ...]:
    """Compute the distributions of every metric's values, one for each kind of samples that has some: a histogram of 40
    bins. For values that are all equal, the histogram is 1 wide, and they are in its middle. samples: by kind.
    """
    return tuple(
        _compute_metric_spread(metric.name, kind, samples[kind]) for metric in metrics for kind in sorted(metric.ranges)
    )


def _compute_metric_spread(metric: str, kind: str, arrays: ScoreArrays) -> MetricSpread:
    """Compute the distribution of a metric's values for one kind of samples."""
    known = np.isfinite(arrays.values[metric])
    values = arrays.values[metric][known]
    made = compute_distribution(values, bins=_N_BINS)
    low, high, counts = made.low, made.high, made.counts
    if low == high:
        low, high, counts = low - 0.5, high + 0.5, (*(0,) * (_N_BINS // 2), made.n, *(0,) * (_N_BINS // 2 - 1))
    return MetricSpread(metric, kind, low, high, counts)
