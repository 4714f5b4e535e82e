"""Prints the answer to a query for the command sql: for people, as CSV, or as JSON, row by row as they come."""

from __future__ import annotations

import json
import math
import sys
import textwrap
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from assets.words.text import escape_controls
from orchestration.cli.output import console, format_cell, format_json_default, make_plain_text, print_sentence
from orchestration.cli.table_layout import make_column, print_table_or_records

if TYPE_CHECKING:
    from db.server.reader import QueryResult


def print_answer(answer: QueryResult) -> None:
    """Print a query's answer on standard output as a table or records, or `no rows` for an empty one."""
    columns = [make_column(make_plain_text(column.name), is_number=column.is_number) for column in answer.columns]
    if not print_table_or_records(columns, ([format_cell(value) for value in row] for row in answer.rows), console):
        print_sentence("no rows")


def print_csv(answer: QueryResult) -> None:
    """Print a query's answer on standard output as CSV with a header. NULL is an empty field, and an empty text is a
    pair of quotes.
    """
    # Only a terminal obeys characters; a file gets them as they are.
    shown = escape_controls if sys.stdout.isatty() else str
    if answer.columns:
        sys.stdout.write(shown(",".join(_csv_field(column.name) for column in answer.columns)) + "\n")
    for row in answer.rows:
        sys.stdout.write(shown(",".join(map(_csv_field, row))) + "\n")


def print_json_rows(answer: QueryResult) -> None:
    """Print a query's answer on standard output as a JSON list with one object a row; an empty answer is `[]`."""
    names = [column.name for column in answer.columns]
    is_first = True
    for row in answer.rows:
        values = {name: _json_value(value) for name, value in zip(names, row, strict=True)}
        text = json.dumps(values, ensure_ascii=False, indent=2, default=format_json_default)
        sys.stdout.write(("[\n" if is_first else ",\n") + escape_controls(textwrap.indent(text, "  ")))
        is_first = False
    sys.stdout.write("[]\n" if is_first else "\n]\n")


def _csv_field(value: Any) -> str:
    """Return the CSV field of a value, in quotes where a reader of CSV would need them.

    >>> [_csv_field(value) for value in (None, "", 0.5, True, 'a "red" circle', [1, 2])]
    ['', '""', '0.5', 'true', '"a ""red"" circle"', '"[1, 2]"']
    """
    if value is None:
        return ""
    is_json = isinstance(value, bool | dict | list)
    text = json.dumps(value, ensure_ascii=False, default=format_json_default) if is_json else format_json_default(value)
    if text and not any(character in text for character in ',"\r\n') and text == text.strip():
        return text
    return '"' + text.replace('"', '""') + '"'


def _json_value(value: Any) -> Any:
    """Return a value of Postgres for JSON: a Decimal becomes an int or a float; NaN and infinity, which JSON does not
    know, become text.

    >>> [_json_value(Decimal(text)) for text in ("0.89", "12", "NaN")]
    [0.89, 12, 'NaN']
    """
    if isinstance(value, Decimal | float) and not math.isfinite(value):
        return str(Decimal(value))
    if isinstance(value, Decimal):
        return int(value) if _is_whole(value) else float(value)
    return value


def _is_whole(value: Decimal) -> bool:
    """Whether a number has no digits after the point: 12 and not 12.0."""
    exponent = value.as_tuple().exponent
    return isinstance(exponent, int) and exponent >= 0
