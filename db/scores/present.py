"""Samples with their present scores: read from the tables alone where no score is stale, else from the view.

The view starts from all samples and compares each score with its inputs, unless the shard is known to be fresh. Where
no score of a dataset is stale there is nothing to compare: an index has the values of a scorer in order, and tables
that nobody asks for are not read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.manifest.datasets import Dataset
from db.schema import sample, score, scorer, video
from db.sql import read_sql

Column = sa.ColumnElement[Any]

_ACTIVE_SCORERS = sa.text(read_sql("active_scorers"))
_DATASET_STATUS = sa.table(
    "dataset_status",
    sa.column("scorer_id", sa.BigInteger),
    sa.column("dataset_id", sa.BigInteger),
    sa.column("is_fresh", sa.Boolean),
    schema="plumbing",
)
# The columns of view sample_scores that depend on no scorer, as the tables have them, and those it does not show.
_SHARED: dict[str, Column] = {
    "shard": sample.c.shard,
    "video": video.c.key,
    "kind": sample.c.kind,
    "sample": sample.c.key,
    "system": sample.c.system,
    "text": sample.c.text,
    "video_status": video.c.status,
    "duration_s": video.c.duration_s,
    "question": sample.c.question,
    "answer": sample.c.answer,
    "uri": video.c.uri,
    "content_sha256": video.c.content_sha256,
}


class ActiveScorer(NamedTuple):
    """The active scorer of a metric, and its scores in a dataset.

    is_fresh: whether no score is stale. n_defined: how many scores are defined, where none is stale. is_alone: whether
    the scorer has no defined score in any other dataset.
    """

    metric: str
    scorer_id: int
    fingerprint: str
    models: str | None
    is_fresh: bool
    n_defined: int
    is_alone: bool


@dataclass(frozen=True, slots=True)
class PresentScores:
    """Where to read the samples of a dataset with their present scores.

    rows: what stands behind FROM. of_dataset: whether a row belongs to the dataset. columns: by name, all columns of
    view sample_scores, and question, answer, uri and content_sha256 of sample and video. is_scored: by metric, whether
    the sample has a row of scores. components: of these rows, by metric; NULL for a stale score.
    """

    rows: sa.FromClause
    of_dataset: sa.ColumnElement[bool]
    columns: Mapping[str, Column]
    is_scored: Mapping[str, sa.ColumnElement[bool]]
    components: Mapping[str, Column]


def known_metrics(connection: Connection) -> list[str]:
    """The metrics that sample_scores has a column for."""
    query = "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass('sample_scores') ORDER BY attnum"
    names = list(connection.exec_driver_sql(query).scalars())
    return [name for name in names if f"{name}_status" in names and name != "video"]


def sample_scores(metrics: Sequence[str]) -> sa.TableClause:
    """The view sample_scores as a typed table; each metric is a number with its status and models beside it."""
    texts = ["dataset", "video", "kind", "sample", "system", "text", "video_status"]
    return sa.table(
        "sample_scores",
        *[sa.column(name, sa.Text) for name in texts],
        sa.column("shard", sa.Integer),
        sa.column("duration_s", sa.Double),
        sa.column("sample_id", sa.BigInteger),
        *[sa.column(metric, sa.Double) for metric in metrics],
        *[sa.column(f"{metric}_{about}", sa.Text) for metric in metrics for about in ("status", "models")],
    )


def active_scorers(connection: Connection, dataset: Dataset) -> dict[str, ActiveScorer]:
    """The active scorers by metric, as the snapshot of this function's statement has them."""
    rows = connection.execute(_ACTIVE_SCORERS, {"dataset_id": dataset.dataset_id})
    return {row.metric: ActiveScorer(*row) for row in rows}


def fresh_and_other_shards(
    connection: Connection, dataset: Dataset, scorer_ids: Sequence[int]
) -> tuple[list[int], list[int]]:
    """The shards that are known to hold no stale score of any of these scorers, and all others of the dataset."""
    query = sa.text(
        "SELECT shard FROM plumbing.fresh_shard WHERE dataset_id = :dataset_id AND scorer_id = ANY(:scorer_ids) "
        "GROUP BY shard HAVING count(*) = cardinality(CAST(:scorer_ids AS bigint[])) ORDER BY shard"
    )
    values = {"dataset_id": dataset.dataset_id, "scorer_ids": list(scorer_ids)}
    fresh = list(connection.execute(query, values).scalars())
    return fresh, sorted(set(range(dataset.n_shards)) - set(fresh))


