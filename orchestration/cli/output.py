"""How commands print: tables for people, JSON for programs."""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from assets.progress import sparsely

if TYPE_CHECKING:
    from assets.plan import Plan

# How rows are laid out for people: a table where it fits the terminal, else records, one below the other.

# Rows that are laid out together: the first of a long answer are shown before the last are read.
ROWS_AT_A_TIME = 200
# A column of text is not made narrower than this, and a text in a table is not folded over more lines.
NARROWEST = 20
MOST_LINES = 4
_GAP = "  "
_NOTHING = Text("–", style="dim")


@dataclass(frozen=True, slots=True)
class Field:
    """A column as it is shown. is_number: it stands on the right, and none of its cells is folded."""

    name: Text
    is_number: bool


Cells = Sequence[Text | None]


def show(fields: Sequence[Field], rows: Iterable[Cells], console: Console) -> int:
    """Print the rows, a cell of None as a dash, and return how many there were."""
    widths: list[int] | None = []
    n_shown = 0
    remaining = iter(rows)
    while some := [[_NOTHING if cell is None else cell for cell in row] for row in islice(remaining, ROWS_AT_A_TIME)]:
        before = widths
        # Once in records, always in records.
        widths = None if widths is None else table_widths(fields, some, console.width, widths)
        if widths is None:
            lines = _records(fields, some, console, n_shown)
        else:
            lines = _table(fields, some, widths, console, has_header=widths != before)
        # All at once: each call costs a look at the terminal.
        console.print(Text("\n").join(lines), soft_wrap=True)
        n_shown += len(some)
    return n_shown


def table_widths(
    fields: Sequence[Field], rows: Sequence[Sequence[Text]], width: int, at_least: Sequence[int] = ()
) -> list[int] | None:
    """The widths of the columns of a table of these rows, or None where it does not fit well.

    Numbers have all the room that they need; texts share what is left.
    at_least: widths that the columns have already.

    >>> fields = [Field(Text("n"), True), Field(Text("text"), False)]
    >>> table_widths(fields, [[Text("12"), Text("a red circle")]], 80)
    [2, 12]
    >>> table_widths(fields, [[Text("12"), Text("a red circle bounces " * 9)]], 80)
    [2, 76]
    >>> table_widths(fields, [[Text("12"), Text("a red circle bounces " * 9)]], 40) is None
    True
    """
    columns = [[field.name, *cells] for field, cells in zip(fields, zip(*rows, strict=True), strict=True)]
    wanted = [max(cell_len(line) for cell in column for line in cell.plain.split("\n")) for column in columns]
    wanted = [max(pair) for pair in zip_longest(wanted, at_least, fillvalue=0)]
    narrowest = [_narrowest(*column) for column in zip(fields, columns, wanted, strict=True)]
    room = width - len(_GAP) * (len(fields) - 1) - sum(narrowest)
    if room < 0:
        return None
    widths = narrowest
    # The least hungry column first: what it does not take is left for the others.
    hungry = sorted(range(len(fields)), key=lambda i: wanted[i] - narrowest[i])
    for n_left, i in zip(range(len(hungry), 0, -1), hungry, strict=True):
        more = min(wanted[i] - narrowest[i], room // n_left)
        widths[i] += more
        room -= more
    is_crowded = any(
        cell_len(cell.plain) > MOST_LINES * size
        for column, size, field in zip(columns, widths, fields, strict=True)
        for cell in column
        if not field.is_number
    )
    return None if is_crowded else widths


def _narrowest(field: Field, cells: Sequence[Text], wanted: int) -> int:
    if field.is_number:
        return wanted
    longest_word = max((cell_len(word) for cell in cells for word in cell.plain.split()), default=0)
    return max(min(wanted, NARROWEST), longest_word)


def _table(
    fields: Sequence[Field],
    rows: Sequence[Sequence[Text]],
    widths: Sequence[int],
    console: Console,
    *,
    has_header: bool,
) -> Iterator[Text]:
    header = [Text(field.name.plain, style="bold") for field in fields]
    for row in [header, *rows] if has_header else rows:
        folded = [_folded(cell, size, field, console) for cell, size, field in zip(row, widths, fields, strict=True)]
        for line in zip_longest(*folded, fillvalue=Text()):
            sized = zip(line, widths, fields, strict=True)
            joined = Text(_GAP).join([_padded(cell, size, field.is_number) for cell, size, field in sized])
            joined.rstrip()
            yield joined


def _records(
    fields: Sequence[Field], rows: Sequence[Sequence[Text]], console: Console, n_before: int
) -> Iterator[Text]:
    names = max(cell_len(field.name.plain) for field in fields)
    room = max(console.width - names - len(_GAP), NARROWEST)
    for number, row in enumerate(rows, n_before + 1):
        head = f"── {number} "
        yield Text(head + "─" * (console.width - cell_len(head)), style="dim")
        for field, cell in zip(fields, row, strict=True):
            for place, line in enumerate(_folded(cell, room, field, console)):
                name = Text(field.name.plain if place == 0 else "", style="bold")
                whole = Text(_GAP).join([_padded(name, names, False), line])
                whole.rstrip()
                yield whole


def _folded(cell: Text, width: int, field: Field, console: Console) -> list[Text]:
    if field.is_number or (cell_len(cell.plain) <= width and "\n" not in cell.plain):
        return [cell]
    lines = list(cell.wrap(console, width, overflow="fold"))
    for line in lines:
        line.rstrip()
    return lines


def _padded(cell: Text, width: int, is_number: bool) -> Text:
    space = " " * (width - cell_len(cell.plain))
    return Text(space).append_text(cell) if is_number else cell.copy().append(space)


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
DatasetName = Annotated[str, typer.Option("--dataset", "-d", help="Name of the dataset.")]
# Control characters except tab and line feed, separators of lines and paragraphs, marks that turn the direction of
# writing, and halves of surrogate pairs, which no stream can encode.
_OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
# Of numbers that are no whole ones, decimals that are shown; from so many digits on they are shown as powers of ten.
_DECIMALS, _DIGITS = 4, 12
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
    """A console that shows text of a dataset and never obeys it."""

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
    typer.echo(visible(json.dumps(value, ensure_ascii=False, indent=2, default=as_json)))


def print_rows(rows: Sequence[Mapping[str, Any]], *, empty: str, right: Collection[str] = ()) -> None:
    """Print rows as a table where it fits the terminal, else as records; without rows the sentence `empty`.

    right: columns that stand on the right as columns of numbers do, though they hold text.
    """
    if not rows:
        console.print(empty, markup=False)
        return
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    fields = [Field(plain(name), name in right or all(map(_is_number, values))) for name, values in columns.items()]
    show(fields, ([cell(row[name]) for name in columns] for row in rows), console)


def print_plan(plan: Plan) -> None:
    """Print what can be made of a dataset, a sentence a line."""
    for line in plan.lines():
        console.print(f"plan: {line}", markup=False, soft_wrap=True)


def hide_connection_attempts() -> None:
    """Hide what Dagster's storage, and the pool of its connections, say of a database that is gone.

    They are six attempts of five lines per event, and a traceback where a lost connection goes back to the pool;
    the sentence of the error says it once, at the end.
    """
    logging.getLogger().addFilter(_is_no_attempt)
    logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL)


