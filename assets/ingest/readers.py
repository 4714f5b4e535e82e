"""A manifest folder as raw rows: the tables that it has, and the rows of a table, one at a time.

A row that cannot be read comes out as a RawRow with a Reject, and the rows after it are read all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from assets.ingest.csv_reader import csv_rows
from assets.ingest.files import file_in, readable
from assets.ingest.json_lines import blocks_of, filled_lines, json_rows
from assets.ingest.manifest_tables import MANIFEST_TABLES
from assets.ingest.parquet_reader import parquet_rows
from assets.ingest.rejects import ManifestError, Reject
from assets.ingest.rows import RawRow

__all__ = ["ManifestError", "count_rows", "find_tables", "read_mixed", "read_table"]

JSON_LINES = ".jsonl"

# For every row its line, its fields or refusal, and its beginning as text that Postgres can store.
_Rows = Iterator[tuple[int, dict[str, Any] | Reject, str]]
_Reader = Callable[[Path, Mapping[str, type]], _Rows]


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
        paths = [path for suffix in SUFFIXES if (path := file_in(folder, f"{name}{suffix}")) is not None]
        if len(paths) > 1:
            names = " and ".join(path.name for path in paths)
            raise ManifestError(f"{folder}: table {name} is there twice, as {names}: keep one of them")
        if paths:
            paths_by_kind[kind] = paths[0]
        elif table.is_required:
            own_data = f", or let reelsieve init {folder} make a manifest of what lies there" if kind == "video" else ""
            raise ManifestError(f"{folder}: table {name} is missing: add {name}.jsonl, .csv or .parquet{own_data}")
    return paths_by_kind


def read_table(path: Path, kind: str) -> Iterator[RawRow]:
    """The raw rows of the table whose rows are of this kind, read in the format that the file's suffix names.

    Raises ManifestError if the file cannot be read, or changes before the last row is read.
    """
    if path.suffix not in SUFFIXES:
        raise ManifestError(f"{path.name}: unknown format: use {', '.join(SUFFIXES)}")
    if path.suffix == JSON_LINES:
        yield from json_rows(path, kind)
        return
    with readable(path):
        for line, content, raw in _READERS[path.suffix](path, MANIFEST_TABLES[kind].field_types):
            if isinstance(content, Reject):
                yield RawRow(path.name, line, kind, None, content, raw)
            else:
                yield RawRow(path.name, line, kind, content, None, raw)


def count_rows(path: Path, kind: str) -> int:
    """How many rows `read_table` gives, with the same errors. JSON Lines are counted without being parsed."""
    if path.suffix != JSON_LINES:
        return sum(1 for _ in read_table(path, kind))
    return sum(1 for block in blocks_of(path) for _ in filled_lines(block))


def read_mixed(path: Path) -> Iterator[RawRow]:
    """The raw rows of a JSON Lines file in which the field `kind` names the table that a row belongs to.

    Raises ManifestError if the file cannot be read, or changes before the last row is read.
    """
    return json_rows(path, None)


_READERS: dict[str, _Reader] = {".csv": csv_rows, ".parquet": parquet_rows}
SUFFIXES = (JSON_LINES, *_READERS)
