"""One pass over a table's file before its rows are read: a digest of its content, and how many rows it has."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

from assets.ingest.files import FileVersion, OpenFile, open_file
from assets.ingest.readers import count_rows

_PART_BYTES = 2**20


class Look(NamedTuple):
    """What a look at a file has shown. n_rows: None where they were not counted."""

    version: FileVersion
    content_sha256: bytes
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


def look_at(path: Path, kind: str, *, counts_rows: bool = False) -> Look:
    """Read a table's file once. Raises ManifestError if it cannot be read, or its rows cannot be counted.

    Parquet says itself how many rows it has.
    """
    with open_file(path) as file:
        lines = _HashedLines(file)
        n_rows = None
        if counts_rows:
            n_rows = _parquet_count(file, path.name) if path.suffix == ".parquet" else count_rows(lines, path, kind)
        while lines.read(_PART_BYTES):
            pass
        return Look(file.version, lines.digest.digest(), n_rows)


def _parquet_count(file: OpenFile, name: str) -> int:
    from assets.ingest.parquet_reader import count_parquet_rows  # pyarrow is slow to import

    n_rows = count_parquet_rows(file, name)
    file.rewind()
    return n_rows
