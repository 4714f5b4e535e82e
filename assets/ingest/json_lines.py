"""JSON Lines as raw rows: every line with a character other than white space is one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from assets.ingest.hygiene import format_raw_row, format_value, has_safe_text
from assets.ingest.lines import MAX_ROW_BYTES, ByteReader, Line, read_lines
from assets.ingest.manifest_tables import MANIFEST_TABLES
from assets.ingest.named_columns import name_fields
from assets.ingest.rejects import Reject
from assets.ingest.rows import RawRow
from assets.ingest.strict_json import parse_json_object

JSON_LINES = ".jsonl"
# The kind of a row whose table is unknown.
_UNKNOWN_KIND = "unknown"


def read_nonblank_lines(file: ByteReader) -> Iterator[Line]:
    """Yield the lines of an open file that have a character other than white space; every such line is a row."""
    return (line for line in read_lines(file) if line.data.strip())


def read_json_lines(file: ByteReader, name: str, kind: str | None, columns: Mapping[str, str]) -> Iterator[RawRow]:
    """Yield a RawRow for every nonblank line of a JSON Lines file, with a Reject where the line is no valid row. name:
    of the file. kind: of the rows; None means that the field `kind` of a row names its table. columns: as in
    `name_fields`.
    """
    for line in read_nonblank_lines(file):
        content, raw = name_fields(_parse_fields(line), columns), format_raw_row(line.data)
        if isinstance(content, Reject):
            yield RawRow(name, line.number, kind or _UNKNOWN_KIND, None, content, raw)
            continue
        kind_of_row = kind or content.pop("kind", None)
        if isinstance(kind_of_row, str) and kind_of_row in MANIFEST_TABLES:
            yield RawRow(name, line.number, kind_of_row, content, None, raw, has_safe_text(line.data))
        else:
            kinds = ", ".join(MANIFEST_TABLES)
            reject = Reject("unknown_kind", f"field 'kind' is {format_value(kind_of_row)}: use one of {kinds}")
            yield RawRow(name, line.number, _UNKNOWN_KIND, None, reject, raw)


def read_numbered_objects(file: ByteReader) -> Iterator[tuple[int, dict[str, Any] | Reject]]:
    """Yield the number of every nonblank line of an open JSON Lines file, with its fields as in `_parse_fields`."""
    return ((line.number, _parse_fields(line)) for line in read_nonblank_lines(file))


def _parse_fields(line: Line) -> dict[str, Any] | Reject:
    """Parse a line as a JSON object and return its fields. A Reject comes back where the line is longer than 8 MiB, or
    is no valid UTF-8, JSON or object.
    """
    if not line.is_whole:
        return Reject("too_long", f"the line is longer than {MAX_ROW_BYTES} bytes: shorten it")
    return parse_json_object(line.data)
