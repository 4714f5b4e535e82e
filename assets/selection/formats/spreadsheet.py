"""Writes CSV for spreadsheets: no text of a dataset can become a formula, and every text can be restored."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, BinaryIO

from assets.selection.export_input import Batch
from db.selection.exports import ExportColumn, ExportKind

# A cell can begin where the text does, and after a character that a spreadsheet of another country takes as separator.
# There a formula begins with = + - @ (also in full width, also after spaces), and an apostrophe is doubled.
# After a separator it also begins after a quotation mark: CSV doubles that, and two of them are an empty quotation.
_SIGN = r"[=+\-@＝＋－＠\t\r\n]"
_FORMULA = re.compile(rf"^(?='|[ \u00a0\u3000]*{_SIGN})|(?<=[;\t\r\n])(?='|[ \"\u00a0\u3000]*{_SIGN})")
_GUARD = re.compile(r"(^|[;\t\r\n])'")


def escape_formulas(text: str) -> str:
    """Return a text with an apostrophe added at all places where a spreadsheet could see the beginning of a formula: at
    its start, and after a semicolon, tab or line break. An apostrophe at such a place is doubled, so that
    `unescape_formulas` can restore the text.

    >>> escape_formulas("=1+1"), escape_formulas("a - b"), escape_formulas("two; -three"), escape_formulas("'quoted'")
    ("'=1+1", 'a - b', "two;' -three", "''quoted'")
    >>> print(escape_formulas('one;"=1+1"'))
    one;'"=1+1"
    """
    return _FORMULA.sub("'", text)


def unescape_formulas(cell: str) -> str:
    """Return the original text of a cell that `escape_formulas` wrote: one apostrophe is removed at its start, and
    after every semicolon, tab or line break.

    >>> [unescape_formulas(escape_formulas(text)) for text in ("=1+1", "two; -three", "'quoted'", ";'")]
    ['=1+1', 'two; -three', "'quoted'", ";'"]
    """
    return _GUARD.sub(r"\1", cell)


def write_csv(file: BinaryIO, columns: Sequence[ExportColumn], batches: Iterable[Batch]) -> None:
    """Write a header and rows to a binary file as CSV: commas, CR LF, UTF-8 with a byte order mark, formulas escaped. A
    cell is empty where the value is None (or an empty text). Lists are JSON. The file stays open.

    The format is that of RFC 4180.
    """
    as_cell = [_CELLS.get(column.kind, _keep_value) for column in columns]
    text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
    writer = csv.writer(text)
    writer.writerow([column.name for column in columns])
    for batch in batches:
        writer.writerows(
            ["" if value is None else cell(value) for cell, value in zip(as_cell, row, strict=True)] for row in batch
        )
    text.flush()
    # The file stays open: the caller closes it.
    text.detach()


def _keep_value(value: Any) -> Any:
    """Return the value as it is."""
    return value


def _format_texts(values: list[str]) -> str:
    """Return texts as a JSON list, with formulas escaped."""
    return escape_formulas(json.dumps(values, ensure_ascii=False))


_CELLS: dict[ExportKind, Callable[[Any], Any]] = {
    "boolean": json.dumps,
    "text": escape_formulas,
    "json": escape_formulas,
    "texts": _format_texts,
}
