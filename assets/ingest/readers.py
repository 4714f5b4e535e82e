"""A manifest folder as a stream of raw rows: which tables it has, and the rows of each, one at a time.

No row can stop the rows after it: what cannot be read comes out as a RawRow that carries a Reject.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from assets.ingest.csv_reader import csv_rows
from assets.ingest.hygiene import shown, storable
from assets.ingest.lines import MAX_LINE_BYTES, Line, bounded_lines
from assets.ingest.parquet_reader import parquet_rows
from assets.ingest.rejects import ManifestError, Reject
from assets.ingest.rows import RawRow
from assets.ingest.strict_json import parse_object

__all__ = ["TABLES", "UNKNOWN_KIND", "ManifestError", "count_rows", "find_tables", "read_mixed", "read_table"]

# Kind of row -> name of its table, in the order of ingest: what is pointed to comes before what points to it.
TABLES: dict[str, str] = {
    "video": "videos",
    "caption": "captions",
    "keypoint": "keypoints",
    "keypoint_label": "keypoint_labels",
    "qa": "qa",
    "rating": "ratings",
}
REQUIRED_KINDS = ("video", "caption")
UNKNOWN_KIND = "unknown"

# Line, fields or refusal, and the storable beginning of a row.
_Rows = Iterator[tuple[int, dict[str, Any] | Reject, str]]
_Reader = Callable[[Path, str], _Rows]


def find_tables(folder: Path) -> dict[str, Path]:
    """The file of every kind of row that the folder has, in the order of ingest.

    Raises ManifestError if the folder or a required table is missing, or a table is there in two formats.
    """
    if not folder.is_dir():
        raise ManifestError(f"{folder}: no such folder: give the folder that holds the manifest's tables")
    tables: dict[str, Path] = {}
    for kind, name in TABLES.items():
        found = [path for suffix in _READERS if (path := folder / f"{name}{suffix}").is_file()]
        if len(found) > 1:
            names = " and ".join(path.name for path in found)
            raise ManifestError(f"{folder}: table {name} is there twice, as {names}: keep one of them")
        if found:
            tables[kind] = found[0]
        elif kind in REQUIRED_KINDS:
            raise ManifestError(f"{folder}: table {name} is missing: add {name}.jsonl, .csv or .parquet")
    return tables


def read_table(path: Path, kind: str) -> Iterator[RawRow]:
    """The rows of one table, in the format of the file's suffix. Raises ManifestError if unreadable."""
    reader = _READERS.get(path.suffix)
    if reader is None:
        raise ManifestError(f"{path.name}: unknown format: use {', '.join(_READERS)}")
    with readable(path):
        for line, content, raw in reader(path, kind):
            if isinstance(content, Reject):
                yield RawRow(path.name, line, kind, None, content, raw)
            else:
                yield RawRow(path.name, line, kind, content, None, raw)


def count_rows(path: Path, kind: str) -> int:
    """How many rows `read_table` gives; JSON Lines are counted without being parsed. Raises ManifestError."""
    if path.suffix != ".jsonl":
        return sum(1 for _ in read_table(path, kind))
    with readable(path):
        return sum(1 for _ in _lines(path))


def read_mixed(path: Path) -> Iterator[RawRow]:
    """The rows of a JSON Lines file whose field `kind` says which table each row belongs to."""
    with readable(path):
        for line, content, raw in _json_lines(path, UNKNOWN_KIND):
            if isinstance(content, Reject):
                yield RawRow(path.name, line, UNKNOWN_KIND, None, content, raw)
                continue
            kind = content.pop("kind", None)
            if isinstance(kind, str) and kind in TABLES:
                yield RawRow(path.name, line, kind, content, None, raw)
            else:
                reject = Reject("unknown_kind", f"field 'kind' is {shown(kind)}: use one of {', '.join(TABLES)}")
                yield RawRow(path.name, line, UNKNOWN_KIND, None, reject, raw)


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Make an error of the file system a ManifestError that names the file."""
    try:
        yield
    except OSError as error:
        raise ManifestError(f"{path.name}: cannot be read: {error.strerror or error}") from error


def _json_lines(path: Path, _: str) -> _Rows:
    """JSON has its own types, so the kind of row does not matter."""
    for line in _lines(path):
        yield line.number, _fields(line), storable(line.data)


def _lines(path: Path) -> Iterator[Line]:
    with path.open("rb") as file:
        yield from (line for line in bounded_lines(file) if line.data.strip())


def _fields(line: Line) -> dict[str, Any] | Reject:
    if not line.whole:
        return Reject("too_long", f"the line is longer than {MAX_LINE_BYTES} bytes: shorten it")
    return parse_object(line.data)


_READERS: dict[str, _Reader] = {
    ".jsonl": _json_lines,
    ".csv": csv_rows,
    ".parquet": parquet_rows,
}
