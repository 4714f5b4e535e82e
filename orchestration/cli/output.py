"""How commands print: tables for people, JSON for programs."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from assets.progress import sparsely

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
DatasetName = Annotated[str, typer.Option("--dataset", "-d", help="Name of the dataset.")]
# Control characters except tab and line feed, separators of lines and paragraphs, marks that turn the direction of
# writing, and halves of surrogate pairs, which no stream can encode.
_OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_WHITE_SPACE = re.compile(r"[ \t\r\n]+")


def visible(text: str) -> str:
    """The text, with a JSON escape for every character that a terminal would obey instead of show.

    >>> print(visible("a\\x1b[2Jb \\u202ec"))
    a\\u001b[2Jb \\u202ec
    """
    return _OBEYED.sub(lambda match: rf"\u{ord(match[0]):04x}", text)


def plain(text: str) -> Text:
    """The text without markup and without characters that a terminal would obey."""
    return Text(visible(text))


class Terminal(Console):
    """A console that shows text of a data set and never obeys it."""

    def __init__(self, *, stderr: bool = False) -> None:
        # No emoji: a caption that says ":dog:" says so.
        super().__init__(stderr=stderr, highlight=False, emoji=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """Rich passes every string of a message or a table through this method."""
        return super().render_str(visible(text), **options)


console = Terminal()


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """A function that shows on standard error what is being done; a terminal shows the last line alone."""
    with Terminal(stderr=True).status("") as status:
        if status.console.is_terminal:
            yield lambda line: status.update(visible(escape(line)))
        else:
            yield sparsely(lambda line: typer.echo(visible(line), err=True))


def print_error(sentence: str) -> None:
    """Print a sentence on standard error; file names and captions that it quotes are shown and not obeyed."""
    typer.echo(visible(sentence), err=True)


def print_json(value: Any) -> None:
    """Print JSON on standard output; times and unknown types become text, and a terminal obeys none of it."""
    typer.echo(visible(json.dumps(value, ensure_ascii=False, indent=2, default=_as_json)))


def print_rows(rows: Sequence[Mapping[str, Any]], *, empty: str) -> None:
    """Print a table that fits the terminal, or the sentence `empty` where there are no rows."""
    if not rows:
        console.print(empty, markup=False)
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name, value in rows[0].items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        table.add_column(plain(name), justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*[_cell(value) for value in row.values()])
    console.print(table)


def hide_connection_attempts() -> None:
    """Hide the messages of Dagster's storage about attempts to reach a database that is gone.

    They are six attempts of five lines per event; the sentence of the error says it once, at the end.
    """
    logging.getLogger().addFilter(_is_no_attempt)


def _is_no_attempt(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith("Retrying failed database")


def _cell(value: Any) -> str | Text:
    if value is None:
        return "[dim]–[/dim]"
    if isinstance(value, float):
        return f"{value:.4f}"
    if isinstance(value, dict | list):
        return plain(json.dumps(value, ensure_ascii=False, default=_as_json))
    return plain(_WHITE_SPACE.sub(" ", str(value)).strip(" "))


def _as_json(value: Any) -> str:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, bytes | memoryview):
        return bytes(value).hex()
    return str(value)
