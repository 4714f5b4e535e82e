"""Distributions of metrics' scores, and correlations between metrics."""

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
    """Up to 20,000 captions of a dataset, drawn at random. sample_ids: in the order of the draw. values: by metric,
    arrays (n,) in this order, NaN where a caption has no value.
    """

    sample_ids: Sequence[int]
    values: Mapping[str, FloatArray]


def draw_captions(connection: Connection, metrics: Sequence[MetricSummary]) -> DrawnCaptions:
    """Draw up to 20,000 captions of a dataset, the same every time, and load the values of every metric for them, NaN
    where it has none. Metrics without any value for captions are left out. Reads the temporary table `reported`, which
    `create_reported_table` must make before in the same transaction.
    """
    names = [metric.name for metric in metrics if metric.has_values(SAMPLE_KIND)]
    rows = draw_values(connection, SAMPLE_KIND, names, MOST_DRAWN)
    values = np.array([row for _, row in rows], dtype=np.float64).reshape(len(rows), len(names))
    return DrawnCaptions([sample_id for sample_id, _ in rows], dict(zip(names, values.T, strict=True)))


def compute_metric_pairs(drawn: DrawnCaptions) -> tuple[MetricPair, ...]:
    """Compute Spearman's rho of every two metrics, over the drawn captions that both have a value for. It is None where
    it is undefined, as for a constant metric. Empty for fewer than two metrics.
    """
    pairs = []
    for (metric, values), (other, others) in combinations(drawn.values.items(), 2):
        both = np.isfinite(values) & np.isfinite(others)
        pairs.append(
            MetricPair(metric, other, compute_coefficient(values[both], others[both], "spearman"), int(both.sum()))
        )
    return tuple(pairs)


def load_metric_spreads(connection: Connection, metrics: Sequence[MetricSummary]) -> tuple[MetricSpread, ...]:
    """Load the distributions of every metric's values, one for each kind of samples that has some: a histogram of 40
    bins, and quantiles by system and by shard. For values that are all equal, the histogram is 1 wide. Reads the
    temporary table `reported`, which `create_reported_table` must make before in the same transaction.
    """
    return tuple(_load_metric_spread(connection, metric, kind) for metric in metrics for kind in sorted(metric.ranges))


def _load_metric_spread(connection: Connection, metric: MetricSummary, kind: str) -> MetricSpread:
    """Load the distribution of a metric's values for one kind of samples."""
    low, high = metric.ranges[kind]
    if low == high:
        low, high = low - 0.5, high + 0.5
    counts = count_values_in_bins(connection, kind, metric.name, low, high, N_BINS)
    by_system, by_shard = (tuple(compute_spreads(connection, kind, metric.name, by)) for by in ("system", "shard"))
    return MetricSpread(metric.name, kind, low, high, tuple(counts), by_system, by_shard)
