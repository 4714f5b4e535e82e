"""What a writer needs of a selection: its columns, its rows in batches, its passport."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import version
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from assets.sources.base import Tell
from db.selection.exports import (
    Column,
    FrozenSelection,
    export_batches,
    export_columns,
    export_query,
    frozen_selection,
    media_root,
)
from db.selection.provenance import count_rows, dataset_thresholds, scorers_behind
from db.selection.recipes import SelectionError

# The passport of an export: which selection it is, by which recipe, and who made its numbers.

KEY = "reelsieve"
"""Where a Parquet file keeps its passport among the metadata of its schema."""
# Of a selection's row: what a passport says elsewhere, or what means nothing outside the database.
_ELSEWHERE = ("spec", "metrics", "models", "dataset_id", "dataset_name")


def make_passport(
    connection: Connection, frozen: FrozenSelection, columns: Sequence[Column], form: str
) -> dict[str, Any]:
    """The passport as plain data: selection, recipe, scorers, thresholds, counts, columns, format and date.

    Every column of the selection's row stands in it, whichever there are; the recipe is the stored one, unchanged.
    """
    scorers = scorers_behind(connection, frozen)
    return as_plain_data(
        {
            "selection": {name: value for name, value in frozen.record.items() if name not in _ELSEWHERE},
            "recipe": frozen.record["spec"],
            "scorers": scorers,
            **dataset_thresholds(connection, frozen, [scorer["scorer_id"] for scorer in scorers]),
            "counts": count_rows(connection, frozen),
            "columns": {column.name: column.meaning for column in columns},
            "format": form,
            "exported_at": datetime.now(timezone.utc),
            "reelsieve": version("reelsieve"),
        }
    )


def as_json(passport: Mapping[str, Any]) -> str:
    """The passport as text, indented for people."""
    return json.dumps(passport, ensure_ascii=False, indent=2) + "\n"


def as_plain_data(value: Any) -> Any:
    """The same with times as text in ISO 8601, and bytes as hexadecimal digits."""
    if isinstance(value, Mapping):
        return {str(name): as_plain_data(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [as_plain_data(part) for part in value]
    if isinstance(value, datetime):
        return value.isoformat()
    return bytes(value).hex() if isinstance(value, bytes | memoryview) else value


Batch = Sequence[Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Reading:
    """A selection that is to be written: `query` gives rows in the order of `columns`.

    root: the folder of this machine that media addresses are relative to; it stands in no export.
    """

    frozen: FrozenSelection
    columns: tuple[Column, ...]
    query: sa.Select[Any]
    root: str | None
    passport: Mapping[str, Any]


def prepare(connection: Connection, selection_id: int, form: str) -> Reading:
    """Look at a selection before it is written. Raises SelectionError for one that is unknown."""
    frozen = frozen_selection(connection, selection_id)
    if frozen is None:
        raise SelectionError(f"there is no selection {selection_id}: make one with reelsieve select")
    root = media_root(connection, frozen)
    columns = tuple(export_columns(frozen))
    passport = make_passport(connection, frozen, columns, form)
    return Reading(frozen, columns, export_query(frozen, root), root, passport)


def all_batches(connection: Connection, reading: Reading, tell: Tell) -> Iterator[Batch]:
    """All rows in order, with a line of progress for every batch. Raises SelectionError where rows are missing."""
    return counted(reading.frozen, export_batches(connection, reading.query), tell)


def counted(frozen: FrozenSelection, batches: Iterable[Batch], tell: Tell, before: int = 0) -> Iterator[Batch]:
    """The batches; at their end an error unless they and the rows `before` are as many as were frozen."""
    n = before
    for batch in batches:
        n += len(batch)
        yield batch
        tell(f"{n:,} of {frozen.n:,} rows")
    if n != frozen.n:
        raise SelectionError(
            f"selection {frozen.selection_id} has {n} of its {frozen.n} rows, because someone deleted the others: make "
            "it anew with reelsieve select"
        )
