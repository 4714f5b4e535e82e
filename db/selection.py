"""Selections: frozen subsets with their rows, rule, cutoff and score hash."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine, RowMapping

from db.filters import parse_filter
from db.manifest import Dataset
from db.schema import sample, score, scorer, selection, selection_item, video

_SQL = Path(__file__).parent / "sql"


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
    query = (
        sa.select(*columns)
        .where(view.c.dataset == dataset)
        .order_by(view.c[by].desc().nulls_last(), view.c.kind, sa.collate(view.c.sample, "C"))
        .limit(limit)
    )
    return [dict(row) for row in connection.execute(query).mappings()]


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
    _rank(connection, view, by, eligible, keep, metrics)
    summary = connection.execute(sa.text((_SQL / "chosen_summary.sql").read_text())).one()
    if not summary.n:
        remedy = (
            f" and passes {where!r}: loosen it" if where else f": run reelsieve score --dataset {dataset.name} first"
        )
        raise NothingToSelect(f"no sample of dataset {dataset.name!r} has a {by} score{remedy}")
    spec = {"by": by, "keep": keep, "where": where, "scorer": summary.scorer}
    return _store(connection, dataset, spec, summary)


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


def _rank(
    connection: Connection,
    view: sa.TableClause,
    by: str,
    eligible: sa.ColumnElement[bool],
    keep: float,
    metrics: list[str],
) -> None:
    """Put the chosen rows, ranked, into a temporary table that ends with the transaction.

    One statement counts, ranks, copies and names the scorer, so that all is of one moment while others still score.
    """
    order = (view.c[by].desc(), view.c.kind, sa.collate(view.c.sample, "C"))
    rank, n_eligible = sa.func.row_number().over(order_by=order), sa.func.count().over()
    ranked = (
        sa.select(view.c.sample_id, rank.label("rank"), n_eligible.label("n_eligible"))
        .where(eligible)
        .subquery("ranked")
    )
    size = sa.func.greatest(1, sa.func.floor(sa.cast(str(keep), sa.Numeric) * ranked.c.n_eligible))
    frozen = sa.func.jsonb_build_object(*_pairs(_frozen_columns(view, metrics)))
    is_active = sa.and_(scorer.c.metric == by, scorer.c.status == "active")
    chosen = (
        sa.select(
            ranked.c.rank,
            ranked.c.n_eligible,
            view.c.sample_id,
            view.c[by].label("value"),
            frozen.label("row"),
            sa.select(scorer.c.fingerprint).where(is_active).scalar_subquery().label("scorer"),
        )
        .select_from(
            ranked.join(view, view.c.sample_id == ranked.c.sample_id)
            .join(sample, sample.c.sample_id == view.c.sample_id)
            .join(video, video.c.video_id == sample.c.video_id)
        )
        .where(ranked.c.rank <= size)
    )
    connection.execute(sa.text("DROP TABLE IF EXISTS chosen"))
    compiled = chosen.compile(connection, compile_kwargs={"render_postcompile": True})
    connection.exec_driver_sql(f"CREATE TEMPORARY TABLE chosen ON COMMIT DROP AS {compiled}", dict(compiled.params))


def _store(connection: Connection, dataset: Dataset, spec: dict[str, Any], summary: sa.Row[Any]) -> Selection:
    # Two processes may freeze at once: the second one waits here, then finds the selection of the first. An advisory
    # lock would do too, but the reader could take it.
    connection.execute(sa.text("LOCK TABLE selection IN SHARE ROW EXCLUSIVE MODE"))
    existing = connection.scalar(
        sa.select(selection.c.selection_id).where(
            selection.c.dataset_id == dataset.dataset_id,
            selection.c.score_hash == summary.score_hash,
            selection.c.spec == sa.cast(sa.literal(spec, selection.c.spec.type), selection.c.spec.type),
        )
    )
    frozen = {"n": summary.n, "cutoff": summary.cutoff, "score_hash": summary.score_hash}
    selection_id = existing or _insert(connection, {"dataset_id": dataset.dataset_id, "spec": spec, **frozen})
    return Selection(selection_id, summary.n, summary.n_eligible, summary.cutoff, summary.score_hash, existing is None)


def _insert(connection: Connection, row: dict[str, Any]) -> int:
    new_id: int = connection.execute(sa.insert(selection).values(row).returning(selection.c.selection_id)).scalar_one()
    copy_items = sa.text(
        "INSERT INTO selection_item (selection_id, rank, sample_id, value, row) "
        "SELECT :id, rank, sample_id, value, row FROM chosen"
    )
    connection.execute(copy_items, {"id": new_id})
    return new_id


def frozen_types(names: Collection[str]) -> dict[str, type]:
    """The Python types of the columns of frozen rows, by name; these names tell which metrics the rows have."""
    metrics = [name for name in names if f"{name}_models" in names]
    columns = _frozen_columns(sample_scores(metrics), metrics)
    return {"rank": int, "value": float, **{name: column.type.python_type for name, column in columns.items()}}


def _frozen_columns(view: sa.TableClause, metrics: Sequence[str]) -> dict[str, sa.ColumnElement[Any]]:
    """What a frozen row keeps of a sample."""
    columns: dict[str, sa.ColumnElement[Any]] = {
        name: view.c[name] for name in ("dataset", "sample", "video", "kind", "system", "text")
    }
    columns |= {"question": sample.c.question, "answer": sample.c.answer, "uri": video.c.uri}
    columns["content_sha256"] = sa.func.encode(video.c.content_sha256, "hex", type_=sa.Text)
    return columns | {name: view.c[name] for metric in metrics for name in (metric, f"{metric}_models")}


def _pairs(fields: dict[str, Any]) -> list[Any]:
    return [part for name, column in fields.items() for part in (sa.literal(name), column)]
