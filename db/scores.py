"""Scorers and their scores: registering a scorer, writing batches of scores, reading them back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection, Engine

from db.bulk import Upserted, upsert
from db.engine import psycopg_transaction
from db.fingerprint import fingerprint
from db.schema import sample, score, scorer


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """One score as it is stored. `value` is None unless the status is "ok"; then `error` is None."""

    sample_id: int
    input_sha256: bytes
    value: float | None
    components: Mapping[str, Any]
    status: str
    error: str | None


@dataclass(frozen=True, slots=True)
class ScoredSample:
    """A sample with a defined score, for tables and plots."""

    key: str
    system: str
    value: float
    text: str


def register_scorer(
    connection: Connection,
    *,
    metric: str,
    models: Mapping[str, Any],
    params: Mapping[str, Any],
    code_version: str,
    activate: bool = True,
) -> int:
    """The id of the scorer with exactly these models, parameters and code version; it becomes the metric's active one.

    A metric has one active scorer; the one before is retired, its scores stay in view score_history. Without `activate`
    a new scorer is a candidate, and one that is known stays what it is.
    """
    identity = {"metric": metric, "models": models, "params": params, "code_version": code_version}
    digest = fingerprint(identity)
    # Two processes may register at once: the loser of the insert waits here, then finds the winner's row.
    connection.execute(sa.text("SELECT pg_advisory_xact_lock(hashtext(:metric))"), {"metric": f"scorer {metric}"})
    connection.execute(
        insert(scorer).values(**identity, fingerprint=digest, status="candidate").on_conflict_do_nothing()
    )
    is_this = scorer.c.fingerprint == digest
    row = connection.execute(sa.select(scorer.c.scorer_id, scorer.c.status).where(is_this)).one()
    if activate and row.status != "active":
        connection.execute(
            sa.update(scorer).where(scorer.c.metric == metric, scorer.c.status == "active").values(status="retired")
        )
        connection.execute(sa.update(scorer).where(is_this).values(status="active"))
    scorer_id: int = row.scorer_id
    return scorer_id


def find_scorer(
    connection: Connection, *, metric: str, models: Mapping[str, Any], params: Mapping[str, Any], code_version: str
) -> int | None:
    """The id of the scorer with exactly these models, parameters and code version, or None when it was never run."""
    identity = {"metric": metric, "models": models, "params": params, "code_version": code_version}
    return connection.scalar(sa.select(scorer.c.scorer_id).where(scorer.c.fingerprint == fingerprint(identity)))


def active_scorer(connection: Connection, metric: str) -> int | None:
    """The id of the metric's active scorer, or None when the metric has never been run."""
    query = sa.select(scorer.c.scorer_id).where(scorer.c.metric == metric, scorer.c.status == "active")
    return connection.scalar(query)


def active_models(connection: Connection, metric: str) -> list[str]:
    """Names of the models behind the metric's active scorer; [] when the metric has never been run."""
    used = connection.scalar(sa.select(scorer.c.models).where(scorer.c.metric == metric, scorer.c.status == "active"))
    return [model["model_id"] for model in (used or {}).values()]


def write_scores(engine: Engine, scorer_id: int, run_id: str, rows: Sequence[ScoreRow]) -> Upserted:
    """Write one batch of scores in one transaction. Rows whose sample is gone by now are left out."""
    columns = ["scorer_id", "sample_id", "input_sha256", "value", "components", "status", "error", "run_id"]
    with psycopg_transaction(engine) as connection:
        alive = {
            found[0]
            for found in connection.execute(
                "SELECT sample_id FROM sample WHERE sample_id = ANY(%s) FOR KEY SHARE",
                [[row.sample_id for row in rows]],
            )
        }
        return upsert(
            connection,
            score,
            columns,
            [
                (
                    scorer_id,
                    r.sample_id,
                    r.input_sha256,
                    r.value,
                    dict(r.components),
                    r.status,
                    r.error,
                    run_id,
                )
                for r in rows
                if r.sample_id in alive
            ],
            compare=["input_sha256", "value", "components", "status", "error"],
            touch=["scored_at"],
        )


def status_counts(connection: Connection, scorer_id: int, dataset_id: int, shard: int | None = None) -> dict[str, int]:
    """How many samples have which score status; samples without a score count as "unscored"."""
    joined = sample.outerjoin(score, sa.and_(score.c.sample_id == sample.c.sample_id, score.c.scorer_id == scorer_id))
    status = sa.func.coalesce(score.c.status, "unscored").label("status")
    query = sa.select(status, sa.func.count()).select_from(joined).where(sample.c.dataset_id == dataset_id)
    if shard is not None:
        query = query.where(sample.c.shard == shard)
    return {row[0]: row[1] for row in connection.execute(query.group_by(status).order_by(status))}


def best_and_worst(
    connection: Connection, scorer_id: int, dataset_id: int, n: int, shard: int | None = None
) -> list[ScoredSample]:
    """The n best and the n worst samples with a defined score, best first, ties by kind and key; each once."""
    order = (score.c.value.desc(), sample.c.kind, sa.collate(sample.c.key, "C"))
    place, total = sa.func.row_number().over(order_by=order), sa.func.count().over()
    ranked = _defined(
        scorer_id, dataset_id, shard, score.c.sample_id, score.c.value, place.label("place"), total.label("n")
    )
    outer = ranked.subquery("ranked")
    query = (
        sa.select(sample.c.key, sample.c.system, outer.c.value, sample.c.text)
        .join(outer, outer.c.sample_id == sample.c.sample_id)
        .where(sa.or_(outer.c.place <= n, outer.c.place > outer.c.n - n))
        .order_by(outer.c.place)
    )
    return [ScoredSample(*row) for row in connection.execute(query)]


def defined_values(connection: Connection, scorer_id: int, dataset_id: int, shard: int | None = None) -> list[float]:
    """The values of every defined score, best first: numbers alone, which fit in memory by the million."""
    query = _defined(scorer_id, dataset_id, shard, score.c.value).order_by(score.c.value.desc())
    return list(connection.scalars(query))


def values_by_system(connection: Connection, scorer_id: int, dataset_id: int) -> dict[str, list[float]]:
    """The values of every defined score of a dataset by the system that wrote the sample, each best first."""
    query = _defined(scorer_id, dataset_id, None, sample.c.system, score.c.value).order_by(score.c.value.desc())
    values: dict[str, list[float]] = {}
    for system, value in connection.execute(query):
        values.setdefault(system, []).append(value)
    return values


def _defined(scorer_id: int, dataset_id: int, shard: int | None, *columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
    query = (
        sa.select(*columns)
        .select_from(score.join(sample, sample.c.sample_id == score.c.sample_id))
        .where(score.c.scorer_id == scorer_id, sample.c.dataset_id == dataset_id, score.c.status == "ok")
    )
    return query if shard is None else query.where(sample.c.shard == shard)
