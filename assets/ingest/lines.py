"""The lines of a file as bytes. Only the line feed ends a line, and a line of any length takes bounded memory."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from typing import NamedTuple, Protocol

# The limit for a row in every format: a line of JSON Lines, a record of CSV, a row of Parquet written as JSON.
MAX_ROW_BYTES = 8 * 2**20
BLOCK_BYTES = 2**18


class ByteReader(Protocol):
    """A file that can be read in blocks: one opened in binary mode, or `OpenFile` of assets/ingest/files.py."""

    def read(self, size: int, /) -> bytes:
        """Return the next bytes, at most `size`; b"" at the end."""


class Line(NamedTuple):
    """A line of a file with its line feed, and its number from 1. A line that is too long is cut, and `is_whole` is
    then False.
    """

    number: int
    data: bytes
    is_whole: bool


def read_lines(file: ByteReader, max_bytes: int = MAX_ROW_BYTES, block_bytes: int = BLOCK_BYTES) -> Iterator[Line]:
    """Yield the lines of a file, without a byte order mark at its beginning. Lines longer than `max_bytes` are cut, so
    that any file takes bounded memory. block_bytes: how many bytes are read at a time.

    >>> [line.data for line in read_lines(io.BytesIO(b"one\\r\\ntwo"))]
    [b'one\\r\\n', b'two']
    """
    number = 0
    for block in _read_blocks(file, max_bytes, block_bytes):
        for data in io.BytesIO(block):
            number += 1
            is_whole = len(data) < max_bytes or (len(data) == max_bytes and data.endswith(b"\n"))
            if not is_whole:
                data = data[:max_bytes]
            yield Line(number, data.removeprefix(codecs.BOM_UTF8) if number == 1 else data, is_whole)


def _read_blocks(file: ByteReader, max_bytes: int, block_bytes: int) -> Iterator[bytes]:
    """Yield consecutive lines of a file as pieces of about `block_bytes`. The end of a line longer than `max_bytes` may
    be left out.
    """
    rest = b""
    while data := file.read(block_bytes):
        rest += data
        if end := rest.rfind(b"\n") + 1:
            block, rest = rest[:end], rest[end:]
            yield block
        if len(rest) >= max_bytes:
            yield rest
            rest = _skip_line(file, block_bytes)
    if rest:
        yield rest


def _skip_line(file: ByteReader, block_bytes: int) -> bytes:
    """Read on to the end of the line, and return the bytes that were read after it."""
    while block := file.read(block_bytes):
        _, end, after = block.partition(b"\n")
        if end:
            return after
    return b""
