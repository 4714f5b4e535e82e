"""Frozen selections as they are stored: the list of them, and their rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine, RowMapping

from db.schema import selection, selection_item
from db.selection.freeze import FROZEN_COLUMNS
from db.selection.recipes import SelectionError


def list_selections(connection: Connection, dataset: str | None = None) -> list[dict[str, Any]]:
    """List all selections as dicts with id, dataset, recipe, counts, cutoff, hash and time, newest first. With
    `dataset`, only those of datasets of this name. `dataset_id` is None if the dataset was dropped.
    """
    columns = (
        *("selection_id", "dataset_id", "dataset_name", "n", "n_eligible", "cutoff"),
        *("spec", "score_hash", "created_at"),
    )
    query = sa.select(*[selection.c[name] for name in columns]).order_by(selection.c.selection_id.desc())
    if dataset is not None:
        query = query.where(selection.c.dataset_name == dataset)
    return [dict(row) for row in connection.execute(query).mappings()]


def require_selection(connection: Connection, selection_id: int) -> RowMapping:
    """Return the row of table `selection` with this number. Raises SelectionError if there is none."""
    row = connection.execute(sa.select(selection).where(build_id_condition(selection_id))).mappings().one_or_none()
    if row is None:
        raise SelectionError(f"there is no selection {selection_id}: run reelsieve selections to list them")
    return row


def build_id_condition(selection_id: int) -> sa.ColumnElement[bool]:
    """Return the SQL condition that a row of table `selection` has this number. A number too large for a bigint matches
    no row and raises nothing.
    """
    return selection.c.selection_id == sa.literal(selection_id, sa.Numeric)


def load_selection_rows(engine: Engine, selection_id: int, batch_size: int = 5000) -> Iterator[list[dict[str, Any]]]:
    """Yield the frozen rows of a selection as dicts, best rank first, in lists of up to `batch_size`; nothing for an
    unknown selection. A dict has rank, value, dataset, sample and video with their texts, and for every metric
    `<metric>` and `<metric>_models`. Opens a connection of its own.
    """
    columns = [selection_item.c[name] for name in ("rank", "value", *FROZEN_COLUMNS, "scores", "is_scored")]
    query = sa.select(*columns).where(selection_item.c.selection_id == selection_id).order_by(selection_item.c.rank)
    selection_query = sa.select(selection.c.dataset_name, selection.c.metrics, selection.c.models)
    with engine.connect().execution_options(stream_results=True, yield_per=batch_size) as connection:
        common = connection.execute(selection_query.where(selection.c.selection_id == selection_id)).one_or_none()
        if common is not None:
            for part in connection.execute(query).partitions():
                yield [_build_frozen_row(row, common) for row in part]


def _build_frozen_row(row: Any, common: Any) -> dict[str, Any]:
    digest = row.content_sha256
    frozen = {
        "rank": row.rank,
        "value": row.value,
        "dataset": common.dataset_name,
        **{name: getattr(row, name) for name in FROZEN_COLUMNS},
        "content_sha256": None if digest is None else bytes(digest).hex(),
    }
    for metric, models, score, is_scored in zip(common.metrics, common.models, row.scores, row.is_scored, strict=True):
        frozen |= {metric: score, f"{metric}_models": models if is_scored else None}
    return frozen
