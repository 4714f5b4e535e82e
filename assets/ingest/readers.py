"""Raw rows of a table, one at a time, in the format that the suffix of its file names.

A row that cannot be read is a RawRow with a Reject, and the rows after it are read all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from assets.ingest.csv_reader import read_csv_rows
from assets.ingest.files import OpenFile, open_file, open_text_file
from assets.ingest.json_lines import JSON_LINES, read_json_lines, read_nonblank_lines
from assets.ingest.label_studio import SUFFIX as LABEL_STUDIO
from assets.ingest.label_studio import read_rating_rows
from assets.ingest.lines import ByteReader
from assets.ingest.manifest_tables import MANIFEST_TABLES
from assets.ingest.named_columns import NO_COLUMNS, name_fields
from assets.ingest.rejects import ManifestError, Reject
from assets.ingest.rows import RawRow

# For every row its line, its fields or Reject, and its beginning as text that Postgres can store.
_Rows = Iterator[tuple[int, dict[str, Any] | Reject, str]]
_Reader = Callable[[OpenFile, str, Mapping[str, type]], _Rows]


def read_table(path: Path, kind: str | None, columns: Mapping[str, str] = NO_COLUMNS) -> Iterator[RawRow]:
    """Yield a RawRow for every row of a table's file, with a Reject for one that cannot be read. The suffix of the path
    names the format, and `kind` is that of the rows. columns: by field, the name of its column. Raises
    ManifestError if the file cannot be read, or changes before the last row is read.

    A file without a kind has mixed rows: it is JSON Lines whose field `kind` names the row's table, or, with the suffix
    `.json`, an export of Label Studio, whose annotations are ratings.
    """
    if kind is None and path.suffix == LABEL_STUDIO:
        yield from read_rating_rows(path)
        return
    if kind is None or path.suffix == JSON_LINES:
        yield from read_json_lines(path, kind, columns)
        return
    if path.suffix not in SUFFIXES:
        raise ManifestError(f"{path.name}: unknown format: use {', '.join(SUFFIXES)}")
    with open_file(path) if path.suffix == ".parquet" else open_text_file(path) as file:
        types = MANIFEST_TABLES[kind].field_types
        types = {**types, **{column: types[field] for field, column in columns.items() if field in types}}
        for line, row, raw in _READERS[path.suffix](file, path.name, types):
            content = name_fields(row, columns)
            if isinstance(content, Reject):
                yield RawRow(path.name, line, kind, None, content, raw)
            else:
                yield RawRow(path.name, line, kind, content, None, raw)


def count_table_rows(file: ByteReader, path: Path, kind: str) -> int:
    """Count the rows that `read_table` would yield for an open file of JSON Lines or CSV. JSON Lines are counted
    without being parsed; the path gives suffix and name. Raises ManifestError if the header of CSV cannot be used.
    """
    if path.suffix == JSON_LINES:
        return sum(1 for _ in read_nonblank_lines(file))
    return sum(1 for _ in read_csv_rows(file, path.name, MANIFEST_TABLES[kind].field_types))


def _read_parquet_rows(file: OpenFile, name: str, field_types: Mapping[str, type]) -> _Rows:
    from assets.ingest.parquet_reader import read_parquet_rows  # most manifests have no Parquet, and it takes long

    return read_parquet_rows(file, name, field_types)


_READERS: dict[str, _Reader] = {".csv": read_csv_rows, ".parquet": _read_parquet_rows}
SUFFIXES = (JSON_LINES, *_READERS)
