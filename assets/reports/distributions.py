"""How the values of metrics are distributed, and how two metrics go together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from sqlalchemy.engine import Connection

from assets.reports.facts import MetricFacts, MetricSpread, PairFacts
from db.reports.values import drawn_values, histogram, spreads
from metrics_core.agreement import coefficient
from metrics_core.arrays import FloatArray

KIND = "caption"
MOST_DRAWN = 20_000
BINS = 40


@dataclass(frozen=True, eq=False)
class Drawn:
    """Captions drawn at random, all where there are few: ids in the order of the draw, and values (n,) by metric."""

    sample_ids: Sequence[int]
    values: Mapping[str, FloatArray]


def draw(connection: Connection, metrics: Sequence[MetricFacts]) -> Drawn:
    """Draw the captions on which metrics are compared with each other; NaN where one has no value."""
    names = [metric.name for metric in metrics if metric.scores_kind(KIND)]
    rows = drawn_values(connection, KIND, names, MOST_DRAWN)
    values = np.array([row for _, row in rows], dtype=np.float64).reshape(len(rows), len(names))
    return Drawn([sample_id for sample_id, _ in rows], dict(zip(names, values.T, strict=True)))


def gather_pairs(drawn: Drawn) -> tuple[PairFacts, ...]:
    """Correlate every two metrics over the captions that both score."""
    found = []
    for (metric, values), (other, others) in combinations(drawn.values.items(), 2):
        both = np.isfinite(values) & np.isfinite(others)
        found.append(PairFacts(metric, other, coefficient(values[both], others[both], "spearman"), int(both.sum())))
    return tuple(found)


def gather_spreads(connection: Connection, metrics: Sequence[MetricFacts]) -> tuple[MetricSpread, ...]:
    """The distribution of every metric, for each kind of samples that it scores."""
    return tuple(_spread(connection, metric, kind) for metric in metrics for kind in sorted(metric.ranges))


def _spread(connection: Connection, metric: MetricFacts, kind: str) -> MetricSpread:
    low, high = metric.ranges[kind]
    if low == high:
        low, high = low - 0.5, high + 0.5
    counts = histogram(connection, kind, metric.name, low, high, BINS)
    by_system, by_shard = (tuple(spreads(connection, kind, metric.name, by)) for by in ("system", "shard"))
    return MetricSpread(metric.name, kind, low, high, tuple(counts), by_system, by_shard)
