"""Register and activate scorers, store batches of their scores, and read the values back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection, Engine

from db.evidence.models import compute_fingerprint
from db.schema import sample, score, scorer
from db.server.bulk import UpsertCounts, upsert
from db.server.conflicts import retry_conflicts
from db.server.engine import open_psycopg_transaction
from db.server.locking import lock_ids_for_copy
from db.sql import read_sql

# View current_score: every score with columns of its sample, a stale one without its value.
current_score = sa.table(
    "current_score",
    *[sa.column(name, sa.BigInteger) for name in ("scorer_id", "sample_id", "dataset_id", "shard")],
    *[sa.column(name, sa.Text) for name in ("kind", "key", "system", "text", "status", "error")],
    sa.column("value", sa.Double),
)


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """A score as table `score` stores it. value: None unless the status is "ok". error: the reason for another status;
    None only for "ok". components: the parts of the score. input_sha256: digest of the inputs it was computed from.
    input_marks: by input, a few digits of its own digest, by which view score_history names the inputs that changed.
    """

    sample_id: int
    input_sha256: bytes
    input_marks: Mapping[str, str]
    value: float | None
    components: Mapping[str, Any]
    status: str
    error: str | None


@dataclass(frozen=True, slots=True)
class ScoredSample:
    """A sample with a defined score: its key, system and text, and the value of the score."""

    key: str
    system: str
    value: float
    text: str


def register_scorer(
    connection: Connection, *, metric: str, models: Mapping[str, Any], params: Mapping[str, Any], code_version: str
) -> int:
    """Return the id of the scorer with exactly these models, parameters and code version. If it is new, insert it with
    status "candidate". models: by role, the identity of the model.
    """
    identity = {"metric": metric, "models": models, "params": params, "code_version": code_version}
    digest = compute_fingerprint(identity)
    # Two processes may register at once: the loser of the insert waits for the winner's row, then finds it.
    connection.execute(
        insert(scorer).values(**identity, fingerprint=digest, status="candidate").on_conflict_do_nothing()
    )
    scorer_id: int = connection.execute(
        sa.select(scorer.c.scorer_id).where(scorer.c.fingerprint == digest)
    ).scalar_one()
    return scorer_id


def activate_scorer(connection: Connection, scorer_id: int, dataset_ids: Sequence[int]) -> None:
    """Make a scorer its metric's active one and retire the present one, if the new one has a score of status ok in one
    of these datasets. A score of any status is enough if the present one has none of status ok, so that people see why
    samples have no value. Otherwise nothing changes.

    Scores of a retired scorer stay in view score_history. Raises sqlalchemy.exc.NoResultFound if there is no scorer
    with this id.
    """
    is_this = scorer.c.scorer_id == scorer_id
    row = connection.execute(sa.select(scorer.c.metric, scorer.c.status).where(is_this)).one()
    if row.status == "active":
        return
    # Two processes may activate at once: the second one waits here, then looks at the winner.
    metric_scorers = sa.select(scorer.c.scorer_id).where(scorer.c.metric == row.metric).order_by(scorer.c.scorer_id)
    connection.execute(metric_scorers.with_for_update(key_share=True))
    active = find_active_scorer(connection, row.metric)
    is_good = score.c.status == "ok"
    hides_good = active is not None and _has_score(connection, active, is_good)
    is_of_datasets = sa.exists().where(sample.c.sample_id == score.c.sample_id, sample.c.dataset_id.in_(dataset_ids))
    if _has_score(connection, scorer_id, is_of_datasets, *([is_good] if hides_good else [])):
        was_active = sa.and_(scorer.c.metric == row.metric, scorer.c.status == "active")
        connection.execute(sa.update(scorer).where(was_active).values(status="retired"))
        connection.execute(sa.update(scorer).where(is_this).values(status="active"))


def find_scorer(
    connection: Connection, *, metric: str, models: Mapping[str, Any], params: Mapping[str, Any], code_version: str
) -> int | None:
    """Return the id of the scorer with exactly these models, parameters and code version; None if it was never
    registered. models: by role, the identity of the model.
    """
    identity = {"metric": metric, "models": models, "params": params, "code_version": code_version}
    return connection.scalar(sa.select(scorer.c.scorer_id).where(scorer.c.fingerprint == compute_fingerprint(identity)))


def find_active_scorer(connection: Connection, metric: str) -> int | None:
    """Return the id of the metric's active scorer; None if it has none."""
    query = sa.select(scorer.c.scorer_id).where(scorer.c.metric == metric, scorer.c.status == "active")
    return connection.scalar(query)


def list_active_models(connection: Connection, metric: str) -> list[str]:
    """List the names of the models that the metric's active scorer uses; empty if the metric has no active scorer."""
    used = connection.scalar(sa.select(scorer.c.models).where(scorer.c.metric == metric, scorer.c.status == "active"))
    return [model["model_id"] for model in (used or {}).values()]


