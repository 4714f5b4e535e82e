"""The content of a table's file as a whole, read in one pass before its rows: its digest and its number of rows."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

from assets.ingest.files import FileVersion, OpenFile, open_file, open_text_file
from assets.ingest.readers import count_table_rows

_PART_BYTES = 2**20


class TableContent(NamedTuple):
    """The content of a table's file: its version, its SHA-256 (32 bytes), and its number of rows or None if not
    counted.
    """

    version: FileVersion
    sha256: bytes
    n_rows: int | None


class _HashedLines:
    """An open file whose parts are hashed as they are read."""

    def __init__(self, file: OpenFile) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def read(self, size: int, /) -> bytes:
        data = self._file.read(size)
        self.digest.update(data)
        return data


def read_table_content(path: Path, kind: str, *, counts_rows: bool = False) -> TableContent:
    """Read a table's file once and return its version, its SHA-256 and, with counts_rows, its number of rows. kind: of
    the rows. Raises ManifestError if the file cannot be read, if it changes meanwhile, or if its rows cannot be
    counted.

    Parquet states its number of rows itself.
    """
    with open_file(path) if path.suffix == ".parquet" else open_text_file(path) as file:
        lines = _HashedLines(file)
        n_rows = None
        if counts_rows:
            n_rows = (
                _parquet_count(file, path.name) if path.suffix == ".parquet" else count_table_rows(lines, path, kind)
            )
        while lines.read(_PART_BYTES):
            pass
        return TableContent(file.version, lines.digest.digest(), n_rows)


def _parquet_count(file: OpenFile, name: str) -> int:
    from assets.ingest.parquet_reader import count_parquet_rows  # pyarrow is slow to import

    n_rows = count_parquet_rows(file, name)
    file.rewind()
    return n_rows
