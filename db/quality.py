"""Counts over the scores of one shard, for the asset checks."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.schema import sample, score, scorer

_SQL = Path(__file__).parent / "sql"


@dataclass(frozen=True, slots=True)
class ShardQuality:
    """Counts of a shard's scores; the extremes are None where no score is defined."""

    n_samples: int
    n_unscored: int
    n_failed: int
    n_ok: int
    n_distinct: int
    n_stale: int
    minimum: float | None
    maximum: float | None

    def as_dict(self) -> dict[str, int | float | None]:
        """Plain data for metadata."""
        return asdict(self)


def shard_quality(connection: Connection, scorer_id: int | None, dataset_id: int, shard: int) -> ShardQuality:
    """Count the scores of a shard by status; a stale score counts only as stale. scorer_id: None if not registered."""
    statement = sa.text((_SQL / "shard_quality.sql").read_text())
    values = {"scorer_id": scorer_id, "dataset_id": dataset_id, "shard": shard}
    return ShardQuality(**connection.execute(statement, values).mappings().one())


def has_good_score(connection: Connection, dataset_id: int) -> bool:
    """Whether an active scorer has given a sample of the dataset a value."""
    query = (
        sa.select(sa.literal(1))
        .select_from(score.join(scorer).join(sample))
        .where(sample.c.dataset_id == dataset_id, scorer.c.status == "active", score.c.status == "ok")
    )
    return bool(connection.scalar(sa.select(query.exists())))


def first_failure(connection: Connection, scorer_id: int | None, dataset_id: int, shard: int) -> tuple[str, str] | None:
    """Key and error of the first sample of a shard that failed, or None."""
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
