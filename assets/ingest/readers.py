"""A manifest folder as raw rows: the tables that it has, and the rows of a table, one at a time.

A row that cannot be read comes out as a RawRow with a Reject, and the rows after it are read all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from assets.ingest.csv_reader import csv_rows
from assets.ingest.files import file_in, opened, readable
from assets.ingest.hygiene import shown, storable
from assets.ingest.lines import MAX_ROW_BYTES, Line, bounded_lines
from assets.ingest.manifest_tables import MANIFEST_TABLES, ManifestTable
from assets.ingest.parquet_reader import parquet_rows
from assets.ingest.rejects import ManifestError, Reject
from assets.ingest.rows import RawRow
from assets.ingest.strict_json import parse_object

__all__ = ["UNKNOWN_KIND", "ManifestError", "count_rows", "find_tables", "read_mixed", "read_table"]

# The kind of a row whose table cannot be told.
UNKNOWN_KIND = "unknown"

# For every row its line, its fields or refusal, and its beginning as text that Postgres can store.
_Rows = Iterator[tuple[int, dict[str, Any] | Reject, str]]
_Reader = Callable[[Path, ManifestTable], _Rows]


def find_tables(folder: Path) -> dict[str, Path]:
    """The files of the folder's tables by the kind of their rows, in the order of ingest.

    Raises ManifestError if the folder or a required table is missing, or if a table has files in two formats or is not
    a regular file inside the folder.
    """
    if not folder.is_dir():
        raise ManifestError(f"{folder}: no such folder: give the folder that holds the manifest's tables")
    paths_by_kind: dict[str, Path] = {}
    for kind, table in MANIFEST_TABLES.items():
        name = table.name
        paths = [path for suffix in _READERS if (path := file_in(folder, f"{name}{suffix}")) is not None]
        if len(paths) > 1:
            names = " and ".join(path.name for path in paths)
            raise ManifestError(f"{folder}: table {name} is there twice, as {names}: keep one of them")
        if paths:
            paths_by_kind[kind] = paths[0]
        elif table.is_required:
            raise ManifestError(f"{folder}: table {name} is missing: add {name}.jsonl, .csv or .parquet")
    return paths_by_kind


def read_table(path: Path, kind: str) -> Iterator[RawRow]:
    """The raw rows of the table whose rows are of this kind, read in the format that the file's suffix names.

    Raises ManifestError if the file cannot be read, or changes before the last row is read.
    """
    reader = _READERS.get(path.suffix)
    if reader is None:
        raise ManifestError(f"{path.name}: unknown format: use {', '.join(_READERS)}")
    with readable(path):
        for line, content, raw in reader(path, MANIFEST_TABLES[kind]):
            if isinstance(content, Reject):
                yield RawRow(path.name, line, kind, None, content, raw)
            else:
                yield RawRow(path.name, line, kind, content, None, raw)


def count_rows(path: Path, kind: str) -> int:
    """How many rows `read_table` gives, with the same errors. JSON Lines are counted without being parsed."""
    if path.suffix != ".jsonl":
        return sum(1 for _ in read_table(path, kind))
    with readable(path):
        return sum(1 for _ in _lines(path))


def read_mixed(path: Path) -> Iterator[RawRow]:
    """The raw rows of a JSON Lines file in which the field `kind` names the table that a row belongs to.

    Raises ManifestError if the file cannot be read, or changes before the last row is read.
    """
    with readable(path):
        for line, content, raw in _json_lines(path):
            if isinstance(content, Reject):
                yield RawRow(path.name, line, UNKNOWN_KIND, None, content, raw)
                continue
            kind = content.pop("kind", None)
            if isinstance(kind, str) and kind in MANIFEST_TABLES:
                yield RawRow(path.name, line, kind, content, None, raw)
            else:
                reject = Reject(
                    "unknown_kind", f"field 'kind' is {shown(kind)}: use one of {', '.join(MANIFEST_TABLES)}"
                )
                yield RawRow(path.name, line, UNKNOWN_KIND, None, reject, raw)


def _json_lines(path: Path, _: ManifestTable | None = None) -> _Rows:
    """The rows of a JSON Lines file. JSON has types of its own, so the table does not matter."""
    for line in _lines(path):
        yield line.number, _fields(line), storable(line.data)


def _lines(path: Path) -> Iterator[Line]:
    with opened(path) as file:
        yield from (line for line in bounded_lines(file) if line.data.strip())


def _fields(line: Line) -> dict[str, Any] | Reject:
    if not line.whole:
        return Reject("too_long", f"the line is longer than {MAX_ROW_BYTES} bytes: shorten it")
    return parse_object(line.data)


_READERS: dict[str, _Reader] = {
    ".jsonl": _json_lines,
    ".csv": csv_rows,
    ".parquet": parquet_rows,
}
