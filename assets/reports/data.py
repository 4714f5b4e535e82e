"""What is in the data: counts, systems, lengths, people's work, and what metrics could and could not score."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from assets.agreement.progress import list_repeats
from assets.reports.facts import DataFacts, MetricFacts, SystemCount
from assets.reports.labels import STAND_INS, metric_label, shown_name, stand_ins
from db.manifest.datasets import Dataset
from db.reports.agreement import GivenAnswer
from db.reports.summary import (
    aspects_of,
    count_labelled,
    dataset_summary,
    drawn_apart,
    duration_spread,
    has_synthetic_ratings,
    rated_between,
    raters_of,
    refused_rows,
    video_statuses,
    word_spreads,
)
from db.reports.values import Tally, reasons, systems_of, tallies
from db.schema import scorer
from db.scores.quality import StatusCount
from db.scores.stored import active_models, active_scorer


def gather_data(connection: Connection, dataset: Dataset, answers: Sequence[GivenAnswer]) -> DataFacts:
    """Count what the dataset holds; `reported` must have been collected. answers: all that raters gave."""
    summary = dataset_summary(connection, dataset.name)
    dataset_id = dataset.dataset_id
    return DataFacts(
        counts={name: int(value) for name, value in summary.items() if name != "dataset"},
        video_statuses=video_statuses(connection, dataset_id),
        duration_s=duration_spread(connection, dataset_id),
        words=tuple(word_spreads(connection, dataset_id)),
        systems=tuple(SystemCount(*row) for row in systems_of(connection)),
        raters=raters_of(connection, dataset_id),
        ratings=aspects_of(connection, dataset_id),
        refused=refused_rows(connection, dataset_id),
        labelled=count_labelled(connection, dataset_id),
        synthetic_ratings=has_synthetic_ratings(connection, dataset_id),
        rated_between=rated_between(connection, dataset_id),
        repeats=list_repeats(answers),
        n_drawn_apart=drawn_apart(connection, dataset_id),
    )


def gather_metrics(connection: Connection, metrics: Sequence[str]) -> tuple[MetricFacts, ...]:
    """Describe the metrics that have looked at some sample of the dataset, with the statuses of all samples."""
    found = (_metric(connection, metric, tally) for metric, tally in tallies(connection, metrics).items())
    return tuple(facts for facts in found if facts is not None)


def _metric(connection: Connection, metric: str, tally: Sequence[Tally]) -> MetricFacts | None:
    scorer_id = active_scorer(connection, metric)
    if scorer_id is None or all(each.status == "unscored" for each in tally):
        return None
    why = reasons(connection, metric, scorer_id)
    version = connection.scalar(sa.select(scorer.c.code_version).where(scorer.c.scorer_id == scorer_id))
    return MetricFacts(
        name=metric,
        label=shown_name(metric_label(connection, metric)),
        models=tuple(dict.fromkeys(active_models(connection, metric))),
        code_version=str(version),
        stand_ins={name: STAND_INS[name] for name in stand_ins(connection, metric)},
        statuses=tuple(StatusCount(each.kind, each.status, each.n, why.get(each.status)) for each in tally),
        n_defined=sum(each.n for each in tally if each.status == "ok"),
        ranges={each.kind: (each.low, each.high) for each in tally if each.low is not None and each.high is not None},
    )
