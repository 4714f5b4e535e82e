"""CSV and TSV of other people as rows: any separator, and numbers as numbers where a column holds nothing else."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Collection, Iterable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

from assets.ingest import strict_json
from assets.ingest.csv_reader import guess_separator, read_csv_header, read_csv_rows
from assets.ingest.files import OpenFile
from assets.ingest.lines import BLOCK_BYTES
from assets.ingest.rejects import Reject
from assets.new_manifest.columns import Columns, guess_columns
from assets.new_manifest.findings import Findings
from assets.new_manifest.ratings import is_no_answer, is_rating_name

_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
# Zeros before a number make it a code, such as 007.
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,299})(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?")
_COMMA_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,299})(,[0-9]+)?")
# A comma before three digits may stand between thousands.
_THOUSANDS = re.compile(r"-?[1-9][0-9]{0,2},[0-9]{3}")
_NAN = "nan"
# What Excel writes before the header, to name the separator.
_NAMED_SEPARATOR = re.compile(rb'"?sep=([,;|:~^\t])"?\s*', re.IGNORECASE)


class _CsvText:
    """The text of an open CSV file from its beginning, with the separator of its columns. Lines before the header that
    name the separator or are comments are blank, and lone carriage returns are line feeds.
    """

    def __init__(self, file: OpenFile) -> None:
        file.rewind()
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


def read_csv_column_names(file: OpenFile, path: Path) -> list[str]:
    """Read the names of the columns of an open CSV file, in order, without empty ones; the separator is guessed, and
    comments before the header are skipped. Raises ManifestError if its header cannot be used.
    """
    text = _CsvText(file)
    return list(filter(None, read_csv_header(text, path.name, text.separator)))


def read_csv_table(
    file: OpenFile, path: Path, columns: Columns, findings: Findings
) -> Iterator[tuple[int, dict[str, Any] | Reject]]:
    """Yield for every record of an open CSV file its line, and its fields or a Reject; the separator is guessed. A
    column without a meaning in `columns` whose cells are all numbers gives numbers; other cells are texts. Guesses, and
    what is left out, are added to the findings.

    The file is read twice. Raises ManifestError if the header cannot be used.
    """
    text = _CsvText(file)
    separator = text.separator
    if path.suffix.lower() == ".csv" and separator in _SEPARATORS:
        findings.add_guess(f"the columns of {path.name} are separated by {_SEPARATORS[separator]}")
    names = read_csv_header(text, path.name, separator)
    for place, name in enumerate(names, 1):
        if not name:
            findings.leave_out("a column without a name", f"{path.name}: column {place}")
    rated = {column.name: column for column in columns.ratings}
    texts = columns.meanings.keys() - rated.keys()
    # Where commas separate columns, those in a cell of ratings separate raters, but the mean of some has decimals.
    lists = {name for name in names if name in rated or is_rating_name(name)} if separator == "," else set()
    lists -= {name for name, column in rated.items() if column.mean_of or (column.scale and column.scale.most is None)}
    rows = (row for _, row, _ in read_csv_rows(_CsvText(file), path.name, {}, separator, may_be_unnamed=True))
    named = [name for name in names if name and name not in texts]
    numbers = _list_numeric_columns(rows, named, rated, lists, findings)
    for number, row, _ in read_csv_rows(_CsvText(file), path.name, {}, separator, may_be_unnamed=True):
        if isinstance(row, dict):
            for name in numbers & row.keys():
                if name in rated and is_no_answer(row[name]):
                    continue
                if row[name].lower() == _NAN:
                    findings.leave_out("a cell with nan in a column of numbers", f"{path.name}:{number}: {name}")
                    del row[name]
                else:
                    row[name] = strict_json.parse_json(row[name].replace(",", "."))
        yield number, row


def _list_numeric_columns(
    rows: Iterable[dict[str, Any] | Reject],
    names: list[str],
    rated: Collection[str],
    lists: set[str],
    findings: Findings,
) -> set[str]:
    """Return those of the named columns that hold only numbers. rated: those of ratings, which may hold words for no
    answer, too. lists: those whose commas separate numbers.
    """
    plain, with_commas, has_comma, is_clear = set(names), set(names) - lists, set[str](), set[str]()
    filled = set[str]()
    for row in rows:
        if isinstance(row, Reject):
            continue
        for name in (plain | with_commas) & row.keys():
            cell = row[name]
            if cell.lower() == _NAN or (name in rated and is_no_answer(cell)):
                continue
            filled.add(name)
            if _NUMBER.fullmatch(cell) is None:
                plain.discard(name)
            if _COMMA_NUMBER.fullmatch(cell) is None:
                with_commas.discard(name)
            elif "," in cell:
                has_comma.add(name)
                if _THOUSANDS.fullmatch(cell) is None:
                    is_clear.add(name)
    for name in sorted(with_commas & has_comma):
        if name in is_clear:
            findings.add_guess(f"numbers of column {name!r} have a decimal comma")
        else:
            findings.add_guess(f"column {name!r} stays text, since its commas may mark decimals or thousands")
    return (plain | with_commas & is_clear) & filled
