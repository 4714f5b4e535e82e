"""CSV as rows of a manifest: a cell is text, an empty cell is an absent field, and known fields get their types."""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from assets.ingest import strict_json
from assets.ingest.hygiene import format_raw_row
from assets.ingest.lines import MAX_ROW_BYTES, ByteReader, Line, read_lines
from assets.ingest.rejects import ManifestError, Reject

# How many times a byte may be read again on average: the bound keeps the time linear in the size of the file.
_READ_AGAIN = 4

# Semicolons are what spreadsheets write where the comma is a decimal sign.
_OTHER_SEPARATOR = re.compile(r"[;\t|]")
_QUOTED = re.compile('"[^"]*"')
_NUMBER = re.compile(r"[+-]?[0-9]{1,300}(\.[0-9]*)?([eE][+-]?[0-9]+)?")
_NO_TYPES: Mapping[str, type] = {}


def start_csv(
    file: ByteReader,
    name: str,
    separator: str = ",",
    field_types: Mapping[str, type] = _NO_TYPES,
    *,
    may_be_unnamed: bool = False,
) -> tuple[list[str], Iterator[tuple[int, dict[str, Any] | Reject, str]]]:
    """Read the header of a CSV file, and return the names of its columns in order with an iterator. For every record
    that is not blank it gives its line, its fields or a Reject, and its first 2,000 characters as text that Postgres
    can store. Empty cells are left out.

    name: of the file, for messages. field_types: by field that is not text, its type: int, float, bool, or list for
    JSON. may_be_unnamed: whether a column may have no name; its name is "" then, and its cells are skipped. Raises
    ManifestError if the header is missing or cannot be used.
    """
    records = _read_records(file, separator)
    header = _read_header(name, records, may_be_unnamed=may_be_unnamed)
    return header, (
        (line, cells if isinstance(cells, Reject) else _parse_fields(field_types, header, cells), raw)
        for line, cells, raw in records
    )


def guess_separator(file: ByteReader) -> str:
    """Return the separator of a CSV file: of comma, semicolon, tab and bar the one most frequent in its first line
    outside quotes, in a tie the first of these. The line is read from the file.
    """
    line = next(read_lines(file), None)
    text = "" if line is None else _QUOTED.sub("", line.data.decode("utf-8", "replace"))
    return max(",;\t|", key=text.count)


def _read_header(
    file: str, records: Iterator[tuple[int, list[str] | Reject, str]], *, may_be_unnamed: bool
) -> list[str]:
    _, header, _ = next(
        records, (1, Reject("csv_invalid", "it is missing: write the names of the columns into the first line"), "")
    )
    if isinstance(header, Reject):
        raise ManifestError(f"{file}, header line: {header.reason}")
    if len(header) == 1 and (separator := _OTHER_SEPARATOR.search(header[0])):
        raise ManifestError(
            f"{file}: the columns seem to be separated by {separator.group()!r}: save the file with commas"
        )
    names = [name for name in header if name] if may_be_unnamed else header
    if "" in names:
        raise ManifestError(f"{file}: the header has a column without a name: give every column its own name")
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ManifestError(f"{file}: the header names {twice[:80]!r} twice: give every column its own name")
    return header


class _Feed:
    """The lines of a file as text for csv.reader, which can give the lines of the current record back."""

    def __init__(self, file: ByteReader) -> None:
        self._lines = read_lines(file)
        self._waiting: deque[Line] = deque()
        self._credit = 0
        self.start()

    def start(self) -> None:
        """Begin a new record."""
        self.record: list[Line] = []
        self.size = 0
        self.fault: Reject | None = None

    def give_back(self) -> bool:
        """Let all lines of the record but the first be read again; return False where they were read again too often.

        A quote that is never closed makes the rows after it part of its record.
        """
        swallowed = self.record[1:]
        cost = sum(len(line.data) for line in swallowed)
        if cost > self._credit:
            return False
        self._credit -= cost
        self._waiting.extendleft(reversed(swallowed))
        return True

    def __iter__(self) -> _Feed:
        return self

    def __next__(self) -> str:
        if self._waiting:
            line = self._waiting.popleft()
        else:
            line = next(self._lines)
            self._credit += _READ_AGAIN * len(line.data)
        self.record.append(line)
        self.size += len(line.data)
        if not line.is_whole or self.size > MAX_ROW_BYTES:
            self.fault = Reject("too_long", f"the record has more than {MAX_ROW_BYTES} bytes: close its quotes")
            raise csv.Error
        try:
            text = line.data.decode("utf-8")
        except UnicodeDecodeError as error:
            where = f"byte {error.start + 1} of line {line.number}"
            self.fault = Reject("invalid_utf8", f"{where} is not valid UTF-8: save the file as UTF-8")
            text = line.data.decode("utf-8", "replace")
        # UTF-16 is both; advice to remove its NULs would not help.
        if "\x00" in text and self.fault is None:
            self.fault = Reject("nul_character", f"line {line.number} contains the character NUL: remove it")
        # Python 3.10 cannot parse NUL and 3.11 can.
        return text.replace("\x00", " ")


def _read_records(file: ByteReader, separator: str) -> Iterator[tuple[int, list[str] | Reject, str]]:
    feed = _Feed(file)
    reader = csv.reader(feed, strict=True, delimiter=separator)
    while True:
        feed.start()
        content: list[str] | Reject
        try:
            cells = next(reader)
            content = feed.fault or cells
        except StopIteration:
            return
        except csv.Error as error:
            content = feed.fault or _explain_csv_error(error)
            if not feed.give_back():
                lost = f"the lines up to {feed.record[-1].number} could not be read"
                content = Reject(content.code, f"{content.reason}; {lost}")
        if not any(line.data.strip() for line in feed.record):
            continue
        raw = format_raw_row(b"".join(line.data for line in feed.record))
        yield feed.record[0].number, content, raw


def _explain_csv_error(error: csv.Error) -> Reject:
    if "field limit" in str(error):
        return Reject("too_long", f"a cell has more than {csv.field_size_limit()} characters: close its quotes")
    return Reject("csv_invalid", f'not valid CSV ({error}): close every quote, and write "" for a quote inside a cell')


def _parse_fields(field_types: Mapping[str, type], header: list[str], cells: list[str]) -> dict[str, Any] | Reject:
    if len(cells) != len(header):
        counts = f"the record has {len(cells)} cells and the header {len(header)}"
        return Reject("csv_invalid", f"{counts}: put cells with commas in quotes")
    payload: dict[str, Any] = {}
    for name, cell in zip(header, cells, strict=True):
        if cell and name:
            value = _convert_cell(cell, field_types.get(name))
            if isinstance(value, Reject):
                return Reject(value.code, f"field '{name}': {value.reason}")
            payload[name] = value
    return payload


def _convert_cell(cell: str, field_type: type | None) -> Any:
    """Convert a cell to a value of this type. A cell that does not fit stays text, which validation then refuses."""
    if field_type in (int, float):
        if _NUMBER.fullmatch(cell) is None:
            return cell
        number = float(cell)
        return int(number) if field_type is int and number.is_integer() else number
    if field_type is bool:
        return {"true": True, "false": False}.get(cell.lower(), cell)
    if field_type is list:
        return strict_json.parse_json(cell)
    return cell
