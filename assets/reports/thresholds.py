"""Thresholds for a report: by shares of the samples, by people's ratings, and by labels of keypoints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from assets.agreement.judged import JudgedSamples
from assets.reports.records import (
    DataSummary,
    LabelThresholdRow,
    MetricSummary,
    RatingThresholdRow,
    ShareThresholdRow,
    TrustSummary,
)
from assets.settings import read_settings
from assets.thresholds.ratings import explain_rating_threshold, explain_simple_score_gain, load_rating_thresholds
from assets.thresholds.settings import KEPT_SHARES, RatingSettings
from db.manifest.datasets import Dataset
from db.manifest.rating_scales import load_turned_aspects
from db.reports.values import (
    RatingsByThreshold,
    SystemKept,
    compare_ratings_by_threshold,
    count_equal,
    count_kept_by_system,
    load_values_at_ranks,
)
from db.schema import keypoint_threshold, scorer
from db.scores.keypoint_decisions import LABEL_METHOD
from metrics_core.agreement.conclusions import CLAIMS
from metrics_core.selection.strata import count_in_share


def load_share_threshold_rows(
    connection: Connection, metrics: Sequence[MetricSummary], data: DataSummary
) -> tuple[ShareThresholdRow, ...]:
    """Compute from the stored scores the thresholds that keep the best half, quarter, eighth and sixteenth, by metric
    and kind of samples, and how much they keep of every system. Mean ratings of kept and dropped samples are there only
    if `data` has ratings. Reads the temporary table `reported`, which `create_reported_table` must make before in the
    same transaction.
    """
    kinds = sorted({kind for metric in metrics for kind in metric.ranges})
    return tuple(cut for kind in kinds for cut in _load_share_rows(connection, kind, metrics, data))


def _load_share_rows(
    connection: Connection, kind: str, metrics: Sequence[MetricSummary], data: DataSummary
) -> Iterator[ShareThresholdRow]:
    """Yield the thresholds of all metrics for one kind of samples."""
    values = {
        metric.name: load_values_at_ranks(
            connection, kind, metric.name, [count_in_share(share, n) for share in KEPT_SHARES], n
        )
        for metric in metrics
        if (n := metric.count_values(kind))
    }
    left = count_kept_by_system(connection, kind, values)
    for metric, thresholds in values.items():
        n_at = count_equal(connection, kind, metric, thresholds)
        for place, value in enumerate(thresholds):
            ratings = compare_ratings_by_threshold(connection, kind, metric, value) if data.ratings else []
            yield _build_share_row(metric, kind, place, value, n_at[place], left[metric], ratings)


def _build_share_row(
    metric: str,
    kind: str,
    place: int,
    value: float,
    n_at: int,
    rows: Sequence[SystemKept],
    ratings: Sequence[RatingsByThreshold],
) -> ShareThresholdRow:
    """Build the record of the threshold that keeps the share at this position of KEPT_SHARES."""
    n = sum(n for _, n, _ in rows)
    return ShareThresholdRow(
        metric=metric,
        kind=kind,
        share=KEPT_SHARES[place],
        n_asked=count_in_share(KEPT_SHARES[place], n),
        n_kept=sum(left[place] for *_, left in rows),
        n_at=n_at,
        n=n,
        value=value,
        by_system={system: (left[place], n) for system, n, left in rows},
        ratings={aspect: (above, below) for aspect, above, below, _ in ratings},
    )


def load_rating_threshold_rows(
    connection: Connection,
    dataset: Dataset,
    judged: JudgedSamples,
    metrics: Sequence[MetricSummary],
    trust: TrustSummary,
) -> tuple[RatingThresholdRow, ...]:
    """Load the thresholds by ratings that asset `rating_threshold` stored, with sentences; a metric without one has the
    reason. judged: gives the metrics and aspects. trust: the conclusions on metrics; where none shows that a metric
    orders as people do, its threshold may be chance. Reads REELSIEVE_GOOD_RATINGS. Raises SettingsError where it is
    unusable.
    """
    labels = {metric.name: metric.label for metric in metrics}
    turned = load_turned_aspects(connection, dataset.dataset_id)
    trusted = {
        (aspect.aspect, name): threshold.level in CLAIMS
        for aspect in trust.aspects
        for name, threshold in aspect.verdicts.items()
    }
    return tuple(
        RatingThresholdRow(
            threshold.metric,
            threshold.objective,
            threshold.threshold,
            explain_rating_threshold(threshold, labels[threshold.metric], knows=is_trusted, turned=turned),
            explain_simple_score_gain(threshold.threshold, knows=is_trusted).lstrip(",; "),
        )
        for threshold in load_rating_thresholds(connection, dataset, judged, read_settings(RatingSettings).good_ratings)
        for is_trusted in [trusted.get((threshold.aspect, threshold.metric), False)]
        if threshold.metric in labels
    )


def load_label_threshold_rows(connection: Connection, dataset: Dataset) -> tuple[LabelThresholdRow, ...]:
    """Load the thresholds of active scorers that were chosen on labels of the dataset, sorted by metric and dimension.
    Empty without any.
    """
    of = keypoint_threshold.c
    query = (
        sa.select(scorer.c.metric, of.dimension, of.threshold, of.objective, of.n, of.n_positive)
        .join(scorer, scorer.c.scorer_id == of.scorer_id)
        .where(of.dataset_id == dataset.dataset_id, of.scope == "dataset")
        .where(of.method == LABEL_METHOD, scorer.c.status == "active")
        .order_by(scorer.c.metric, of.dimension)
    )
    return tuple(LabelThresholdRow(*row) for row in connection.execute(query))
