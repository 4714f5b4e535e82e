"""Raw rows of a table, one at a time, in the format that the suffix of its file names.

A row that cannot be read is a RawRow with a Reject, and the rows after it are read all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from assets.ingest.csv_reader import read_csv_rows
from assets.ingest.files import OpenFile, open_table
from assets.ingest.json_lines import JSON_LINES, read_json_lines, read_nonblank_lines
from assets.ingest.label_studio import SUFFIX as LABEL_STUDIO
from assets.ingest.label_studio import read_rating_rows
from assets.ingest.manifest_tables import MANIFEST_TABLES
from assets.ingest.named_columns import NO_COLUMNS, name_fields
from assets.ingest.rejects import ManifestError, Reject
from assets.ingest.rows import RawRow

_CSV, _PARQUET, _PART = ".csv", ".parquet", 2**20
SUFFIXES = (JSON_LINES, _CSV, _PARQUET)


def read_table(
    path: Path,
    kind: str | None,
    columns: Mapping[str, str] = NO_COLUMNS,
    note_content: Callable[[bytes], object] = lambda _: None,
) -> Iterator[RawRow]:
    """Yield a RawRow for every row of a table's file, with a Reject for one that cannot be read. The suffix of the path
    names the format, and `kind` is that of the rows. columns: by field, the name of its column. Raises
    ManifestError if the file cannot be read, or changes before the last row is read.

    A file without a kind has mixed rows: it is JSON Lines whose field `kind` names the row's table, or, with the suffix
    `.json`, an export of Label Studio, whose annotations are ratings. note_content: called with all parts of a table's
    content in order, text as UTF-8.
    """
    if kind is None and path.suffix == LABEL_STUDIO:
        yield from read_rating_rows(path)
        return
    if kind is not None and path.suffix not in SUFFIXES:
        raise ManifestError(f"{path.name}: unknown format: use {', '.join(SUFFIXES)}")
    with open_table(path) as file:
        text = _NotedText(file, note_content)
        if kind is None or path.suffix == JSON_LINES:
            yield from read_json_lines(text, path.name, kind, columns)
            return
        types = MANIFEST_TABLES[kind].field_types
        types = {**types, **{column: types[field] for field, column in columns.items() if field in types}}
        if path.suffix == _CSV:
            rows = read_csv_rows(text, path.name, types)
        else:
            from assets.ingest.parquet_reader import read_parquet_rows  # most manifests have none, and it takes long

            while text.read(_PART):  # its rows are read here and there
                pass
            rows = read_parquet_rows(file, path.name, types)
        for line, row, raw in rows:
            content = name_fields(row, columns)
            if isinstance(content, Reject):
                yield RawRow(path.name, line, kind, None, content, raw)
            else:
                yield RawRow(path.name, line, kind, content, None, raw)


class _NotedText:
    """An open file whose parts are passed on to a function as they are read."""

    def __init__(self, file: OpenFile, note_content: Callable[[bytes], object]) -> None:
        self._file = file
        self._note_content = note_content

    def read(self, size: int, /) -> bytes:
        data = self._file.read(size)
        self._note_content(data)
        return data


def count_table_rows(path: Path, kind: str) -> int:
    """Count the rows that `read_table` would yield for a table's file. JSON Lines are counted without being parsed, and
    Parquet states their number. Raises ManifestError if the file cannot be read, or changes meanwhile.
    """
    with open_table(path) as file:
        if path.suffix == JSON_LINES:
            return sum(1 for _ in read_nonblank_lines(file))
        if path.suffix == _CSV:
            return sum(1 for _ in read_csv_rows(file, path.name, MANIFEST_TABLES[kind].field_types))
        from assets.ingest.parquet_reader import count_parquet_rows  # as above

        return count_parquet_rows(file, path.name)
