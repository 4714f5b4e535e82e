"""The layout of rows for people: a table where it fits the terminal, else records, one below the other."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice, takewhile

from rich.console import Console, RenderableType
from rich.rule import Rule
from rich.style import Style
from rich.table import Column, Table
from rich.text import Text

# Rows that are laid out together: the first rows of a long answer are printed before the last are read.
ROWS_AT_A_TIME = 200
# The most lines that the rows of a table take on average, of texts that are folded.
MOST_LINES = 4
_GAP = 2
_PADDING = (0, _GAP, 0, 0)
_NOTHING = Text("–", style="dim")

Cells = Sequence[Text | None]


def make_column(name: Text, *, is_number: bool) -> Column:
    """Make a column of a printed table. is_number: its cells are numbers, which are right-aligned and never folded."""
    return Column(
        Text(name.plain, "bold"), justify="right" if is_number else "left", no_wrap=is_number, overflow="fold"
    )


def print_table_or_records(columns: Sequence[Column], rows: Iterable[Cells], console: Console) -> int:
    """Print rows as a table, or as records once a block of 200 rows does not fit the console; return how many rows
    there were. A cell of None prints as a dash. All later blocks are records too.
    """
    is_table, n_shown = True, 0
    before: list[Text] = []
    remaining = iter(rows)
    while some := list(islice(remaining, ROWS_AT_A_TIME)):
        lines = lay_out_table(columns, some, console) if is_table else None
        if lines is None:
            is_table = False
            lines = _lay_out_records(columns, some, console, n_shown)
        else:
            header = list(takewhile(_is_bold, lines))
            # Columns that are as wide as before need no other header.
            lines = lines[len(header) :] if header == before else lines
            before = header
        # All at once: each call costs a look at the terminal.
        console.print(Text("\n").join(lines), soft_wrap=True)
        n_shown += len(some)
    return n_shown


def lay_out_table(columns: Sequence[Column], rows: Sequence[Cells], console: Console) -> list[Text] | None:
    """Return the lines of a table of these rows, its header first. None if a number or a word would be wider than its
    column, or the rows take more than four lines on average.
    """
    # Rich would fold a word that stands by itself rather than a text between its words.
    table = Table(
        *(
            replace(column, no_wrap=column.no_wrap or not any(cell and " " in cell.plain for cell in cells), _cells=[])
            for column, cells in zip(columns, zip(*rows, strict=True), strict=True)
        ),
        box=None,
        padding=_PADDING,
        pad_edge=False,
    )
    for row in rows:
        table.add_row(*(_NOTHING if cell is None else cell for cell in row))
    # Measured without a limit, since rich cuts its figure to that of the console.
    if console.measure(table, options=console.options.update(width=sys.maxsize)).minimum > console.width:
        return None
    lines = _render_lines(table, console, console.width)
    return lines if len(lines) <= 1 + MOST_LINES * len(rows) else None


def _is_bold(line: Text) -> bool:
    return any(isinstance(span.style, Style) and span.style.bold for span in line.spans)


def _lay_out_records(columns: Sequence[Column], rows: Sequence[Cells], console: Console, n_before: int) -> list[Text]:
    names = [Text(str(column.header), "bold") for column in columns]
    lines = []
    for number, row in enumerate(rows, n_before + 1):
        record = Table.grid(Column(no_wrap=True), Column(overflow="fold"), padding=_PADDING)
        for name, cell in zip(names, row, strict=True):
            record.add_row(name, _NOTHING if cell is None else cell)
        # A number stays whole, however long it is.
        numbers = [cell.cell_len for column, cell in zip(columns, row, strict=True) if column.no_wrap and cell]
        width = max([console.width, *(max(name.cell_len for name in names) + _GAP + size for size in numbers)])
        lines += _render_lines(Rule(f"── {number}", align="left", style="dim"), console, console.width)
        lines += _render_lines(record, console, width)
    return lines


def _render_lines(renderable: RenderableType, console: Console, width: int) -> list[Text]:
    """Return the lines of a renderable, without white space at their ends."""
    lines = []
    for segments in console.render_lines(renderable, console.options.update(width=width), pad=False):
        line = Text.assemble(*((segment.text, segment.style or "") for segment in segments))
        line.rstrip()
        lines.append(line)
    return lines
