"""Where metrics disagree, how their values are distributed, and what thresholds cut off."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from assets.reports.facts import Cut, LabelCut, MetricFacts, MetricSpread, PairFacts
from assets.thresholds.shares import SHARES
from db.freezing import kept
from db.manifest import Dataset
from db.report_values import histogram, left_by, ratings_beside, some_values, spreads, value_at
from db.schema import scorer, threshold
from db.thresholds import METHOD_LABELS
from metrics_core.agreement.correlation import spearman_of

KIND = "caption"
MOST_PAIRED = 20_000
BINS = 40


def gather_pairs(connection: Connection, metrics: Sequence[MetricFacts]) -> tuple[tuple[PairFacts, ...], int]:
    """Correlate every two metrics over captions; the second number is of the captions looked at."""
    names = [metric.name for metric in metrics if metric.scores_kind(KIND)]
    if len(names) < 2:
        return (), 0
    rows = some_values(connection, KIND, names, MOST_PAIRED)
    values = np.array([[math.nan if value is None else value for value in row] for row in rows]).reshape(-1, len(names))
    found = []
    for (i, metric), (j, other) in combinations(enumerate(names), 2):
        both = np.isfinite(values[:, i]) & np.isfinite(values[:, j])
        rho = spearman_of(values[both, i], values[both, j])
        found.append(PairFacts(metric, other, rho, int(both.sum())))
    return tuple(found), len(rows)


def gather_spreads(connection: Connection, metrics: Sequence[MetricFacts]) -> tuple[MetricSpread, ...]:
    """The distribution of every metric, for each kind of samples that it scores."""
    found = []
    for metric in metrics:
        for kind in ("caption", "qa"):
            counted = histogram(connection, kind, metric.name, BINS) if metric.scores_kind(kind) else None
            if counted is not None:
                by_system, by_shard = (spreads(connection, kind, metric.name, by) for by in ("system", "shard"))
                low, high, counts = counted
                found.append(
                    MetricSpread(metric.name, kind, low, high, tuple(counts), tuple(by_system), tuple(by_shard))
                )
    return tuple(found)


def gather_cuts(connection: Connection, metrics: Sequence[MetricFacts]) -> tuple[Cut, ...]:
    """What the thresholds of asset `threshold` are now, and what they keep."""
    return tuple(_cut(connection, metric, share) for metric in metrics if metric.n_defined for share in SHARES)


def _cut(connection: Connection, metric: MetricFacts, share: float) -> Cut:
    n = metric.n_defined
    value = value_at(connection, metric.name, kept(share, n))
    rows = left_by(connection, metric.name, value)
    return Cut(
        metric=metric.name,
        share=share,
        n_kept=sum(row[3] for row in rows),
        n=n,
        value=value,
        by_system={f"{kind}/{system}": (left, total) for kind, system, total, left in rows},
        ratings={row[0]: (row[1], row[2]) for row in ratings_beside(connection, metric.name, value)},
    )


def gather_label_cuts(connection: Connection, dataset: Dataset) -> tuple[LabelCut, ...]:
    """The thresholds chosen on labels that are in force on the dataset."""
    columns = [scorer.c.metric, *(threshold.c[name] for name in ("dimension", "value", "objective", "n", "n_positive"))]
    query = (
        sa.select(*columns)
        .join(scorer, scorer.c.scorer_id == threshold.c.scorer_id)
        .where(threshold.c.dataset_id == dataset.dataset_id, threshold.c.scope == "dataset")
        .where(threshold.c.method == METHOD_LABELS, scorer.c.status == "active")
        .order_by(scorer.c.metric, threshold.c.dimension)
    )
    return tuple(LabelCut(*row) for row in connection.execute(query))
