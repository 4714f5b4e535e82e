"""Loads a selection to be exported: its columns, its rows in batches, and its passport."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from assets.progress import LineWriter
from assets.selection.passport import make_passport
from assets.words.text import format_count
from db.selection.exports import (
    ExportColumn,
    FrozenSelection,
    build_export_columns,
    build_export_query,
    find_frozen_selection,
    find_media_root,
)
from db.selection.recipes import SelectionError

Batch = Sequence[Sequence[Any]]


@dataclass(frozen=True, slots=True)
class ExportInput:
    """A frozen selection that is to be exported: its columns, a query that returns its rows in order of rank, and its
    passport. media_root: the folder of this machine that media addresses are relative to, None without local files; no
    export contains it.
    """

    frozen: FrozenSelection
    columns: tuple[ExportColumn, ...]
    query: sa.Select[Any]
    media_root: str | None
    passport: Mapping[str, Any]


def load_export_input(connection: Connection, selection_id: int, form: str) -> ExportInput:
    """Load the columns, the query of the rows and the passport of a selection. form: name of the format, for the
    passport. Raises SelectionError for an unknown selection. Rows are not read yet.
    """
    frozen = find_frozen_selection(connection, selection_id)
    if frozen is None:
        raise SelectionError(f"there is no selection {selection_id}: make one with reelsieve select")
    root = find_media_root(connection, frozen)
    columns = tuple(build_export_columns(frozen))
    passport = make_passport(connection, frozen, columns, form)
    return ExportInput(frozen, columns, build_export_query(frozen, root), root, passport)


def require_all_rows(frozen: FrozenSelection, batches: Iterable[Batch], tell: LineWriter) -> Iterator[Batch]:
    """Yield the given batches of rows, and raise SelectionError at the end unless they have as many rows as were
    frozen. tell: called with a line of progress after every batch.
    """
    n = 0
    for batch in batches:
        n += len(batch)
        yield batch
        tell(f"{n:,} of {format_count(frozen.n, 'row')}")
    if n != frozen.n:
        raise SelectionError(
            f"selection {frozen.selection_id} has only {n:,} of its {format_count(frozen.n, 'row')}, because others "
            "were deleted: make it again with reelsieve select"
        )
