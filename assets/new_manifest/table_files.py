"""The files of tables of other people, each read once: CSV and TSV with any separator, JSON Lines, JSON, Parquet, and
Arrow of Hugging Face.
"""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from itertools import chain, islice
from pathlib import Path
from typing import Any

from assets.ingest import strict_json
from assets.ingest.csv_reader import guess_separator, start_csv
from assets.ingest.encodings import UTF_8
from assets.ingest.files import OpenFile, open_table
from assets.ingest.json_lines import read_objects
from assets.ingest.lines import BLOCK_BYTES
from assets.ingest.parquet_reader import read_arrow_cells, read_arrow_column_names, read_arrow_rows
from assets.ingest.rejects import Reject
from assets.new_manifest.columns import ColumnMap, guess_columns, is_rating_name
from assets.new_manifest.extract import convert_write_errors
from assets.new_manifest.findings import Findings, Reason
from assets.new_manifest.json_rows import read_published_rows, tidy_row
from assets.new_manifest.rows import is_no_answer

# Rows of JSON Lines whose fields give the names of the columns.
_LOOKED_AT = 100
_CSV, _ARROW = (".csv", ".tsv"), (".parquet", ".arrow")
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
# Zeros before a number make it a code, such as 007.
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,299})(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?")
_COMMA_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,299})(,[0-9]+)?")
# A comma before three digits may stand between thousands.
_THOUSANDS = re.compile(r"-?[1-9][0-9]{0,2},[0-9]{3}")
_NAN = "nan"
# What Excel writes before the header, to name the separator.
_NAMED_SEPARATOR = re.compile(rb'"?sep=([,;|:~^\t])"?\s*', re.IGNORECASE)

Row = dict[str, Any]
Rows = Iterator[tuple[int, Row | Reject]]


