"""Writes JSON Lines: an object for every row, with every column; own fields and times are objects."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO

from assets.selection.export_input import Batch
from db.selection.exports import ExportColumn


def write_json_lines(file: BinaryIO, columns: Sequence[ExportColumn], batches: Iterable[Batch]) -> None:
    """Write rows to a binary file as UTF-8, each on its line as a JSON object with a field for every column. batches:
    rows with a value for every column, in their order; columns that hold JSON text are parsed.
    """
    for batch in batches:
        file.writelines((format_json_line(row) + "\n").encode() for row in build_row_objects(columns, batch))


def build_row_objects(columns: Sequence[ExportColumn], batch: Batch) -> Iterator[dict[str, Any]]:
    """Yield the rows of a batch as dicts by column name. Columns of kind "json" are parsed; None stays None."""
    names = [column.name for column in columns]
    of_json = [column.name for column in columns if column.kind == "json"]
    for row in batch:
        row_object = dict(zip(names, row, strict=True))
        row_object |= {name: json.loads(row_object[name]) for name in of_json if row_object[name] is not None}
        yield row_object


def format_json_line(row: dict[str, Any]) -> str:
    """Return a row, a dict by column, as JSON text without a line break. Characters outside ASCII stay as they are."""
    return json.dumps(row, ensure_ascii=False)
