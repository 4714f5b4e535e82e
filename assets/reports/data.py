"""Counts for a report's section on data: systems, lengths, people's judgements, and what metrics could and could not
score.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from assets.agreement.progress import compute_rater_consistency
from assets.reports.labels import STAND_INS, format_metric_name, list_stand_ins, load_metric_label
from assets.reports.records import DataSummary, MetricSummary, SystemCount
from db.manifest.datasets import Dataset
from db.manifest.rating_scales import load_turned_aspects
from db.reports.agreement import RaterAnswer, count_passed_checks
from db.reports.summary import (
    compute_duration_spread,
    compute_own_numbers,
    compute_word_spreads,
    count_excluded_ratings,
    count_labelled_samples,
    count_origins,
    count_ratings_by_aspect,
    count_ratings_by_rater,
    count_rejects_by_code,
    count_video_statuses,
    find_rating_days,
    has_synthetic_ratings,
    load_dataset_summary,
)
from db.reports.values import StatusTally, list_systems, load_commonest_reasons, tally_statuses
from db.schema import scorer
from db.scores.quality import StatusCount
from db.scores.store import find_active_scorer, list_active_models


def load_data_summary(connection: Connection, dataset: Dataset, answers: Sequence[RaterAnswer]) -> DataSummary:
    """Count from the database what a dataset holds: videos by status, samples by system, lengths, ratings, refused
    rows. answers: all answers that raters gave, for their consistency. Reads the temporary table `reported`, which
    `create_reported_table` must make before in the same transaction.
    """
    summary = load_dataset_summary(connection, dataset.name)
    dataset_id = dataset.dataset_id
    return DataSummary(
        counts={name: int(value) for name, value in summary.items() if name != "dataset"},
        video_statuses=count_video_statuses(connection, dataset_id),
        duration_s=compute_duration_spread(connection, dataset_id),
        words=tuple(compute_word_spreads(connection, dataset_id)),
        systems=tuple(SystemCount(*row) for row in list_systems(connection)),
        raters=count_ratings_by_rater(connection, dataset_id),
        ratings=count_ratings_by_aspect(connection, dataset_id),
        refused=count_rejects_by_code(connection, dataset_id),
        labelled=count_labelled_samples(connection, dataset_id),
        synthetic_ratings=has_synthetic_ratings(connection, dataset_id),
        rated_between=find_rating_days(connection, dataset_id),
        repeats=compute_rater_consistency(answers),
        n_drawn_apart=count_excluded_ratings(connection, dataset_id),
        turned_aspects=load_turned_aspects(connection, dataset_id),
        origins=count_origins(connection, dataset_id),
        own_numbers=tuple(compute_own_numbers(connection, dataset_id)),
        checks=count_passed_checks(connection, dataset_id),
    )


def load_metric_summaries(connection: Connection, metrics: Sequence[str]) -> tuple[MetricSummary, ...]:
    """Describe those of the given metrics that have a result for at least one sample of the dataset: models, code
    version, and numbers of samples by status. A metric without an active scorer is left out. Reads the temporary table
    `reported`, which `create_reported_table` must make before in the same transaction.
    """
    summaries = (
        _load_metric_summary(connection, metric, tally) for metric, tally in tally_statuses(connection, metrics).items()
    )
    return tuple(summary for summary in summaries if summary is not None)


def _load_metric_summary(connection: Connection, metric: str, tally: Sequence[StatusTally]) -> MetricSummary | None:
    """Describe one metric; None for a metric without an active scorer, or with no result for any sample."""
    scorer_id = find_active_scorer(connection, metric)
    if scorer_id is None or all(count.status == "unscored" for count in tally):
        return None
    why = load_commonest_reasons(connection, metric, scorer_id)
    version = connection.scalar(sa.select(scorer.c.code_version).where(scorer.c.scorer_id == scorer_id))
    return MetricSummary(
        name=metric,
        label=format_metric_name(load_metric_label(connection, metric)),
        models=tuple(dict.fromkeys(list_active_models(connection, metric))),
        code_version=str(version),
        stand_ins={name: STAND_INS[name] for name in list_stand_ins(connection, metric)},
        statuses=tuple(StatusCount(count.kind, count.status, count.n, why.get(count.status)) for count in tally),
        n_defined=sum(count.n for count in tally if count.status == "ok"),
        ranges={
            count.kind: (count.low, count.high) for count in tally if count.low is not None and count.high is not None
        },
    )
