"""How the values of metrics are distributed, and how two metrics go together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from sqlalchemy.engine import Connection

from assets.reports.records import MetricPair, MetricSpread, MetricSummary
from db.reports.values import compute_spreads, count_values_in_bins, draw_values
from metrics_core.agreement import compute_coefficient
from metrics_core.arrays import FloatArray

SAMPLE_KIND = "caption"
MOST_DRAWN = 20_000
N_BINS = 40


@dataclass(frozen=True, eq=False)
class DrawnCaptions:
    """Captions drawn at random, all where there are few: ids in the order of the draw, and values (n,) by metric."""

    sample_ids: Sequence[int]
    values: Mapping[str, FloatArray]


def draw_captions(connection: Connection, metrics: Sequence[MetricSummary]) -> DrawnCaptions:
    """Draw the captions on which metrics are compared with each other; NaN where one has no value."""
    names = [metric.name for metric in metrics if metric.has_values(SAMPLE_KIND)]
    rows = draw_values(connection, SAMPLE_KIND, names, MOST_DRAWN)
    values = np.array([row for _, row in rows], dtype=np.float64).reshape(len(rows), len(names))
    return DrawnCaptions([sample_id for sample_id, _ in rows], dict(zip(names, values.T, strict=True)))


def compute_metric_pairs(drawn: DrawnCaptions) -> tuple[MetricPair, ...]:
    """Correlate every two metrics over the captions that both score."""
    found = []
    for (metric, values), (other, others) in combinations(drawn.values.items(), 2):
        both = np.isfinite(values) & np.isfinite(others)
        found.append(
            MetricPair(metric, other, compute_coefficient(values[both], others[both], "spearman"), int(both.sum()))
        )
    return tuple(found)


def load_metric_spreads(connection: Connection, metrics: Sequence[MetricSummary]) -> tuple[MetricSpread, ...]:
    """The distribution of every metric, for each kind of samples that it scores."""
    return tuple(_load_metric_spread(connection, metric, kind) for metric in metrics for kind in sorted(metric.ranges))


def _load_metric_spread(connection: Connection, metric: MetricSummary, kind: str) -> MetricSpread:
    low, high = metric.ranges[kind]
    if low == high:
        low, high = low - 0.5, high + 0.5
    counts = count_values_in_bins(connection, kind, metric.name, low, high, N_BINS)
    by_system, by_shard = (tuple(compute_spreads(connection, kind, metric.name, by)) for by in ("system", "shard"))
    return MetricSpread(metric.name, kind, low, high, tuple(counts), by_system, by_shard)