def _is_no_attempt(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith("Retrying failed database")


def cell(value: Any) -> Text | None:
    """A value as it is shown: numbers to four decimals, text on one line, lists and objects as JSON; None stays None.

    >>> [str(cell(value)) for value in (0.89251, Decimal("12.50"), 0.00001234, 7, " a  red\tcircle ", {"n": 1})]
    ['0.8925', '12.50', '1.234e-05', '7', 'a red circle', '{"n": 1}']
    """
    if value is None:
        return None
    if isinstance(value, float | Decimal):
        return Text(_number(value))
    if isinstance(value, dict | list):
        return plain(json.dumps(value, ensure_ascii=False, default=as_json))
    if isinstance(value, datetime):
        return Text(value.isoformat(sep=" ", timespec="seconds"))
    return plain(_WHITE_SPACE.sub(" ", value if isinstance(value, str) else as_json(value)).strip(" "))


def _number(value: float | Decimal) -> str:
    if not math.isfinite(value):
        return str(Decimal(value))
    if isinstance(value, Decimal):
        exponent = value.as_tuple().exponent
        if isinstance(exponent, int) and -exponent <= _DECIMALS:
            return str(value)
    # Four decimals would make a 0 of a small number, and a row of digits of a big one.
    is_plain = value == 0 or 10**-_DECIMALS <= abs(value) < 10**_DIGITS
    return f"{value:.{_DECIMALS}f}" if is_plain else f"{value:.{_DECIMALS}g}"


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float | Decimal) and not isinstance(value, bool))


def as_json(value: Any) -> str:
    """The text of a value that JSON does not know: times in ISO form, bytes in hexadecimal digits."""
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, bytes | memoryview):
        return bytes(value).hex()
    return str(value)
