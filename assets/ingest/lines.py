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


class Block(NamedTuple):
    """Consecutive lines of a file as one piece of bytes, with the number of the first line, from 1. The block of a line
    that is too long may lack the end of the line.
    """

    number: int
    data: bytes


def read_blocks(file: ByteReader, max_bytes: int = MAX_ROW_BYTES, block_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
    """Yield the lines of a file in blocks of about `block_bytes`, in order. The end of a line longer than `max_bytes`
    may be left out.

    >>> list(read_blocks(io.BytesIO(b"one\\ntwo")))
    [Block(number=1, data=b'one\\n'), Block(number=2, data=b'two')]
    """
    number, rest = 1, b""
    while data := file.read(block_bytes):
        rest += data
        if end := rest.rfind(b"\n") + 1:
            block, rest = Block(number, rest[:end]), rest[end:]
            number += block.data.count(b"\n")
            yield block
        if len(rest) >= max_bytes:
            yield Block(number, rest)
            number += 1
            rest = _skip_line(file, block_bytes)
    if rest:
        yield Block(number, rest)


def split_block(block: Block, max_bytes: int = MAX_ROW_BYTES) -> Iterator[Line]:
    """Yield the lines of a block. A line longer than `max_bytes` is cut, and a byte order mark at the beginning of the
    file is dropped.
    """
    for number, data in enumerate(io.BytesIO(block.data), block.number):
        yield _build_line(number, data, max_bytes)


def read_lines(file: ByteReader) -> Iterator[Line]:
    """Yield the lines of a file, without a byte order mark at its beginning. Lines longer than 8 MiB are cut, so that
    any file takes bounded memory.

    >>> [line.data for line in read_lines(io.BytesIO(b"one\\r\\ntwo"))]
    [b'one\\r\\n', b'two']
    """
    for block in read_blocks(file):
        yield from split_block(block)


def _build_line(number: int, data: bytes, max_bytes: int) -> Line:
    whole = len(data) < max_bytes or (len(data) == max_bytes and data.endswith(b"\n"))
    if not whole:
        data = data[:max_bytes]
    return Line(number, data.removeprefix(codecs.BOM_UTF8) if number == 1 else data, whole)


def _skip_line(file: ByteReader, block_bytes: int) -> bytes:
    """Read on to the end of the line, and return the bytes that were read after it."""
    while block := file.read(block_bytes):
        _, end, after = block.partition(b"\n")
        if end:
            return after
    return b""
