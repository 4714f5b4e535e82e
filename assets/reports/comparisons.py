"""Where metrics disagree, how their values are distributed, and what thresholds cut off."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from assets.agreement.rows import Judged
from assets.reports.facts import Cut, DataFacts, LabelCut, MetricFacts, MetricSpread, PairFacts, RatingCut
from assets.thresholds.ratings import rating_cuts, sentence
from assets.thresholds.settings import good_ratings
from assets.thresholds.shares import SHARES
from db.freezing import kept
from db.manifest import Dataset
from db.report_values import drawn_values, histogram, left_by, lowest_kept, ratings_beside, spreads
from db.schema import keypoint_threshold, scorer
from db.thresholds import METHOD_LABELS
from metrics_core.agreement.correlation import spearman_of
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
        found.append(PairFacts(metric, other, spearman_of(values[both], others[both]), int(both.sum())))
    return tuple(found)


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


def gather_cuts(connection: Connection, metrics: Sequence[MetricFacts], data: DataFacts) -> tuple[Cut, ...]:
    """What the thresholds of asset `threshold` are now, and what they keep."""
    return tuple(cut for metric in metrics if metric.n_defined for cut in _cuts(connection, metric, data))


def _cuts(connection: Connection, metric: MetricFacts, data: DataFacts) -> Iterator[Cut]:
    n = metric.n_defined
    values = lowest_kept(connection, metric.name, [kept(share, n) for share in SHARES])
    rows = left_by(connection, metric.name, values)
    for number, (share, value) in enumerate(zip(SHARES, values, strict=True)):
        ratings = ratings_beside(connection, metric.name, value) if data.ratings else []
        yield Cut(
            metric=metric.name,
            share=share,
            n_kept=sum(left[number] for *_, left in rows),
            n=n,
            value=value,
            by_system={f"{kind}/{system}": (left[number], total) for kind, system, total, left in rows},
            ratings={row[0]: (row[1], row[2]) for row in ratings},
        )


def gather_rating_cuts(judged: Judged, metrics: Sequence[MetricFacts]) -> tuple[RatingCut, ...]:
    """What the thresholds of asset `rating_threshold` are now. Raises GoodRatingsError for unusable least ratings."""
    labels = {metric.name: metric.label for metric in metrics}
    return tuple(
        RatingCut(found.metric, found.objective, found.cut, sentence(found, labels.get(found.metric, found.metric)))
        for found in rating_cuts(judged, good_ratings())
    )


def gather_label_cuts(connection: Connection, dataset: Dataset) -> tuple[LabelCut, ...]:
    """The thresholds chosen on labels that are in force on the dataset."""
    of = keypoint_threshold.c
    query = (
        sa.select(scorer.c.metric, of.dimension, of.threshold, of.objective, of.n, of.n_positive)
        .join(scorer, scorer.c.scorer_id == of.scorer_id)
        .where(of.dataset_id == dataset.dataset_id, of.scope == "dataset")
        .where(of.method == METHOD_LABELS, scorer.c.status == "active")
        .order_by(scorer.c.metric, of.dimension)
    )
    return tuple(LabelCut(*row) for row in connection.execute(query))
