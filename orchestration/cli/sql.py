"""The command sql: runs a query by a role that may only read."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestration.cli.output import AsJson, print_error
from orchestration.cli.pass_installation import pass_installation
from orchestration.cli.refusals import UsageError
from orchestration.cli.sql_answer import print_answer, print_csv, print_json_rows

if TYPE_CHECKING:
    from db.server.reader import QueryResult
    from orchestration.installation import Installation

STANDARD_INPUT = "-"


@pass_installation
def sql(
    installation: Installation,
    query: Annotated[
        str | None,
        typer.Argument(help="Statement in SQL; `-`, or nothing in a pipe: standard input; none on a terminal: ask."),
    ] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="File to read the statement from.")] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV instead of a table.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print the answer to a SQL query as a table, as CSV or as JSON. The query may only read.

    On a terminal and without a query, read several until Ctrl-D.

    Begin with: reelsieve sql "SELECT relation, meaning FROM dictionary WHERE what = 'view' AND column_name IS NULL"
    """
    if as_csv and as_json:
        raise UsageError("--csv and --json cannot be combined: give one of them")
    show = print_csv if as_csv else print_json_rows if as_json else print_answer
    if query is None and file is None and sys.stdin.isatty() and sys.stdout.isatty():
        for statement in _ask_statements():
            _run_statement(installation, statement, show)
    elif not _run_statement(installation, _read_statement(query, file), show):
        raise typer.Exit(1)


def _run_statement(installation: Installation, statement: str, show: Callable[[QueryResult], None]) -> bool:
    """Print the answer to a statement, or why there is none, and return whether there is one."""
    from db.server.reader import QueryError, open_read_only_query
    from orchestration.passwords import hide_passwords

    try:
        url = installation.engine.url
        with open_read_only_query(url, statement, tell=lambda note: typer.echo(f"note: {note}", err=True)) as answer:
            show(answer)
    except QueryError as error:
        print_error(hide_passwords(f"error: {error}\n{error.place}".rstrip()))
        return False
    return True


def _ask_statements() -> Iterator[str]:
    """Yield the statements that are typed on the terminal, each ended by a semicolon, until \\q or Ctrl-D."""
    with suppress(ImportError):
        import readline  # noqa: F401  # lets input() edit lines and remember them

    print_error("Write SQL, ended by ; (\\q or Ctrl-D ends). SELECT * FROM dictionary; lists what there is.")
    lines: list[str] = []
    while True:
        try:
            line = input("      ...> " if lines else "reelsieve> ")
        except EOFError:
            typer.echo()
            return
        if line.strip().rstrip(";") in ("\\q", "quit", "exit"):
            return
        lines.append(line)
        statement = "\n".join(lines)
        # A semicolon inside a quoted text does not end it.
        if not statement.strip() or (statement.rstrip().endswith(";") and statement.count("'") % 2 == 0):
            lines.clear()
            if statement.strip(" \n\t;"):
                yield statement


def _read_statement(query: str | None, file: Path | None) -> str:
    if query is not None and file is not None:
        raise UsageError("a query and --file cannot be combined: give one of them")
    if file is not None:
        return _require_statement(_read_statement_file(file), f"file {file}")
    if query is not None and query != STANDARD_INPUT:
        return _require_statement(query, "the query")
    if query is None and sys.stdin.isatty():
        raise UsageError('a query is missing: give it in quotes ("SELECT ..."), as --file FILE, or on standard input')
    return _require_statement(sys.stdin.read(), "standard input")


def _read_statement_file(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"file {file} cannot be read ({error.strerror}): name a file with one SQL statement") from None
    except UnicodeDecodeError:
        raise UsageError(f"file {file} is not UTF-8: save it as UTF-8") from None


def _require_statement(text: str, where: str) -> str:
    if not text.strip():
        raise UsageError(f"{where} is empty: write one SQL statement, such as SELECT * FROM dataset_summary")
    return text
