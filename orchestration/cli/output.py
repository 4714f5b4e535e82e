"""How commands print: tables for people, JSON for programs."""

from __future__ import annotations

import json
import logging
import math
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.status import Status
from rich.text import Text

from assets.progress import throttle_lines
from assets.words.text import escape_controls
from orchestration.cli.table_layout import lay_out_table, make_column, print_table_or_records

if TYPE_CHECKING:
    from assets.planning.plan import Plan
    from assets.reports.answer_records import ReportAnswers


Wide = Annotated[bool, typer.Option("--wide", help="Show all columns, also those that the terminal has no room for.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
DatasetName = Annotated[str, typer.Option("--dataset", "-d", help="Name of the dataset.")]
# Decimals that are shown of numbers with a fraction; from so many digits on they are shown as powers of ten.
_DECIMALS, _DIGITS = 4, 12
_WHITE_SPACE = re.compile(r"[ \t\r\n]+")


def make_plain_text(text: str) -> Text:
    """Return a rich Text of exactly these characters, without markup; characters that a terminal would obey are
    escaped.
    """
    return Text(escape_controls(text))


class SafeConsole(Console):
    """A rich console that prints a text as it is, without markup, on one line, and escapes every character that a
    terminal would obey. stderr: print on standard error instead of standard output.
    """

    def __init__(self, *, stderr: bool = False) -> None:
        # Text of a dataset is printed as it is, also "[red]" and ":dog:".
        super().__init__(stderr=stderr, highlight=False, emoji=False, markup=False, soft_wrap=True)

    def render_str(self, text: str, **options: Any) -> Text:
        """Return rich's rendering of the text, with every character escaped that a terminal would obey. Rich calls it
        for every string that it prints.
        """
        return super().render_str(escape_controls(text), **options)


console = SafeConsole()


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a command on standard error: a call shows a sentence in place of the one before."""

    status: Status
    tell: Callable[[str], None]

    def __call__(self, line: str) -> None:
        """Show a sentence as progress."""
        self.tell(line)

    def confirm(self, question: str) -> bool:
        """Ask the question on the terminal and return the answer, which is yes by default."""
        self.status.stop()
        answer = typer.confirm(escape_controls(question), default=True, err=True)
        self.status.start()
        return answer


@contextmanager
def show_progress() -> Iterator[Progress]:
    """Yield a function that prints its sentence on standard error as progress, and can ask. On a terminal a sentence
    replaces the one before; elsewhere lines are printed only now and then.
    """
    folding = SafeConsole(stderr=True)
    # Rich would cut a sentence that is replaced by the next one where it is as wide as the terminal.
    folding.soft_wrap = False
    with folding.status("") as status:
        if status.console.is_terminal:
            yield Progress(status, lambda line: status.update(make_plain_text(line)))
        else:
            yield Progress(status, throttle_lines(lambda line: typer.echo(escape_controls(line), err=True)))


def print_error(sentence: str) -> None:
    """Print a sentence on standard error, with every character escaped that a terminal would obey."""
    typer.echo(escape_controls(sentence), err=True)


def print_json(value: Any) -> None:
    """Print a value as indented JSON on standard output; times and unknown types become text. Characters that a
    terminal would obey are escaped.
    """
    typer.echo(escape_controls(json.dumps(value, ensure_ascii=False, indent=2, default=format_json_default)))


def print_rows(
    rows: Sequence[Mapping[str, Any]],
    *,
    empty: str,
    right: Collection[str] = (),
    kept: Collection[str] | None = None,
) -> None:
    """Print rows as a table if it fits the terminal, else as records one below the other; without rows print the
    sentence `empty`. The keys of the first row are the columns. right: columns that are right-aligned as columns of
    numbers are, although they hold text.

    kept: columns that are always shown; of the others the last ones are left out where the terminal has no room, and a
    line names them. None shows all columns.
    """
    if not rows:
        console.print(empty)
        return
    names = list(rows[0])
    cells = {name: [format_cell(row[name]) for row in rows] for name in names}
    columns = {
        name: make_column(make_plain_text(name), is_number=name in right or all(_is_number(row[name]) for row in rows))
        for name in names
    }
    left_out: list[str] = []
    while True:
        shown, lines = [columns[name] for name in names], list(zip(*(cells[name] for name in names), strict=True))
        droppable = [] if kept is None else [name for name in names if name not in kept]
        if not droppable or lay_out_table(shown, lines, console) is not None:
            break
        names.remove(droppable[-1])
        left_out.insert(0, droppable[-1])
    print_table_or_records(shown, lines, console)
    if left_out:
        print_sentence(f"--wide also shows {', '.join(left_out)}")


def print_plan(plan: Plan) -> None:
    """Print the sentences of a plan on standard output, one a line."""
    for line in plan.format_lines():
        print_sentence(f"plan: {line}")


def print_end(answers: ReportAnswers, page: Path, dataset: str, *, has_captions: bool) -> None:
    """Print the end of a command that has written a page: its answers and path, and the commands that show a dataset,
    let people rate it and write the page again. has_captions: whether there is anything to rate.
    """
    name = shlex.quote(dataset)
    rate = [f"reelsieve rate {name} --aspect overall"] if has_captions else []
    commands = (f"reelsieve look {name}", *rate, f"reelsieve report --dataset {name}")
    for what, line in (*answers.format_lines(), ("page", str(page)), *(("next", command) for command in commands)):
        console.print(f"{what}: {line}")


def print_sentence(sentence: str, *, style: str = "") -> None:
    """Print a sentence on standard output: folded between words on a terminal, else on one line. style: how a terminal
    shows it, such as bold.
    """
    console.print(sentence, style=style, soft_wrap=not console.is_terminal)


def hide_connection_attempts() -> None:
    """Silence the log lines of Dagster and SQLAlchemy about a lost connection to the database, for the rest of this
    process. The command's own error reports it once.

    They are six attempts of five lines per event, and a traceback when a lost connection goes back to the pool.
    """
    logging.getLogger().addFilter(_is_no_attempt)
    logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL)


def _is_no_attempt(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith("Retrying failed database")


def format_cell(value: Any) -> Text | None:
    """Return a value as a table cell: numbers with at most four decimals, text on one line, lists and objects as JSON.
    Very small and very large numbers get powers of ten; None stays None. Characters that a terminal would obey are
    escaped.

    >>> [str(format_cell(value)) for value in (0.89251, Decimal("12.50"), 0.00001234, 7, " a  red\tcircle ", {"n": 1})]
    ['0.8925', '12.50', '1.234e-05', '7', 'a red circle', '{"n": 1}']
    """
    if value is None:
        return None
    if isinstance(value, float | Decimal):
        return Text(_format_number(value))
    if isinstance(value, dict | list):
        return make_plain_text(json.dumps(value, ensure_ascii=False, default=format_json_default))
    if isinstance(value, datetime):
        return Text(value.isoformat(sep=" ", timespec="seconds"))
    return make_plain_text(
        _WHITE_SPACE.sub(" ", value if isinstance(value, str) else format_json_default(value)).strip(" ")
    )


def _format_number(value: float | Decimal) -> str:
    if not math.isfinite(value):
        return str(Decimal(value))
    if isinstance(value, Decimal):
        exponent = value.as_tuple().exponent
        if isinstance(exponent, int) and -exponent <= _DECIMALS:
            return str(value)
    # Four decimals would show a small number as 0, and a big one as a row of digits.
    is_plain = value == 0 or 10**-_DECIMALS <= abs(value) < 10**_DIGITS
    return f"{value:.{_DECIMALS}f}" if is_plain else f"{value:.{_DECIMALS}g}"


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float | Decimal) and not isinstance(value, bool))


def format_json_default(value: Any) -> str:
    """Return the text of a value that JSON does not know: times in ISO form, bytes in hexadecimal digits, anything else
    by str.
    """
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, bytes | memoryview):
        return bytes(value).hex()
    return str(value)
