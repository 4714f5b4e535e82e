"""Selections: frozen subsets with their rows, rule, cutoff and score hash."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine, RowMapping

from db.filters import parse_filter
from db.freezing import freezing, frozen_columns
from db.manifest import Dataset
from db.schema import score, scorer, selection, selection_item
from db.views import prepare_for_views


class SelectionError(ValueError):
    """A selection that cannot be made; the message says why and what to do."""

    plain = True


class NothingToSelect(SelectionError):
    """No sample has a score that a selection could rank it by."""


@dataclass(frozen=True, slots=True)
class Selection:
    """A frozen selection: `n` of `n_eligible` rows; `cutoff` is the worst value among the `n`."""

    selection_id: int
    n: int
    n_eligible: int
    cutoff: float
    score_hash: str
    is_new: bool


def sample_scores(metrics: list[str]) -> sa.TableClause:
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


def known_metrics(connection: Connection) -> list[str]:
    """The metrics that sample_scores has a column for."""
    columns = sa.inspect(connection).get_columns("sample_scores")
    names = [column["name"] for column in columns]
    return [name for name in names if f"{name}_status" in names and name != "video"]


def list_scores(
    connection: Connection, dataset: str, by: str, limit: int | None, *, components: bool = False
) -> list[dict[str, Any]]:
    """Samples of a dataset with value, status and models of every metric, best first, undefined values last as None.

    components: whether the parts of each score come along as `<metric>_components`; those of a stale score are None.
    """
    metrics = known_metrics(connection)
    view = sample_scores(metrics)
    of_metrics = [f"{metric}{about}" for metric in metrics for about in ("", "_status", "_models")]
    columns = [view.c[name] for name in ("sample", "video", "kind", "system", *of_metrics)]
    if components:
        columns += [_components(view, metric) for metric in metrics]
    in_order = (view.c[by].desc().nulls_last(), view.c.kind, sa.collate(view.c.sample, "C"))
    query = sa.select(*columns).where(view.c.dataset == dataset).order_by(*in_order).limit(limit)
    if limit is not None:
        prepare_for_views(connection)
        best = _best(view, dataset, by, limit)
        rows = connection.execute(query.where(view.c.sample_id == sa.any_(sa.func.array(best)))).mappings().all()
        if len(rows) == limit:
            return [dict(row) for row in rows]
    return [dict(row) for row in connection.execute(query).mappings()]


def _best(view: sa.TableClause, dataset: str, by: str, limit: int) -> sa.ScalarSelect[Any]:
    """The samples with the best values. An index has the values in order, so the others are not looked at."""
    is_active = sa.and_(scorer.c.metric == by, scorer.c.status == "active")
    active = sa.select(scorer.c.scorer_id).where(is_active).scalar_subquery()
    return (
        sa.select(view.c.sample_id)
        .join_from(score, view, view.c.sample_id == score.c.sample_id)
        .where(score.c.scorer_id == active, view.c.dataset == dataset, view.c[by].is_not(None))
        .order_by(score.c.value.desc().nulls_last(), view.c.kind, sa.collate(view.c.sample, "C"))
        .limit(limit)
        .scalar_subquery()
    )


def freeze_selection(
    connection: Connection, dataset: Dataset, *, by: str, keep: float, where: str | None = None
) -> Selection:
    """Freeze the best `keep` (0 < keep <= 1) of the samples that have a score `by` and pass `where`.

    The number of rows is floor(keep * eligible), at least 1; ties are broken by kind and sample id, so the same scores
    always give the same selection, and giving the same rule twice returns the first selection. Needs one transaction.
    Raises SelectionError, or FilterError for a `where` that is not allowed.
    """
    metrics = known_metrics(connection)
    if by not in metrics:
        raise SelectionError(f"there is no metric {by!r}: choose one of {', '.join(metrics)}")
    if not 0 < keep <= 1:
        raise SelectionError(f"keep is {keep:g}: give the share to keep, above 0 and at most 1")
    view = sample_scores(metrics)
    eligible = sa.and_(view.c.dataset == dataset.name, view.c[by].is_not(None))
    if where:
        eligible = sa.and_(eligible, parse_filter(where, {c.name: c for c in view.columns if c.name != "sample_id"}))
    # Two processes may freeze at once: the second one waits here, then finds the selection of the first. An advisory
    # lock would do too, but the reader could take it.
    connection.execute(sa.text("LOCK TABLE selection IN SHARE ROW EXCLUSIVE MODE"))
    prepare_for_views(connection)
    spec = {"by": by, "keep": keep, "where": where}
    row = connection.execute(freezing(dataset, view, eligible, spec, metrics)).one()
    if not row.n:
        remedy = (
            f" and passes {where!r}: loosen it" if where else f": run reelsieve score --dataset {dataset.name} first"
        )
        raise NothingToSelect(f"no sample of dataset {dataset.name!r} has a {by} score{remedy}")
    is_new = row.existing_id is None
    return Selection(
        row.new_id if is_new else row.existing_id, row.n, row.n_eligible, row.cutoff, row.score_hash, is_new
    )


def kept(share: float, n: int) -> int:
    """How many of n rows a share keeps: floor(share * n), at least 1. The share is meant as written in decimals.

    >>> kept(0.125, 363), kept(0.1, 30), kept(0.01, 5)
    (45, 3, 1)
    """
    return max(1, int(Fraction(str(share)) * n))


def find_selection(connection: Connection, selection_id: int) -> RowMapping | None:
    """The stored selection, or None."""
    return (
        connection.execute(sa.select(selection).where(selection.c.selection_id == selection_id))
        .mappings()
        .one_or_none()
    )


def selection_rows(engine: Engine, selection_id: int, batch_size: int = 5000) -> Iterator[list[dict[str, Any]]]:
    """The frozen rows in order of rank, in batches."""
    query = (
        sa.select(selection_item.c.rank, selection_item.c.value, selection_item.c.row)
        .where(selection_item.c.selection_id == selection_id)
        .order_by(selection_item.c.rank)
    )
    with engine.connect().execution_options(stream_results=True, yield_per=batch_size) as connection:
        for part in connection.execute(query).partitions():
            yield [{"rank": rank, "value": value, **row} for rank, value, row in part]


def _components(view: sa.TableClause, metric: str) -> Any:
    is_active = sa.and_(scorer.c.metric == metric, scorer.c.status == "active")
    stored = (
        sa.select(score.c.components)
        .join(scorer, scorer.c.scorer_id == score.c.scorer_id)
        .where(is_active, score.c.sample_id == view.c.sample_id)
        .scalar_subquery()
    )
    return sa.case((view.c[f"{metric}_status"] != "stale", stored)).label(f"{metric}_components")


def frozen_types(names: Collection[str]) -> dict[str, type]:
    """The Python types of the columns of frozen rows, by name; these names tell which metrics the rows have."""
    metrics = [name for name in names if f"{name}_models" in names]
    columns = frozen_columns(sample_scores(metrics), metrics)
    return {"rank": int, "value": float, **{name: column.type.python_type for name, column in columns.items()}}
