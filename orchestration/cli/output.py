"""How commands print: tables for people, JSON for programs."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
DatasetName = Annotated[str, typer.Option("--dataset", "-d", help="Name of the dataset.")]
console = Console(highlight=False)


def print_json(value: Any) -> None:
    """JSON on standard output; times and other types as text."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2, default=_plain))


def print_rows(rows: Sequence[Mapping[str, Any]], *, empty: str) -> None:
    """A table that fits the terminal, or the sentence `empty`."""
    if not rows:
        console.print(escape(empty))
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name, value in rows[0].items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        table.add_column(escape(name), justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*[_cell(value) for value in row.values()])
    console.print(table)


def hide_connection_attempts() -> None:
    """Keep off the terminal what Dagster's storage says of each attempt to reach a database that is gone.

    Six attempts per event, five lines each: the error's own sentence says it once, at the end.
    """
    logging.getLogger().addFilter(_is_no_attempt)


def _is_no_attempt(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith("Retrying failed database")


def _cell(value: Any) -> str:
    if value is None:
        return "[dim]–[/dim]"
    if isinstance(value, float):
        return f"{value:.4f}"
    if isinstance(value, dict | list):
        return escape(json.dumps(value, ensure_ascii=False, default=_plain))
    return escape(" ".join(str(value).split()))


def _plain(value: Any) -> str:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, bytes | memoryview):
        return bytes(value).hex()
    return str(value)
