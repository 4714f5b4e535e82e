"""The lines of JSON Lines: every one with a character other than white space is a row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from assets.ingest.lines import MAX_ROW_BYTES, ByteReader, Line, read_lines
from assets.ingest.rejects import Reject
from assets.ingest.strict_json import parse_json_object

JSON_LINES = ".jsonl"


def read_nonblank_lines(file: ByteReader) -> Iterator[Line]:
    """Yield the lines of an open file that have a character other than white space; every such line is a row."""
    return (line for line in read_lines(file) if line.data.strip())


def read_objects(file: ByteReader) -> Iterator[tuple[Line, dict[str, Any] | Reject]]:
    """Yield the nonblank lines of an open JSON Lines file, each with its fields. A Reject comes in place of them where
    the line is longer than 8 MiB, or is no valid UTF-8, JSON or object.
    """
    for line in read_nonblank_lines(file):
        if line.is_whole:
            yield line, parse_json_object(line.data)
        else:
            yield line, Reject("too_long", f"the line is longer than {MAX_ROW_BYTES} bytes: shorten it")
