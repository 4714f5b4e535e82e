"""The lines of a file as bytes. Only the line feed ends a line, and a line of any length takes bounded memory."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import NamedTuple, Protocol

# The limit for a row in every format: a line of JSON Lines, a record of CSV, a row of Parquet written as JSON.
MAX_ROW_BYTES = 8 * 2**20


class Lines(Protocol):
    """A file that can be read line by line: one opened in binary mode, or `Beginning` of assets/ingest/files.py."""

    def readline(self, size: int, /) -> bytes:
        """The rest of the current line with its line feed, at most `size` bytes of it; b"" at the end."""


class Line(NamedTuple):
    """A line with its line feed and its number from 1. A line that is too long is cut and not `whole`."""

    number: int
    data: bytes
    whole: bool


def bounded_lines(file: Lines) -> Iterator[Line]:
    """The lines of a file. A byte order mark at the beginning of the file is left out.

    >>> import io
    >>> [line.data for line in bounded_lines(io.BytesIO(b"one\\r\\ntwo"))]
    [b'one\\r\\n', b'two']
    """
    number = 0
    while data := file.readline(MAX_ROW_BYTES):
        number += 1
        whole = len(data) < MAX_ROW_BYTES or data.endswith(b"\n")
        if not whole:
            _skip_rest(file)
        yield Line(number, data.removeprefix(codecs.BOM_UTF8) if number == 1 else data, whole)


def _skip_rest(file: Lines) -> None:
    while (data := file.readline(2**16)) and not data.endswith(b"\n"):
        pass
