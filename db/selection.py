"""Selections: frozen subsets with their rows, rule, cutoff and score hash."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine, RowMapping

from db import schema
from db.filters import parse_filter
from db.freezing import FROZEN, Size, choose, forget_chosen, freeze_chosen, size_of, size_of_all
from db.manifest import Dataset
from db.present import (
    active_scorers,
    compared_scores,
    known_metrics,
    prepare_for_stored_scores,
    sample_scores,
    stored_scores,
)
from db.schema import selection, selection_item
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


def freeze_selection(
    connection: Connection, dataset: Dataset, *, by: str, keep: float, where: str | None = None
) -> Selection:
    """Freeze the best `keep` (0 < keep <= 1) of the samples that have a score `by` and pass `where`.

    The number of rows is floor(keep * eligible), at least 1; ties are broken by kind and sample id, so the same scores
    always give the same selection, and giving the same rule twice returns the first selection. Needs one transaction.
    Raises SelectionError, or FilterError for a `where` that is not allowed.
    """
    # One snapshot for all statements, while others still score. The lock comes before it: two processes may freeze at
    # once, and the second one waits here, then finds the selection of the first. An advisory lock would do too, but the
    # reader could take it.
    connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    connection.exec_driver_sql("LOCK TABLE selection IN SHARE ROW EXCLUSIVE MODE")
    metrics = known_metrics(connection)
    if by not in metrics:
        raise SelectionError(f"there is no metric {by!r}: choose one of {', '.join(metrics)}")
    if not 0 < keep <= 1:
        raise SelectionError(f"keep is {keep:g}: give the share to keep, above 0 and at most 1")
    names = [column.name for column in sample_scores(metrics).columns if column.name != "sample_id"]
    prepare_for_views(connection)
    scorers = active_scorers(connection, dataset)
    stored = stored_scores(dataset, by, metrics, scorers)
    scores = stored or compared_scores(dataset, metrics)
    if stored is not None:
        prepare_for_stored_scores(connection)
    condition = parse_filter(where, {name: scores.columns[name] for name in names}) if where else None
    if stored is not None and condition is None:
        size = size_of_all(connection, scores, by, keep, scorers[by].n_defined)
    else:
        size = size_of(connection, scores, by, keep, condition)
    if size is None:
        remedy = (
            f" and passes {where!r}: loosen it" if where else f": run reelsieve score --dataset {dataset.name} first"
        )
        raise NothingToSelect(f"no sample of dataset {dataset.name!r} has a {by} score{remedy}")
    score_hash = choose(connection, scores, by, size, condition, metrics)
    spec = {"by": by, "keep": keep, "where": where, "scorer": scorers[by].fingerprint}
    existing = _existing(connection, dataset, score_hash, spec)
    models = {metric: scorers[metric].models if metric in scorers else None for metric in metrics}
    selection_id = existing or _add(connection, dataset, size, score_hash, spec, models)
    forget_chosen(connection)
    return Selection(selection_id, size.n, size.n_eligible, size.cutoff, score_hash, existing is None)


def _existing(connection: Connection, dataset: Dataset, score_hash: str, spec: dict[str, Any]) -> int | None:
    """The stored selection of the same rows by the same rule."""
    same = sa.and_(
        selection.c.dataset_id == dataset.dataset_id, selection.c.score_hash == score_hash, selection.c.spec == spec
    )
    return connection.execute(sa.select(selection.c.selection_id).where(same).limit(1)).scalar_one_or_none()


def _add(
    connection: Connection,
    dataset: Dataset,
    size: Size,
    score_hash: str,
    spec: dict[str, Any],
    models: Mapping[str, str | None],
) -> int:
    """Store the chosen rows as a new selection; its id."""
    row = {
        "dataset_id": dataset.dataset_id,
        "n": size.n,
        "cutoff": size.cutoff,
        "score_hash": score_hash,
        "spec": spec,
        "metrics": list(models),
        "models": list(models.values()),
    }
    added = sa.insert(selection).values(row).returning(selection.c.selection_id)
    selection_id: int = connection.execute(added).scalar_one()
    freeze_chosen(connection, selection_id)
    return selection_id


def find_selection(connection: Connection, selection_id: int) -> RowMapping | None:
    """The stored selection, or None."""
    return (
        connection.execute(sa.select(selection).where(selection.c.selection_id == selection_id))
        .mappings()
        .one_or_none()
    )


def selection_rows(engine: Engine, selection_id: int, batch_size: int = 5000) -> Iterator[list[dict[str, Any]]]:
    """The frozen rows in order of rank, in batches."""
    columns = [selection_item.c[name] for name in ("rank", "value", *FROZEN, "scores", "is_scored")]
    query = sa.select(*columns).where(selection_item.c.selection_id == selection_id).order_by(selection_item.c.rank)
    of_selection = sa.select(schema.dataset.c.name, selection.c.metrics, selection.c.models).join(schema.dataset)
    with engine.connect().execution_options(stream_results=True, yield_per=batch_size) as connection:
        common = connection.execute(of_selection.where(selection.c.selection_id == selection_id)).one_or_none()
        if common is not None:
            for part in connection.execute(query).partitions():
                yield [_frozen(row, common) for row in part]


def frozen_types(names: Collection[str]) -> dict[str, type]:
    """The Python types of the columns of frozen rows, by name; these names tell which metrics the rows have."""
    metrics = [name for name in names if f"{name}_models" in names]
    texts = ("dataset", *FROZEN, *[f"{metric}_models" for metric in metrics])
    return {"rank": int, **dict.fromkeys(texts, str), **dict.fromkeys(("value", *metrics), float)}


def _frozen(row: Any, common: Any) -> dict[str, Any]:
    digest = row.content_sha256
    frozen = {
        "rank": row.rank,
        "value": row.value,
        "dataset": common.name,
        **{name: getattr(row, name) for name in FROZEN},
        "content_sha256": None if digest is None else bytes(digest).hex(),
    }
    for metric, models, score, is_scored in zip(common.metrics, common.models, row.scores, row.is_scored, strict=True):
        frozen |= {metric: score, f"{metric}_models": models if is_scored else None}
    return frozen
