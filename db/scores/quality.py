"""Counts, commonest reasons and means of the scores of a shard or a dataset, for asset pages and asset checks."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.manifest.datasets import Dataset
from db.schema import sample, score, scorer
from db.sql import read_sql


@dataclass(frozen=True, slots=True)
class ShardQuality:
    """Counts of samples by the status of their score. n_qa: question-answer pairs without those that the
    metric does not apply to. n_not_applicable: samples that it does not apply to. n_distinct: distinct values. minimum,
    maximum: of all defined values; None without any.

    A stale score has no value and counts only as stale.
    """

    n_samples: int
    n_not_applicable: int
    n_qa: int
    n_unscored: int
    n_failed: int
    n_ok: int
    n_distinct: int
    n_stale: int
    minimum: float | None
    maximum: float | None


@dataclass(frozen=True, slots=True)
class StatusCount:
    """How many samples of a kind ("caption" or "qa") have a status. reason: the commonest reason among those without a
    value; None if they have none, as for status "ok".
    """

    kind: str
    status: str
    n: int
    reason: str | None


@dataclass(frozen=True, slots=True)
class MeanScore:
    """Mean of the `n` defined scores of samples of one kind ("caption" or "qa"), from `n_videos` videos. varies:
    whether any two of the scores differ. standard_error: of the mean, where all samples of a video form one cluster;
    None for a single video.

    It is cluster-robust and has the factor n_videos / (n_videos - 1).
    """

    kind: str
    n: int
    n_videos: int
    mean: float
    varies: bool
    standard_error: float | None


def count_shard_scores(
    connection: Connection, scorer_id: int | None, dataset_id: int, shard: int | None = None
) -> ShardQuality:
    """Count the samples of a shard by the status of their score by this scorer; a stale score counts only as stale.
    scorer_id: None for a scorer that is not registered yet; then all samples are unscored. shard: None for the whole
    dataset.
    """
    statement = sa.text(read_sql("shard_quality"))
    values = {"scorer_id": scorer_id, "dataset_id": dataset_id, "shard": shard}
    return ShardQuality(**connection.execute(statement, values).mappings().one())


def count_statuses_with_reasons(
    connection: Connection, scorer_id: int, dataset_id: int, shard: int
) -> list[StatusCount]:
    """Count a shard's samples by kind and status of their score, the most frequent first, with the commonest reason. A
    sample without a score is "unscored"; combinations without samples are left out.
    """
    statement = sa.text(read_sql("reasons_by_status"))
    values = {"scorer_id": scorer_id, "dataset_id": dataset_id, "shard": shard}
    return [StatusCount(*row) for row in connection.execute(statement, values)]


def count_scores_without_value(connection: Connection, dataset: Dataset, scorer_id: int) -> list[StatusCount]:
    """Count a scorer's scores on a dataset that are stale or have no value, by kind of samples and status, with the
    commonest reason; a stale score has status "stale" and no reason.
    """
    statement = sa.text(read_sql("scores_without_value"))
    values = {"scorer_id": scorer_id, "dataset_id": dataset.dataset_id}
    return [StatusCount(*row) for row in connection.execute(statement, values)]


def load_mean_scores(
    connection: Connection, scorer_id: int, dataset_id: int, shard: int | None = None
) -> list[MeanScore]:
    """Return the mean of a scorer's defined scores, one entry per kind of sample that has any, ordered by kind. shard:
    None for the whole dataset.
    """
    statement = sa.text(read_sql("mean_scores"))
    values = {"scorer_id": scorer_id, "dataset_id": dataset_id, "shard": shard}
    return [MeanScore(*row) for row in connection.execute(statement, values)]


def has_good_score(connection: Connection, dataset_id: int) -> bool:
    """Whether any sample of the dataset has a score of status ok by an active scorer. A score that has become stale
    counts too.
    """
    query = (
        sa.select(sa.literal(1))
        .select_from(score.join(scorer).join(sample))
        .where(sample.c.dataset_id == dataset_id, scorer.c.status == "active", score.c.status == "ok")
    )
    return bool(connection.scalar(sa.select(query.exists())))


def find_first_failure(
    connection: Connection, scorer_id: int | None, dataset_id: int, shard: int | None = None
) -> tuple[str, str] | None:
    """Return (key, error) of the first sample, by id, of a shard whose score by this scorer has status "failed"; None
    if there is none. scorer_id: None for a scorer that is not registered yet. shard: None for the whole dataset.
    """
    query = (
        sa.select(sample.c.key, score.c.error)
        .join(score, score.c.sample_id == sample.c.sample_id)
        .where(
            score.c.scorer_id == scorer_id,
            score.c.status == "failed",
            sample.c.dataset_id == dataset_id,
            sa.true() if shard is None else sample.c.shard == shard,
        )
        .order_by(sample.c.sample_id)
        .limit(1)
    )
    row = connection.execute(query).one_or_none()
    return None if row is None else (row.key, row.error)
