"""CSV as rows of a manifest: cells are text, empty cells are absent fields, known fields get their types."""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from assets.ingest import strict_json
from assets.ingest.hygiene import storable
from assets.ingest.lines import Line, bounded_lines
from assets.ingest.rejects import ManifestError, Reject

MAX_RECORD_BYTES = 2 * 2**20
# How often a byte may be read again on average, so that no file takes more than linear time.
_READ_AGAIN = 4

# Kind of row and field. A field of the same name in another table is not the manifest's and stays text.
WHOLE_NUMBERS = frozenset({("keypoint", "segment_index"), ("rating", "value")})
_NUMBERS = frozenset({("video", "duration_s")})
_BOOLEANS = frozenset({("keypoint_label", "covered")})
_JSON = frozenset({("caption", "segments")})

_NUMBER = re.compile(r"[+-]?[0-9]{1,300}(\.[0-9]*)?([eE][+-]?[0-9]+)?")


def csv_rows(path: Path, kind: str) -> Iterator[tuple[int, dict[str, Any] | Reject, str]]:
    """Line, fields or refusal, and storable beginning of every record.

    Raises ManifestError if the header cannot be used.
    """
    with path.open("rb") as file:
        records = _records(file)
        header = _header(path, records)
        for line, cells, raw in records:
            yield line, cells if isinstance(cells, Reject) else _payload(kind, header, cells), raw


def _header(path: Path, records: Iterator[tuple[int, list[str] | Reject, str]]) -> list[str]:
    _, header, _ = next(records, (1, Reject("csv_invalid", "the file has no header line"), ""))
    if isinstance(header, Reject):
        raise ManifestError(f"{path.name}: the header cannot be read: {header.reason}")
    if "" in header or len(set(header)) != len(header):
        raise ManifestError(f"{path.name}: the header must name every column once")
    return header


class _Feed:
    """The lines of a file as text for csv.reader, remembering those of the current record."""

    def __init__(self, file: BinaryIO) -> None:
        self._lines = bounded_lines(file)
        self._waiting: deque[Line] = deque()
        self._credit = 0
        self.start()

    def start(self) -> None:
        """Begin a new record."""
        self.record: list[Line] = []
        self.size = 0
        self.fault: Reject | None = None

    def give_back(self) -> bool:
        """Let the lines after the first be read again: a quote that is never closed swallows the rows after it."""
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
        if not line.whole or self.size > MAX_RECORD_BYTES:
            self.fault = Reject("too_long", f"a record may have {MAX_RECORD_BYTES} bytes: close its quotes")
            raise csv.Error
        try:
            text = line.data.decode("utf-8")
        except UnicodeDecodeError as error:
            where = f"byte {error.start + 1} of line {line.number}"
            self.fault = Reject("invalid_utf8", f"{where} is not valid UTF-8: save the file as UTF-8")
            text = line.data.decode("utf-8", "replace")
        if "\x00" in text:
            self.fault = Reject("nul_character", f"line {line.number} contains the character NUL: remove it")
        # Python 3.10 cannot parse NUL and 3.11 can.
        return text.replace("\x00", " ")


def _records(file: BinaryIO) -> Iterator[tuple[int, list[str] | Reject, str]]:
    feed = _Feed(file)
    reader = csv.reader(feed, strict=True)
    while True:
        feed.start()
        content: list[str] | Reject
        try:
            cells = next(reader)
            content = feed.fault or cells
        except StopIteration:
            return
        except csv.Error as error:
            content = feed.fault or _csv_fault(error)
            if not feed.give_back():
                lost = f"the lines up to {feed.record[-1].number} could not be read"
                content = Reject(content.code, f"{content.reason}; {lost}")
        if not any(line.data.strip() for line in feed.record):
            continue
        raw = storable(b"".join(line.data for line in feed.record))
        yield feed.record[0].number, content, raw


def _csv_fault(error: csv.Error) -> Reject:
    if "field limit" in str(error):
        return Reject("too_long", f"a cell may have {csv.field_size_limit()} characters: close its quotes")
    return Reject("csv_invalid", f"not valid CSV ({error}): close quotes, write inner ones twice")


def _payload(kind: str, header: list[str], cells: list[str]) -> dict[str, Any] | Reject:
    if len(cells) != len(header):
        counts = f"the record has {len(cells)} cells and the header {len(header)}"
        return Reject("csv_invalid", f"{counts}: put cells with commas in quotes")
    payload: dict[str, Any] = {}
    for name, cell in zip(header, cells, strict=True):
        if cell:
            value = _converted((kind, name), cell)
            if isinstance(value, Reject):
                return Reject(value.code, f"field '{name}': {value.reason}")
            payload[name] = value
    return payload


def _converted(field: tuple[str, str], cell: str) -> Any:
    """The value of a cell; one that does not fit its field stays text, and validation says so."""
    if field in WHOLE_NUMBERS or field in _NUMBERS:
        if _NUMBER.fullmatch(cell) is None:
            return cell
        number = float(cell)
        return int(number) if field in WHOLE_NUMBERS and number.is_integer() else number
    if field in _BOOLEANS:
        return {"true": True, "false": False}.get(cell.lower(), cell)
    if field in _JSON:
        return strict_json.parse(cell)
    return cell