def still_fresh(dataset: Dataset) -> sa.ColumnElement[bool]:
    """A condition: no score of the dataset by an active scorer is stale."""
    of_dataset = sa.and_(_DATASET_STATUS.c.dataset_id == dataset.dataset_id, scorer.c.status == "active")
    joined = sa.join(_DATASET_STATUS, scorer, _DATASET_STATUS.c.scorer_id == scorer.c.scorer_id)
    is_fresh = sa.select(sa.func.bool_and(_DATASET_STATUS.c.is_fresh)).select_from(joined).where(of_dataset)
    return is_fresh.scalar_subquery()


def prepare_for_stored_scores(connection: Connection) -> None:
    """Settings for statements over many of the `stored_scores`, for the rest of the transaction.

    The indexes have all scores in the order of samples, and merging them takes a third of the server's time that hash
    joins by several processes take. Postgres estimates the opposite.
    """
    for setting in ("enable_hashjoin = off", "max_parallel_workers_per_gather = 0", "random_page_cost = 1.1"):
        connection.exec_driver_sql(f"SET LOCAL {setting}")


def stored_scores(
    dataset: Dataset, by: str, metrics: Sequence[str], scorers: Mapping[str, ActiveScorer]
) -> PresentScores | None:
    """The samples with a score by one metric, as the tables have them; None where a score may be stale.

    All else is joined to the rows of that scorer by outer joins: Postgres leaves out a table of which nothing is asked.
    """
    if by not in scorers or not all(scorers[metric].is_fresh for metric in metrics if metric in scorers):
        return None
    scores = {metric: score.alias(f"{metric}_score") for metric in metrics if metric in scorers}
    base = scores[by]
    rows: sa.FromClause = base.outerjoin(sample, sample.c.sample_id == base.c.sample_id)
    rows = rows.outerjoin(video, video.c.video_id == sample.c.video_id)
    for metric in scores.keys() - {by}:
        of_scorer = scores[metric].c.scorer_id == scorers[metric].scorer_id
        rows = rows.outerjoin(scores[metric], sa.and_(of_scorer, scores[metric].c.sample_id == base.c.sample_id))
    of_dataset = base.c.scorer_id == scorers[by].scorer_id
    if not scorers[by].is_alone:
        of_dataset = sa.and_(of_dataset, sample.c.dataset_id == dataset.dataset_id)
    columns = {**_SHARED, "dataset": sa.literal(dataset.name, sa.Text), "sample_id": base.c.sample_id}
    is_scored: dict[str, sa.ColumnElement[bool]] = dict.fromkeys(metrics, sa.false())
    components: dict[str, Column] = dict.fromkeys(metrics, sa.null())
    for metric in metrics:
        columns[metric] = sa.cast(sa.null(), sa.Double)
        columns |= dict.fromkeys((f"{metric}_status", f"{metric}_models"), sa.cast(sa.null(), sa.Text))
    for metric, table in scores.items():
        is_scored[metric], components[metric] = table.c.sample_id.is_not(None), table.c.components
        models = sa.case((is_scored[metric], sa.literal(scorers[metric].models, sa.Text)))
        columns |= {metric: table.c.value, f"{metric}_status": table.c.status, f"{metric}_models": models}
    return PresentScores(rows, of_dataset, columns, is_scored, components)


def compared_scores(dataset: Dataset, metrics: Sequence[str]) -> PresentScores:
    """All samples with their scores as the view shows them: a stale one has no value."""
    view = sample_scores(metrics)
    rows = view.outerjoin(sample, sample.c.sample_id == view.c.sample_id)
    rows = rows.outerjoin(video, video.c.video_id == sample.c.video_id)
    columns = {**_SHARED, **{column.name: column for column in view.columns}}
    is_scored = {metric: view.c[f"{metric}_status"].is_not(None) for metric in metrics}
    components = {metric: _components(view, metric) for metric in metrics}
    return PresentScores(rows, view.c.dataset == dataset.name, columns, is_scored, components)


def _components(view: sa.TableClause, metric: str) -> Column:
    is_active = sa.and_(scorer.c.metric == metric, scorer.c.status == "active")
    stored = (
        sa.select(score.c.components)
        .join(scorer, scorer.c.scorer_id == score.c.scorer_id)
        .where(is_active, score.c.sample_id == view.c.sample_id)
        .scalar_subquery()
    )
    return sa.case((view.c[f"{metric}_status"] != "stale", stored))
