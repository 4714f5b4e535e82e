"""Counts, commonest reasons and means of the scores of a shard or a dataset, for asset pages and asset checks."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.schema import sample, score, scorer
from db.sql import read_sql


@dataclass(frozen=True, slots=True)
class ShardQuality:
    """Counts of one shard's scores by a scorer, and the least and greatest value; both are None if no score is defined.

    n_qa: question-answer pairs that the metric applies to. n_not_applicable: those that it does not apply to.
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
    """How many samples of a kind have a status, and the commonest reason among those without a value."""

    kind: str
    status: str
    n: int
    reason: str | None


@dataclass(frozen=True, slots=True)
class MeanScore:
    """Mean of the `n` defined scores of samples of one kind, from `n_videos` videos, with a standard error.

    varies: whether two of the scores differ. standard_error: cluster-robust, with videos as clusters and the factor
    n_videos / (n_videos - 1); None for a single video.
    """

    kind: str
    n: int
    n_videos: int
    mean: float
    varies: bool
    standard_error: float | None


def count_shard_scores(connection: Connection, scorer_id: int | None, dataset_id: int, shard: int) -> ShardQuality:
    """Count a shard's scores by status; a stale score counts only as stale. scorer_id: None for a scorer that is not
    registered.
    """
    statement = sa.text(read_sql("shard_quality"))
    values = {"scorer_id": scorer_id, "dataset_id": dataset_id, "shard": shard}
    return ShardQuality(**connection.execute(statement, values).mappings().one())


def count_statuses_with_reasons(
    connection: Connection, scorer_id: int, dataset_id: int, shard: int
) -> list[StatusCount]:
    """Count a shard's samples by kind and status, the most frequent first; a sample without a score is "unscored"."""
    statement = sa.text(read_sql("reasons_by_status"))
    values = {"scorer_id": scorer_id, "dataset_id": dataset_id, "shard": shard}
    return [StatusCount(*row) for row in connection.execute(statement, values)]


def compute_mean_scores(
    connection: Connection, scorer_id: int, dataset_id: int, shard: int | None = None
) -> list[MeanScore]:
    """Return the mean score of a shard, or of the dataset without `shard`: one per kind of sample that has a defined
    score.
    """
    statement = sa.text(read_sql("mean_scores"))
    values = {"scorer_id": scorer_id, "dataset_id": dataset_id, "shard": shard}
    return [MeanScore(*row) for row in connection.execute(statement, values)]


def has_good_score(connection: Connection, dataset_id: int) -> bool:
    """Whether any sample of the dataset has a value by an active scorer."""
    query = (
        sa.select(sa.literal(1))
        .select_from(score.join(scorer).join(sample))
        .where(sample.c.dataset_id == dataset_id, scorer.c.status == "active", score.c.status == "ok")
    )
    return bool(connection.scalar(sa.select(query.exists())))


def find_first_failure(
    connection: Connection, scorer_id: int | None, dataset_id: int, shard: int
) -> tuple[str, str] | None:
    """Return key and error of the first sample, by id, of a shard whose score failed; None if none did."""
    query = (
        sa.select(sample.c.key, score.c.error)
        .join(score, score.c.sample_id == sample.c.sample_id)
        .where(
            score.c.scorer_id == scorer_id,
            score.c.status == "failed",
            sample.c.dataset_id == dataset_id,
            sample.c.shard == shard,
        )
        .order_by(sample.c.sample_id)
        .limit(1)
    )
    row = connection.execute(query).one_or_none()
    return None if row is None else (row.key, row.error)
