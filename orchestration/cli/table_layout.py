"""The layout of rows for people: a table where it fits the terminal, else records, one below the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

# Rows that are laid out together: the first rows of a long answer are printed before the last are read.
ROWS_AT_A_TIME = 200
# The least width of a column of text, and the most lines that a text in a table is folded over.
NARROWEST = 20
MOST_LINES = 4
_GAP = "  "
_NOTHING = Text("–", style="dim")


@dataclass(frozen=True, slots=True)
class PrintedColumn:
    """The header of a printed column. is_number: its cells are numbers, which are right-aligned and never folded."""

    name: Text
    is_number: bool


Cells = Sequence[Text | None]


def print_table_or_records(fields: Sequence[PrintedColumn], rows: Iterable[Cells], console: Console) -> int:
    """Print rows as a table, or as records once a block of 200 rows does not fit the console; return how many rows
    there were. A cell of None prints as a dash. All later blocks are records too.
    """
    widths: list[int] | None = []
    n_shown = 0
    remaining = iter(rows)
    while some := [[_NOTHING if cell is None else cell for cell in row] for row in islice(remaining, ROWS_AT_A_TIME)]:
        before = widths
        # After one block of records, all blocks are records.
        widths = None if widths is None else compute_table_widths(fields, some, console.width, widths)
        if widths is None:
            lines = _format_records(fields, some, console, n_shown)
        else:
            lines = _format_table(fields, some, widths, console, has_header=widths != before)
        # All at once: each call costs a look at the terminal.
        console.print(Text("\n").join(lines), soft_wrap=True)
        n_shown += len(some)
    return n_shown


def compute_table_widths(
    fields: Sequence[PrintedColumn], rows: Sequence[Sequence[Text]], width: int, at_least: Sequence[int] = ()
) -> list[int] | None:
    """Return the width of every column, in characters, for a table of these rows. None if the table is wider than
    `width`, or a text would be folded over more than four lines. Numbers have all the room that they need; texts share
    what is left. at_least: the widths that the columns have already.

    >>> fields = [PrintedColumn(Text("n"), True), PrintedColumn(Text("text"), False)]
    >>> compute_table_widths(fields, [[Text("12"), Text("a red circle")]], 80)
    [2, 12]
    >>> compute_table_widths(fields, [[Text("12"), Text("a red circle bounces " * 9)]], 80)
    [2, 76]
    >>> compute_table_widths(fields, [[Text("12"), Text("a red circle bounces " * 9)]], 40) is None
    True
    """
    columns = [[field.name, *cells] for field, cells in zip(fields, zip(*rows, strict=True), strict=True)]
    wanted_widths = [max(cell_len(line) for cell in column for line in cell.plain.split("\n")) for column in columns]
    wanted_widths = [max(pair) for pair in zip_longest(wanted_widths, at_least, fillvalue=0)]
    narrowest = [_compute_narrowest_width(*column) for column in zip(fields, columns, wanted_widths, strict=True)]
    room = width - len(_GAP) * (len(fields) - 1) - sum(narrowest)
    if room < 0:
        return None
    widths = narrowest
    # The column that lacks least comes first: the room that it does not take is left for the others.
    hungry = sorted(range(len(fields)), key=lambda i: wanted_widths[i] - narrowest[i])
    for n_left, i in zip(range(len(hungry), 0, -1), hungry, strict=True):
        more = min(wanted_widths[i] - narrowest[i], room // n_left)
        widths[i] += more
        room -= more
    is_crowded = any(
        cell_len(cell.plain) > MOST_LINES * size
        for column, size, field in zip(columns, widths, fields, strict=True)
        for cell in column
        if not field.is_number
    )
    return None if is_crowded else widths


def _compute_narrowest_width(field: PrintedColumn, cells: Sequence[Text], wanted_width: int) -> int:
    if field.is_number:
        return wanted_width
    longest_word = max((cell_len(word) for cell in cells for word in cell.plain.split()), default=0)
    return max(min(wanted_width, NARROWEST), longest_word)


def _format_table(
    fields: Sequence[PrintedColumn],
    rows: Sequence[Sequence[Text]],
    widths: Sequence[int],
    console: Console,
    *,
    has_header: bool,
) -> Iterator[Text]:
    header = [Text(field.name.plain, style="bold") for field in fields]
    for row in [header, *rows] if has_header else rows:
        folded = [_fold_cell(cell, size, field, console) for cell, size, field in zip(row, widths, fields, strict=True)]
        for line in zip_longest(*folded, fillvalue=Text()):
            sized = zip(line, widths, fields, strict=True)
            joined = Text(_GAP).join([_pad_cell(cell, size, field.is_number) for cell, size, field in sized])
            joined.rstrip()
            yield joined


def _format_records(
    fields: Sequence[PrintedColumn], rows: Sequence[Sequence[Text]], console: Console, n_before: int
) -> Iterator[Text]:
    names = max(cell_len(field.name.plain) for field in fields)
    room = max(console.width - names - len(_GAP), NARROWEST)
    for number, row in enumerate(rows, n_before + 1):
        head = f"── {number} "
        yield Text(head + "─" * (console.width - cell_len(head)), style="dim")
        for field, cell in zip(fields, row, strict=True):
            for place, line in enumerate(_fold_cell(cell, room, field, console)):
                name = Text(field.name.plain if place == 0 else "", style="bold")
                whole = Text(_GAP).join([_pad_cell(name, names, False), line])
                whole.rstrip()
                yield whole


def _fold_cell(cell: Text, width: int, field: PrintedColumn, console: Console) -> list[Text]:
    if field.is_number or (cell_len(cell.plain) <= width and "\n" not in cell.plain):
        return [cell]
    lines = list(cell.wrap(console, width, overflow="fold"))
    for line in lines:
        line.rstrip()
    return lines


def _pad_cell(cell: Text, width: int, is_number: bool) -> Text:
    space = " " * (width - cell_len(cell.plain))
    return Text(space).append_text(cell) if is_number else cell.copy().append(space)
