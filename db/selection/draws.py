"""Draws: the part of a dataset for which an expensive metric is computed, the samples with the lowest random numbers.

A draw is remembered, so that a larger one keeps what was asked, and samples that come later take their places in it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection, Engine

from db.manifest.datasets import Dataset
from db.manifest.draws import build_draw_order
from db.schema import dataset as dataset_table
from db.schema import drawn_sample, sample, sample_draw, score
from db.schema.inputs import DRAW_NAME, NOT_DRAWN_DIGEST, Input, build_digest_sql, build_marks_sql
from db.scores.sample_scores import build_sample_scores, list_dataset_scores, load_active_scorers, prepare_for_joins
from db.server.conflicts import retry_conflicts
from db.sql import read_sql

NOT_DRAWN = "not_drawn"
"""The status of a sample that no draw of its dataset has reached."""
NOT_DRAWN_REASON = "the metric is computed for drawn samples only: draw more by score --draw"


@dataclass(frozen=True, slots=True)
class Draw:
    """A rule that a metric is computed only for the `n_wanted` samples of a dataset with the lowest random numbers by
    `seed`, among those that meet the condition `where`, as `--where` takes it; None for all samples. n_answers: how
    many answers a judge is to give about every one of them.
    """

    n_wanted: int
    seed: int = 0
    where: str | None = None
    n_answers: int = 1


def list_wanted_samples(connection: Connection, dataset: Dataset, draw: Draw) -> list[int]:
    """List the ids of the samples that a draw wants, by their random numbers; fewer than it wants if the dataset has no
    more. Changes settings of the transaction, see `prepare_for_joins`. Raises FilterError and SelectionError for a
    condition that cannot be used.
    """
    if draw.where is None:
        query = sa.select(sample.c.sample_id).where(sample.c.dataset_id == dataset.dataset_id)
    else:
        # Imported late: every command would begin with the parser of conditions, a tenth of a second.
        from db.selection.columns import build_own_columns
        from db.selection.filters import list_column_names, parse_filter

        known, scorers = list_dataset_scores(connection, dataset), load_active_scorers(connection, dataset)
        prepare_for_joins(connection)
        scores = build_sample_scores(dataset, known, scorers)
        own = build_own_columns(connection, dataset, list_column_names(draw.where), scores)
        condition = parse_filter(draw.where, {**scores.view_columns, **own})
        query = sa.select(sample.c.sample_id).select_from(scores.from_clause)
        query = query.where(scores.dataset_condition, condition)
    return list(connection.scalars(query.order_by(*build_draw_order(draw.seed)).limit(draw.n_wanted)))


def take_draw(connection: Connection, dataset: Dataset, metric: str, scorer_id: int, draw: Draw) -> int:
    """Store a draw of a metric and the samples that it reaches, and return how many of them no draw had reached before.
    An earlier, larger draw by this seed and condition is not made smaller. A dataset's first draw also reaches all
    samples scored before. Samples get the larger number of answers. Raises as `list_wanted_samples` does.
    """
    # Two draws at once wait for each other, and what was wanted before is known.
    lock = sa.select(dataset_table.c.dataset_id).where(dataset_table.c.dataset_id == dataset.dataset_id)
    connection.execute(lock.with_for_update(key_share=True))
    if not list_draws(connection, dataset, metric):
        _keep_scored_samples(connection, dataset, metric, scorer_id)
    newest = sa.select(sa.func.coalesce(sa.func.max(sample.c.sample_id), 0))
    key = {"dataset_id": dataset.dataset_id, "metric": metric, "seed": draw.seed, "condition": draw.where}
    last = newest.where(sample.c.dataset_id == dataset.dataset_id).scalar_subquery()
    new = insert(sample_draw).values(**key, n_wanted=draw.n_wanted, last_sample_id=last)
    stored = new.on_conflict_do_update(
        index_elements=list(key),
        set_={
            "n_wanted": sa.func.greatest(sample_draw.c.n_wanted, new.excluded.n_wanted),
            "last_sample_id": new.excluded.last_sample_id,
        },
    )
    n_wanted = connection.execute(stored.returning(sample_draw.c.n_wanted)).scalar_one()
    wanted = list_wanted_samples(connection, dataset, replace(draw, n_wanted=n_wanted))
    n_new = _store_drawn_samples(connection, metric, wanted)
    _raise_answer_counts(connection, metric, wanted[: draw.n_wanted], draw.n_answers)
    return n_new


def extend_draws(connection: Connection, dataset: Dataset, metric: str, scorer_id: int) -> int:
    """Repeat the draws of a metric that may reach further samples: those older than a sample of the dataset, and those
    with a condition. Return how many samples they reach that no draw had reached before. Drawn samples stay drawn.
    Raises as `list_wanted_samples` does.
    """
    draws = _list_growing_draws(connection, dataset, metric)
    return sum(take_draw(connection, dataset, metric, scorer_id, draw) for draw in draws)


def list_coming_samples(connection: Connection, dataset: Dataset, metric: str) -> set[int]:
    """List the ids of the samples that `extend_draws` would reach and that no draw has reached before. Changes settings
    of the transaction, see `prepare_for_joins`. Raises as `list_wanted_samples` does.
    """
    draws = _list_growing_draws(connection, dataset, metric)
    wanted = {sample_id for draw in draws for sample_id in list_wanted_samples(connection, dataset, draw)}
    return wanted.difference(list_drawn_samples(connection, dataset, metric)) if wanted else wanted


def list_draws(connection: Connection, dataset: Dataset, metric: str) -> list[Any]:
    """List the draws of a metric from a dataset, as rows of table `sample_draw`, oldest first."""
    is_of_metric = (sample_draw.c.dataset_id == dataset.dataset_id, sample_draw.c.metric == metric)
    return list(connection.execute(sa.select(sample_draw).where(*is_of_metric).order_by(sample_draw.c.draw_id)))


def list_drawn_samples(connection: Connection, dataset: Dataset, metric: str) -> list[int]:
    """List the ids of the samples of a dataset that draws of a metric have reached, ascending."""
    is_of_dataset = sample.c.dataset_id == dataset.dataset_id, drawn_sample.c.metric == metric
    query = sa.select(drawn_sample.c.sample_id).join(sample, sample.c.sample_id == drawn_sample.c.sample_id)
    return list(connection.scalars(query.where(*is_of_dataset).order_by(drawn_sample.c.sample_id)))


def filter_asked_samples(
    connection: Connection, dataset: Dataset, metric: str, sample_ids: Collection[int]
) -> list[int]:
    """Return those of the samples, ascending, that the metric is to score: the drawn ones, or all of them if
    the dataset has no draw of the metric.
    """
    if not list_draws(connection, dataset, metric):
        return sorted(sample_ids)
    columns = drawn_sample.c
    is_one_of_them = columns.sample_id == sa.any_(sa.bindparam("ids"))
    query = sa.select(columns.sample_id).where(columns.metric == metric, is_one_of_them).order_by(columns.sample_id)
    return list(connection.scalars(query, {"ids": list(sample_ids)}))


@retry_conflicts
def store_undrawn_scores(
    engine: Engine,
    scorer_id: int,
    dataset: Dataset,
    shard: int,
    run_id: str,
    metric: str,
    inputs: Collection[Input[Any]],
) -> int:
    """Store a score of status NOT_DRAWN, in one statement, for all samples of a shard that no draw of the metric has
    reached and that the scorer has still to score; return their number, 0 without a draw. The samples are not loaded.
    inputs: those of the metric's scores.
    """
    with engine.begin() as connection:
        if not list_draws(connection, dataset, metric):
            return 0
        # A process that changes an input waits here for the end of this transaction, and then marks these scores; or
        # it was first, and the statement sees the new input.
        where = {"dataset_id": dataset.dataset_id, "shard": shard}
        lock = "SELECT 1 FROM shard WHERE dataset_id = :dataset_id AND shard = :shard FOR KEY SHARE"
        connection.execute(sa.text(lock), where)
        # Known of all these samples, so that no row needs a look-up of its own.
        known = [replace(item, digest=NOT_DRAWN_DIGEST) if item.name == DRAW_NAME else item for item in inputs]
        statement = read_sql("undrawn_scores").format(
            input_sha256=build_digest_sql(known), input_marks=build_marks_sql(known)
        )
        values = {"scorer_id": scorer_id, "run_id": run_id, "metric": metric, **where}
        values |= {"status": NOT_DRAWN, "reason": NOT_DRAWN_REASON}
        return connection.execute(sa.text(statement), values).rowcount


def load_answer_counts(connection: Connection, metric: str, sample_ids: Collection[int]) -> dict[int, int]:
    """Load how many answers a judge is to give about samples, by sample_id; samples with one answer are left out."""
    columns = drawn_sample.c
    is_one_of_them = columns.sample_id == sa.any_(sa.bindparam("ids"))
    query = sa.select(columns.sample_id, columns.n_answers)
    query = query.where(columns.metric == metric, columns.n_answers > 1, is_one_of_them)
    return {row.sample_id: row.n_answers for row in connection.execute(query, {"ids": list(sample_ids)})}


def count_unscored_samples(connection: Connection, scorer_id: int, sample_ids: Collection[int]) -> int:
    """Count those of the samples that a scorer has still to score once they are drawn: without a score by it, or with
    one that is stale, has failed or has the status NOT_DRAWN.
    """
    is_settled = (
        score.c.scorer_id == scorer_id,
        score.c.sample_id == sa.any_(sa.bindparam("ids")),
        sa.not_(score.c.is_stale),
        score.c.status.not_in(["failed", NOT_DRAWN]),
    )
    query = sa.select(sa.func.count()).select_from(score).where(*is_settled)
    return len(sample_ids) - (connection.scalar(query, {"ids": list(sample_ids)}) or 0)


def _list_growing_draws(connection: Connection, dataset: Dataset, metric: str) -> list[Draw]:
    """List the draws of a metric that may reach other samples by now, oldest first."""
    newest = sa.select(sa.func.max(sample.c.sample_id)).where(sample.c.dataset_id == dataset.dataset_id)
    last = connection.scalar(newest) or 0
    return [
        Draw(row.n_wanted, row.seed, row.condition)
        for row in list_draws(connection, dataset, metric)
        if row.last_sample_id < last or row.condition is not None
    ]


def _keep_scored_samples(connection: Connection, dataset: Dataset, metric: str, scorer_id: int) -> None:
    scored = sa.select(score.c.sample_id).join(sample, sample.c.sample_id == score.c.sample_id)
    scored = scored.where(score.c.scorer_id == scorer_id, sample.c.dataset_id == dataset.dataset_id)
    _store_drawn_samples(connection, metric, list(connection.scalars(scored)))


def _raise_answer_counts(connection: Connection, metric: str, sample_ids: Collection[int], n_answers: int) -> None:
    columns = drawn_sample.c
    is_one_of_them = columns.sample_id == sa.any_(sa.bindparam("ids"))
    raised = sa.update(drawn_sample).values(n_answers=n_answers)
    raised = raised.where(columns.metric == metric, columns.n_answers < n_answers, is_one_of_them)
    connection.execute(raised, {"ids": list(sample_ids)})


def _store_drawn_samples(connection: Connection, metric: str, sample_ids: Collection[int]) -> int:
    drawn = sa.select(sample.c.sample_id, sa.literal(metric, sa.Text))
    drawn = drawn.where(sample.c.sample_id == sa.any_(sa.bindparam("ids"))).order_by(sample.c.sample_id)
    new = insert(drawn_sample).from_select(["sample_id", "metric"], drawn).on_conflict_do_nothing()
    return len(connection.scalars(new.returning(drawn_sample.c.sample_id), {"ids": list(sample_ids)}).all())