@dataclass(slots=True)
class TableFile:
    """The file of a table, opened by its suffix: the names of its columns and its text's encoding. The rows of text are
    read once, and put into the file `aside`, from which they come again.
    """

    path: Path
    aside: Path
    names: list[str]
    _rows: Rows = field(default_factory=lambda: iter(()))
    _header: Sequence[str] = ()
    _separator: str = ""
    encoding: str = UTF_8
    _numbers: _NumberColumns | None = None

    @classmethod
    def start(cls, file: OpenFile, path: Path, aside: Path, is_video: Callable[[str], bool]) -> TableFile:
        """Read the names of the columns of an open file; those of JSON are in its first 100 rows. is_video: returns
        whether a text names a video of the folder. Raises ManifestError if there are none.
        """
        suffix = path.suffix.lower()
        if suffix in _ARROW:
            return cls(path, aside, read_arrow_column_names(file, path))
        if suffix in _CSV:
            text = _CsvText(file)
            header, records = start_csv(text, path.name, text.separator, may_be_unnamed=True)
            rows = ((number, row) for number, row, _ in records)
            return cls(path, aside, list(filter(None, header)), rows, header, text.separator)
        read = iter(read_published_rows(file, path.name, is_video)) if suffix == ".json" else _read_objects(file)
        first = list(islice(read, _LOOKED_AT))
        names = dict.fromkeys(name for _, row in first if not isinstance(row, Reject) for name in row)
        return cls(path, aside, list(names), chain(first, read))

    def read_cells(self, file: OpenFile, columns: ColumnMap, names: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """Yield the rows of the file, still open, with at least the columns of these names; an empty MediaBytes stands
        for files in a column. Call it once, and before `read_rows`. columns: those guessed. Raises ManifestError.
        """
        if self.path.suffix.lower() in _ARROW:
            yield from read_arrow_cells(file, self.path, names)
            return
        if self.path.suffix.lower() in _CSV:
            self._numbers = _NumberColumns(columns, self.names, self._separator)
        lines, n_bytes = list[str](), 0
        for number, row in self._rows:
            kept = (number, row.code, row.reason) if isinstance(row, Reject) else (number, row)
            lines.append(json.dumps(kept) + "\n")
            n_bytes += len(lines[-1])
            if n_bytes > BLOCK_BYTES:
                self._put_aside(lines)
                n_bytes = 0
            if not isinstance(row, Reject):
                if self._numbers is not None:
                    self._numbers.exclude_text_columns(row)
                yield row
        self._put_aside(lines)
        self.encoding = file.encoding

    def _put_aside(self, lines: list[str]) -> None:
        with convert_write_errors(self.aside.parent), self.aside.open("a", encoding="ascii") as aside:
            aside.writelines(lines)
        lines.clear()

    def read_rows(self, columns: ColumnMap, findings: Findings) -> Rows:
        """Yield the rows with their numbers. A column of CSV without a meaning in `columns` whose cells are all numbers
        gives numbers; other cells are texts. Guesses, and what is left out, are added to the findings. Raises
        ManifestError.
        """
        if self.path.suffix.lower() in _ARROW:
            with open_table(self.path) as file:
                yield from read_arrow_rows(file, self.path)
            return
        if self.path.suffix.lower() == ".csv" and self._separator in _SEPARATORS:
            findings.add_guess(f"the columns of {self.path.name} are separated by {_SEPARATORS[self._separator]}")
        for place, name in enumerate(self._header, 1):
            if not name:
                findings.leave_out(Reason.UNNAMED_COLUMN, f"{self.path.name}: column {place}")
        numbers = set[str]() if self._numbers is None else self._numbers.choose(columns, findings)
        with self.aside.open(encoding="ascii") as aside:
            for line in aside:
                number, content, *reason = json.loads(line)
                if reason:
                    yield number, Reject(content, *reason)
                else:
                    if self._numbers is not None:
                        self._numbers.convert(content, numbers, f"{self.path.name}:{number}", findings)
                    yield number, content


def _read_objects(file: OpenFile) -> Rows:
    for line, row in read_objects(file):
        yield line.number, row if isinstance(row, Reject) else tidy_row(row)


class _CsvText:
    """The text of an open CSV file, with the separator of its columns. Lines before the header that name the separator
    or are comments are blank, and lone carriage returns are line feeds.
    """

    def __init__(self, file: OpenFile) -> None:
        self._file = file
        self._start = file.read(BLOCK_BYTES)
        self._has_old_ends = b"\r" in self._start and b"\n" not in self._start
        lines = self._convert(self._start).splitlines(keepends=True)
        self.separator = ""
        for place, line in enumerate(lines):
            text = line.removeprefix(BOM_UTF8)
            if named := _NAMED_SEPARATOR.fullmatch(text):
                self.separator = named[1].decode("ascii", "replace")
            elif text.strip() and not (text.startswith(b"#") and not _is_header(text)):
                break
            lines[place] = b"\n"
        self._start = b"".join(lines)
        self.separator = self.separator or guess_separator(BytesIO(self._start.lstrip(b"\n")))

    def read(self, size: int, /) -> bytes:
        """Return the next bytes, more than `size` at the beginning; b"" at the end."""
        start, self._start = self._start, b""
        return start or self._convert(self._file.read(size))

    def _convert(self, data: bytes) -> bytes:
        return data.replace(b"\r", b"\n") if self._has_old_ends else data


def _is_header(line: bytes) -> bool:
    """Return whether a line that begins with # names columns of videos and captions."""
    text = line.decode("utf-8", "replace")
    return guess_columns(text.strip().split(guess_separator(BytesIO(line)))).has_video_and_text


class _NumberColumns:
    """The columns of CSV that have only held numbers so far. Those of ratings may also hold words for no answer."""

    def __init__(self, columns: ColumnMap, names: Sequence[str], separator: str) -> None:
        rated = {column.name: column for column in columns.ratings}
        # Where commas separate columns, those in a cell of ratings separate raters, but the mean of some has decimals.
        lists = {name for name in names if name in rated or is_rating_name(name)} if separator == "," else set()
        lists -= {n for n, column in rated.items() if column.mean_of or (column.scale and column.scale.most is None)}
        self._rated = rated.keys()
        self._plain, self._with_commas = set(names), set(names) - lists
        self._filled, self._has_comma, self._is_clear = set[str](), set[str](), set[str]()

    def exclude_text_columns(self, row: Row) -> None:
        """Drop the columns that hold something else in this row."""
        for name in (self._plain | self._with_commas) & row.keys():
            cell = row[name]
            if cell.lower() == _NAN or (name in self._rated and is_no_answer(cell)):
                continue
            self._filled.add(name)
            if _NUMBER.fullmatch(cell) is None:
                self._plain.discard(name)
            if _COMMA_NUMBER.fullmatch(cell) is None:
                self._with_commas.discard(name)
            elif "," in cell:
                self._has_comma.add(name)
                if _THOUSANDS.fullmatch(cell) is None:
                    self._is_clear.add(name)

    def choose(self, columns: ColumnMap, findings: Findings) -> set[str]:
        """Return the columns of numbers, which are not those of texts; guesses are added to the findings."""
        texts = columns.meanings.keys() - self._rated
        for name in sorted((self._with_commas & self._has_comma) - texts):
            if name in self._is_clear:
                findings.add_guess(f"numbers of column {name!r} have a decimal comma")
            else:
                findings.add_guess(f"column {name!r} stays text, since its commas may mark decimals or thousands")
        return (self._plain | self._with_commas & self._is_clear) & self._filled - texts

    def convert(self, row: Row, numbers: set[str], where: str, findings: Findings) -> None:
        """Replace the cells of these columns in a row by numbers. where: how people find the row."""
        for name in numbers & row.keys():
            if name in self._rated and is_no_answer(row[name]):
                continue
            if row[name].lower() == _NAN:
                findings.leave_out(Reason.NAN_CELL, f"{where}: {name}")
                del row[name]
            else:
                row[name] = strict_json.parse_json(row[name].replace(",", "."))
