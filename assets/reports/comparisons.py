"""Where metrics disagree, how their values are distributed, and what thresholds cut off."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from assets.agreement.rows import Judged
from assets.reports.facts import Cut, DataFacts, LabelCut, MetricFacts, MetricSpread, PairFacts, RatingCut, TrustFacts
from assets.settings import read_settings
from assets.thresholds.ratings import rating_cuts, sentence
from assets.thresholds.settings import SHARES, RatingSettings
from db.manifest.datasets import Dataset
from db.reports.values import (
    RatingsBeside,
    SystemLeft,
    drawn_values,
    histogram,
    left_by,
    lowest_kept,
    ratings_beside,
    spreads,
)
from db.schema import keypoint_threshold, scorer
from db.scores.thresholds import METHOD_LABELS
from db.selections.freezing import kept
from metrics_core.agreement import coefficient
from metrics_core.agreement.verdicts import CLAIMS
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


def gather_cuts(connection: Connection, metrics: Sequence[MetricFacts], data: DataFacts) -> tuple[Cut, ...]:
    """What the thresholds of asset `threshold` are now, and what they keep."""
    kinds = sorted({kind for metric in metrics for kind in metric.ranges})
    return tuple(cut for kind in kinds for cut in _cuts(connection, kind, metrics, data))


def _cuts(connection: Connection, kind: str, metrics: Sequence[MetricFacts], data: DataFacts) -> Iterator[Cut]:
    """The cuts of one kind of samples."""
    values = {
        metric.name: lowest_kept(connection, kind, metric.name, [kept(share, n) for share in SHARES], n)
        for metric in metrics
        if (n := metric.n_of(kind))
    }
    left = left_by(connection, kind, values)
    for metric, own in values.items():
        for number, value in enumerate(own):
            ratings = ratings_beside(connection, kind, metric, value) if data.ratings else []
            yield _cut(metric, kind, number, value, left[metric], ratings)


def _cut(
    metric: str, kind: str, number: int, value: float, rows: Sequence[SystemLeft], ratings: Sequence[RatingsBeside]
) -> Cut:
    """The cut that keeps the share of this number."""
    return Cut(
        metric=metric,
        kind=kind,
        share=SHARES[number],
        n_kept=sum(left[number] for *_, left in rows),
        n=sum(n for _, n, _ in rows),
        value=value,
        by_system={system: (left[number], n) for system, n, left in rows},
        ratings={aspect: (above, below) for aspect, above, below, _ in ratings},
    )


def gather_rating_cuts(judged: Judged, metrics: Sequence[MetricFacts], trust: TrustFacts) -> tuple[RatingCut, ...]:
    """What the thresholds of asset `rating_threshold` are now. Raises SettingsError for unusable least ratings."""
    labels = {metric.name: metric.label for metric in metrics}
    knows = {
        (each.aspect, name): found.level in CLAIMS for each in trust.aspects for name, found in each.verdicts.items()
    }
    return tuple(
        RatingCut(found.metric, found.objective, found.cut, said)
        for found in rating_cuts(judged, read_settings(RatingSettings).good_ratings)
        for said in [sentence(found, labels[found.metric], knows=knows[found.aspect, found.metric])]
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
