"""What thresholds cut off: the best shares, what people find good, and labels of keypoints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from assets.agreement.judged import Judged
from assets.reports.facts import Cut, DataFacts, LabelCut, MetricFacts, RatingCut, TrustFacts
from assets.settings import read_settings
from assets.thresholds.ratings import beside, read_rating_cuts, sentence
from assets.thresholds.settings import SHARES, RatingSettings
from db.manifest.datasets import Dataset
from db.reports.values import RatingsBeside, SystemLeft, count_equal, left_by, lowest_kept, ratings_beside
from db.schema import keypoint_threshold, scorer
from db.scores.decided_keypoints import METHOD_LABELS
from metrics_core.agreement.verdicts import CLAIMS
from metrics_core.selection.places import count_share


def gather_cuts(connection: Connection, metrics: Sequence[MetricFacts], data: DataFacts) -> tuple[Cut, ...]:
    """What the thresholds of asset `threshold` are now, and what they keep."""
    kinds = sorted({kind for metric in metrics for kind in metric.ranges})
    return tuple(cut for kind in kinds for cut in _cuts(connection, kind, metrics, data))


def _cuts(connection: Connection, kind: str, metrics: Sequence[MetricFacts], data: DataFacts) -> Iterator[Cut]:
    """The cuts of one kind of samples."""
    values = {
        metric.name: lowest_kept(connection, kind, metric.name, [count_share(share, n) for share in SHARES], n)
        for metric in metrics
        if (n := metric.n_of(kind))
    }
    left = left_by(connection, kind, values)
    for metric, own in values.items():
        n_at = count_equal(connection, kind, metric, own)
        for place, value in enumerate(own):
            ratings = ratings_beside(connection, kind, metric, value) if data.ratings else []
            yield _cut(metric, kind, place, value, n_at[place], left[metric], ratings)


def _cut(
    metric: str,
    kind: str,
    place: int,
    value: float,
    n_at: int,
    rows: Sequence[SystemLeft],
    ratings: Sequence[RatingsBeside],
) -> Cut:
    """The cut that keeps the share at this place of SHARES."""
    n = sum(n for _, n, _ in rows)
    return Cut(
        metric=metric,
        kind=kind,
        share=SHARES[place],
        n_asked=count_share(SHARES[place], n),
        n_kept=sum(left[place] for *_, left in rows),
        n_at=n_at,
        n=n,
        value=value,
        by_system={system: (left[place], n) for system, n, left in rows},
        ratings={aspect: (above, below) for aspect, above, below, _ in ratings},
    )


def gather_rating_cuts(
    connection: Connection, dataset: Dataset, judged: Judged, metrics: Sequence[MetricFacts], trust: TrustFacts
) -> tuple[RatingCut, ...]:
    """Read the thresholds that asset `rating_threshold` stored, and say why a metric has none.

    Raises SettingsError for unusable least ratings.
    """
    labels = {metric.name: metric.label for metric in metrics}
    knows = {
        (each.aspect, name): found.level in CLAIMS for each in trust.aspects for name, found in each.verdicts.items()
    }
    return tuple(
        RatingCut(
            found.metric,
            found.objective,
            found.cut,
            sentence(found, labels[found.metric], knows=known),
            beside(found.cut, knows=known).lstrip(",; "),
        )
        for found in read_rating_cuts(connection, dataset, judged, read_settings(RatingSettings).good_ratings)
        for known in [knows.get((found.aspect, found.metric), False)]
        if found.metric in labels
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
