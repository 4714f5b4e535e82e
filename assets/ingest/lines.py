"""Lines of a file as bytes, separated by the line feed alone, in bounded memory however long a line is."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

MAX_LINE_BYTES = 8 * 2**20


class Line(NamedTuple):
    """A line with its line feed, counted from 1; of one that is too long only the beginning, not whole."""

    number: int
    data: bytes
    whole: bool


def bounded_lines(file: BinaryIO) -> Iterator[Line]:
    """The lines of a file opened in binary mode, without a byte order mark at its beginning.

    >>> import io
    >>> [line.data for line in bounded_lines(io.BytesIO(b"one\\r\\ntwo"))]
    [b'one\\r\\n', b'two']
    """
    number = 0
    while data := file.readline(MAX_LINE_BYTES):
        number += 1
        whole = len(data) < MAX_LINE_BYTES or data.endswith(b"\n")
        if not whole:
            _skip_rest(file)
        yield Line(number, data.removeprefix(codecs.BOM_UTF8) if number == 1 else data, whole)


def _skip_rest(file: BinaryIO) -> None:
    while (data := file.readline(2**16)) and not data.endswith(b"\n"):
        pass
