"""A manifest folder as raw rows: the tables that it has, and the rows of a table, one at a time.

A row that cannot be read comes out as a RawRow with a Reject, and the rows after it are read all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from assets.ingest.csv_reader import csv_rows
from assets.ingest.files import file_in, opened, readable
from assets.ingest.hygiene import has_safe_text, shown, storable
from assets.ingest.label_studio import SUFFIX as LABEL_STUDIO
from assets.ingest.label_studio import rating_rows
from assets.ingest.lines import MAX_ROW_BYTES, Block, Line, blocks, lines_in
from assets.ingest.manifest_tables import MANIFEST_TABLES
from assets.ingest.rejects import ManifestError, Reject
from assets.ingest.rows import RawRow
from assets.ingest.strict_json import parse_object

# JSON Lines as raw rows: the blocks of a file, and what each of their lines holds.

# The kind of a row whose table cannot be told.
UNKNOWN_KIND = "unknown"


def blocks_of(path: Path) -> Iterator[Block]:
    """The lines of a file in blocks.

    Raises ManifestError if the file cannot be read, or changes before the last block is read.
    """
    with readable(path), opened(path) as file:
        yield from blocks(file)


def filled_lines(block: Block) -> Iterator[Line]:
    """The lines of a block that hold something, which are the rows."""
    return (line for line in lines_in(block) if line.data.strip())


def json_rows(path: Path, kind: str | None) -> Iterator[RawRow]:
    """The raw rows of a file; without a kind, the field `kind` of each row names its table. Errors: see `blocks_of`."""
    for block in blocks_of(path):
        yield from rows_in(block, path.name, kind)


def rows_in(block: Block, source: str, kind: str | None) -> Iterator[RawRow]:
    """The raw rows of a block of the file `source`, as `json_rows` gives them."""
    for line in filled_lines(block):
        content, raw = fields_of(line), storable(line.data)
        if isinstance(content, Reject):
            yield RawRow(source, line.number, kind or UNKNOWN_KIND, None, content, raw)
            continue
        kind_of_row = kind or content.pop("kind", None)
        if isinstance(kind_of_row, str) and kind_of_row in MANIFEST_TABLES:
            yield RawRow(source, line.number, kind_of_row, content, None, raw, has_safe_text(line.data))
        else:
            kinds = ", ".join(MANIFEST_TABLES)
            reject = Reject("unknown_kind", f"field 'kind' is {shown(kind_of_row)}: use one of {kinds}")
            yield RawRow(source, line.number, UNKNOWN_KIND, None, reject, raw)


def fields_of(line: Line) -> dict[str, Any] | Reject:
    """The fields of a row, or why it has none."""
    if not line.whole:
        return Reject("too_long", f"the line is longer than {MAX_ROW_BYTES} bytes: shorten it")
    return parse_object(line.data)


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

    A file `.json` is an export of Label Studio, whose annotations are ratings. Raises ManifestError if the file cannot
    be read, or changes before the last row is read.
    """
    return rating_rows(path) if path.suffix == LABEL_STUDIO else json_rows(path, None)


def _parquet_rows(path: Path, field_types: Mapping[str, type]) -> _Rows:
    from assets.ingest.parquet_reader import parquet_rows  # processes that check rows do without pyarrow

    return parquet_rows(path, field_types)


_READERS: dict[str, _Reader] = {".csv": csv_rows, ".parquet": _parquet_rows}
SUFFIXES = (JSON_LINES, *_READERS)