@retry_conflicts
def store_scores(engine: Engine, scorer_id: int, run_id: str, rows: Sequence[ScoreRow]) -> UpsertCounts:
    """Store a batch of a scorer's scores in one transaction, in place of older ones, and return the counts of changes.
    A score whose sample was deleted in the meantime is left out. One whose inputs changed since they were loaded is
    stored as stale. Tried again, up to three times, after a conflict with another transaction.
    """
    compared = ["input_sha256", "value", "components", "status", "error"]
    with open_psycopg_transaction(engine) as connection:
        # A process that changes an input waits here for the end of this transaction, and then marks these scores; or it
        # was first, and the comparison below sees the new input. Shards come before samples, as where both are deleted.
        connection.execute(
            "SELECT 1 FROM shard WHERE (dataset_id, shard) IN (SELECT dataset_id, shard FROM sample "
            "WHERE sample_id = ANY(%s)) ORDER BY dataset_id, shard FOR KEY SHARE",
            [[row.sample_id for row in rows]],
        )
        alive = lock_ids_for_copy(connection, sample.c.sample_id, [row.sample_id for row in rows])
        values = [
            (
                *(scorer_id, row.sample_id, dict(row.input_marks), False, run_id),
                *(row.input_sha256, row.value, dict(row.components), row.status, row.error),
            )
            for row in rows
            if row.sample_id in alive
        ]
        columns = ["scorer_id", "sample_id", "input_marks", "is_stale", "run_id", *compared]
        written = upsert(connection, score, columns, values, compare=compared, touch=["scored_at"])
        connection.execute("SELECT compare_scores(%s, ARRAY[%s::bigint])", [sorted(alive), scorer_id])
        return written


def count_statuses(connection: Connection, scorer_id: int, dataset_id: int, shard: int | None = None) -> dict[str, int]:
    """Return {status: number of samples} for a scorer's scores on a dataset. A sample without a score is "unscored",
    and statuses without samples are left out. shard: None for the whole dataset.
    """
    statement = sa.text(read_sql("status_counts"))
    values = {"scorer_id": scorer_id, "dataset_id": dataset_id, "shard": shard}
    return {row.status: row.n for row in connection.execute(statement, values)}


def list_best_and_worst(
    connection: Connection, scorer_id: int, dataset_id: int, kind: str, n: int, shard: int | None = None
) -> list[ScoredSample]:
    """List the n samples with the highest defined score and the n with the lowest, without repeats, best first, ties by
    key. kind: "caption" or "qa". shard: None for the whole dataset.
    """
    scores = current_score.c
    order = (scores.value.desc(), sa.collate(scores.key, "C"))
    place, total = sa.func.row_number().over(order_by=order), sa.func.count().over()
    columns = (scores.key, scores.system, scores.value, scores.text)
    defined = _select_defined(scorer_id, dataset_id, shard, *columns, place.label("place"), total.label("n"))
    ranked = defined.where(scores.kind == kind).subquery("ranked")
    query = (
        sa.select(*[ranked.c[column.name] for column in columns])
        .where(sa.or_(ranked.c.place <= n, ranked.c.place > ranked.c.n - n))
        .order_by(ranked.c.place)
    )
    return [ScoredSample(*row) for row in connection.execute(query)]


def load_values_by_kind(
    connection: Connection, scorer_id: int, dataset_id: int, shard: int | None = None
) -> dict[str, list[float]]:
    """Load a scorer's defined scores on a dataset as {kind of sample: values, highest first}. Kinds without a defined
    score are left out. shard: None for the whole dataset.
    """
    return _group_values(
        connection, _select_defined(scorer_id, dataset_id, shard, current_score.c.kind, current_score.c.value)
    )


def load_values_by_system(connection: Connection, scorer_id: int, dataset_id: int) -> dict[str, list[float]]:
    """Load a scorer's defined scores on a dataset's captions as {system: values, highest first}. Systems without a
    defined score are left out.
    """
    query = _select_defined(scorer_id, dataset_id, None, current_score.c.system, current_score.c.value)
    return _group_values(connection, query.where(current_score.c.kind == "caption"))


def _group_values(connection: Connection, query: sa.Select[Any]) -> dict[str, list[float]]:
    values: dict[str, list[float]] = {}
    for group, value in connection.execute(query.order_by(current_score.c.value.desc())):
        values.setdefault(group, []).append(value)
    return values


def _has_score(connection: Connection, scorer_id: int, *conditions: sa.ColumnElement[bool]) -> bool:
    exists = connection.scalar(sa.select(sa.exists().where(score.c.scorer_id == scorer_id, *conditions)))
    return bool(exists)


def _select_defined(
    scorer_id: int, dataset_id: int, shard: int | None, *columns: sa.ColumnElement[Any]
) -> sa.Select[Any]:
    scores = current_score.c
    query = sa.select(*columns).where(
        scores.scorer_id == scorer_id, scores.dataset_id == dataset_id, scores.status == "ok"
    )
    return query if shard is None else query.where(scores.shard == shard)
