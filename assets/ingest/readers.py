"""Raw rows of a table, one at a time, in the format that the suffix of its file names.

A row that cannot be read is a RawRow with a Reject, and the rows after it are read all the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from assets.ingest.csv_reader import start_csv
from assets.ingest.encodings import UTF_8
from assets.ingest.files import OpenFile, open_table
from assets.ingest.hygiene import format_raw_row, format_value, has_safe_text
from assets.ingest.json_lines import JSON_LINES, read_nonblank_lines, read_objects
from assets.ingest.label_studio import SUFFIX as LABEL_STUDIO
from assets.ingest.label_studio import read_rating_rows
from assets.ingest.manifest_tables import MANIFEST_TABLES
from assets.ingest.rejects import ManifestError, Reject
from assets.ingest.rows import RawRow

_CSV, _PARQUET, _PART = ".csv", ".parquet", 2**20
SUFFIXES = (JSON_LINES, _CSV, _PARQUET)
# The kind of a row whose table is unknown.
_UNKNOWN_KIND = "unknown"
# The names of columns by field, for the fields whose columns have other names.
NO_COLUMNS: Mapping[str, str] = {}


class TableContent:
    """The part of a table's file that `read_table` has read: its encoding, the names of columns in the header of a CSV
    file, and the SHA-256 of all parts, text as UTF-8. `file` is the open file while it is read.
    """

    file: OpenFile

    def __init__(self) -> None:
        self.encoding = UTF_8
        self.columns: list[str] = []
        self._sha256 = hashlib.sha256()

    def read(self, size: int, /) -> bytes:
        """Read the next part of the file, of up to `size` bytes, and note it as read."""
        part = self.file.read(size)
        self._sha256.update(part)
        self.encoding = self.file.encoding
        return part

    def compute_sha256(self) -> bytes:
        """Return the digest of the parts read so far, 32 bytes."""
        return self._sha256.digest()


def read_table(
    path: Path, kind: str | None, columns: Mapping[str, str] = NO_COLUMNS, content: TableContent | None = None
) -> Iterator[RawRow]:
    """Yield a RawRow for every row of a table's file, with a Reject for one that cannot be read. The suffix of the path
    names the format, and `kind` is that of the rows. columns: by field, the name of its column. Raises
    ManifestError if the file cannot be read, or changes before the last row is read.

    A file without a kind has mixed rows: it is JSON Lines whose field `kind` names the row's table, or, with the suffix
    `.json`, an export of Label Studio, whose annotations are ratings. content: is filled as the file is read.
    """
    content = content or TableContent()
    if kind is None and path.suffix == LABEL_STUDIO:
        yield from read_rating_rows(path)
        return
    if kind is not None and path.suffix not in SUFFIXES:
        raise ManifestError(f"{path.name}: unknown format: use {', '.join(SUFFIXES)}")
    with open_table(path) as file:
        content.file = file
        types = MANIFEST_TABLES[kind].field_types if kind else {}
        types = {**types, **{column: types[field] for field, column in columns.items() if field in types}}
        for line, row, raw, is_safe in _read_rows(content, path.name, path.suffix if kind else JSON_LINES, types):
            fields = _name_fields(row, columns)
            kind_of_row = kind or (None if isinstance(fields, Reject) else fields.pop("kind", None))
            if isinstance(fields, Reject):
                yield RawRow(path.name, line, kind or _UNKNOWN_KIND, None, fields, raw)
            elif isinstance(kind_of_row, str) and kind_of_row in MANIFEST_TABLES:
                yield RawRow(path.name, line, kind_of_row, fields, None, raw, is_safe)
            else:
                kinds = ", ".join(MANIFEST_TABLES)
                reject = Reject("unknown_kind", f"field 'kind' is {format_value(kind_of_row)}: use one of {kinds}")
                yield RawRow(path.name, line, _UNKNOWN_KIND, None, reject, raw)


def _read_rows(
    content: TableContent, name: str, suffix: str, types: Mapping[str, type]
) -> Iterator[tuple[int, dict[str, Any] | Reject, str, bool]]:
    """Yield for every row its line, its fields or a Reject, its beginning as text that Postgres can store, and whether
    its texts need no check.
    """
    if suffix == _CSV:
        content.columns, rows = start_csv(content, name, field_types=types)
        for number, row, raw in rows:
            yield number, row, raw, False
    elif suffix == _PARQUET:
        from assets.ingest.parquet_reader import read_parquet_rows  # most manifests have none, and it takes long

        while content.read(_PART):
            pass
        # The rows are read here and there in the file.
        for number, row, raw in read_parquet_rows(content.file, name, types):
            yield number, row, raw, False
    else:
        for line, row in read_objects(content):
            yield line.number, row, format_raw_row(line.data), has_safe_text(line.data)


def _name_fields(row: dict[str, Any] | Reject, columns: Mapping[str, str]) -> dict[str, Any] | Reject:
    """Return a row with the names of fields in place of those of its columns. columns: by field, the name of its
    column. A row with two columns of a field becomes a Reject; a Reject comes back unchanged.

    >>> _name_fields({"caption_id": "a", "Satz": "A dog."}, {"text": "Satz"})
    {'caption_id': 'a', 'text': 'A dog.'}
    """
    if not columns or isinstance(row, Reject):
        return row
    for field, column in columns.items():
        if field in row and column in row and field != column:
            reason = f"field {field!r} is in columns {field!r} and {column!r}: rename one of them"
            return Reject("duplicate_key", reason)
    fields = {column: field for field, column in columns.items()}
    return {fields.get(name, name): value for name, value in row.items()}


def count_table_rows(path: Path, kind: str) -> int:
    """Count the rows that `read_table` would yield for a table's file. JSON Lines are counted without being parsed, and
    Parquet states their number. Raises ManifestError if the file cannot be read, or changes meanwhile.
    """
    with open_table(path) as file:
        if path.suffix == JSON_LINES:
            return sum(1 for _ in read_nonblank_lines(file))
        if path.suffix == _CSV:
            return sum(1 for _ in start_csv(file, path.name, field_types=MANIFEST_TABLES[kind].field_types)[1])
        from assets.ingest.parquet_reader import count_parquet_rows  # as above

        return count_parquet_rows(file, path.name)
