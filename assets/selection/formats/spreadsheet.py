"""CSV for spreadsheets: no text of a dataset can become a formula, and every text can be had back as it was."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, BinaryIO

from assets.selection.reading import Batch
from db.selection.exports import Column, Kind

# Where a cell can begin: where the text does, and behind what a spreadsheet of another country takes for a separator.
# There a formula begins with = + - @ (also in their full width, also behind spaces), and an apostrophe is doubled.
# Behind a separator it also begins behind a quotation mark: CSV doubles that, and two of them are an empty quotation.
_SIGN = r"[=+\-@＝＋－＠\t\r\n]"
_FORMULA = re.compile(rf"^(?='|[ \u00a0\u3000]*{_SIGN})|(?<=[;\t\r\n])(?='|[ \"\u00a0\u3000]*{_SIGN})")
_GUARD = re.compile(r"(^|[;\t\r\n])'")


def guarded(text: str) -> str:
    """The text with an apostrophe wherever a spreadsheet could see the beginning of a formula.

    >>> guarded("=1+1"), guarded("a - b"), guarded("two; -three"), guarded("'quoted'")
    ("'=1+1", 'a - b', "two;' -three", "''quoted'")
    >>> print(guarded('one;"=1+1"'))
    one;'"=1+1"
    """
    return _FORMULA.sub("'", text)


def unguarded(cell: str) -> str:
    """The text of a cell: the inverse of `guarded`.

    >>> [unguarded(guarded(text)) for text in ("=1+1", "two; -three", "'quoted'", ";'")]
    ['=1+1', 'two; -three', "'quoted'", ";'"]
    """
    return _GUARD.sub(r"\1", cell)


def write_csv(file: BinaryIO, columns: Sequence[Column], batches: Iterable[Batch]) -> None:
    """Write a header and the rows, as RFC 4180 has it: commas, lines that end with CR and LF, UTF-8 with its mark.

    A cell is empty where the value is absent (or is the empty text in column `text`). Lists are JSON.
    """
    as_cell = [_CELLS.get(column.kind, _unchanged) for column in columns]
    text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
    writer = csv.writer(text)
    writer.writerow([column.name for column in columns])
    for batch in batches:
        writer.writerows(
            ["" if value is None else cell(value) for cell, value in zip(as_cell, row, strict=True)] for row in batch
        )
    text.flush()
    # The file stays open: whoever opened it closes it.
    text.detach()


def _unchanged(value: Any) -> Any:
    return value


def _texts(values: list[str]) -> str:
    return guarded(json.dumps(values, ensure_ascii=False))


_CELLS: dict[Kind, Callable[[Any], Any]] = {"text": guarded, "json": guarded, "texts": _texts}
