"""The command `reelsieve`: its subcommands, and the exit codes of errors."""

from __future__ import annotations

import os
import sys
from typing import Annotated, NoReturn

import typer

from orchestration.cli import (
    beginning,
    calibrating,
    comparing,
    data,
    database,
    explaining,
    exporting,
    overview,
    querying,
    removing,
    reporting,
    scoring,
    searching,
    selecting,
    selections,
    showcase,
)
from orchestration.cli.output import hide_connection_attempts, print_error
from orchestration.cli.usage import usage_sentence
from orchestration.cli.waits import waits_told
from orchestration.stopping import StopSignals

app = typer.Typer(
    name="reelsieve",
    help="Scores, sifts and selects video-caption training data.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        from importlib.metadata import version

        typer.echo(f"reelsieve {version('reelsieve')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Scores, sifts and selects video-caption training data."""


app.command("demo")(showcase.demo)
app.command("init")(beginning.init)
app.command("ingest")(data.ingest)
app.command("rejects")(data.rejects)
app.command("score")(scoring.score)
app.command("scores")(scoring.scores)
app.command("calibrate")(calibrating.calibrate)
app.command("explain")(explaining.explain)
app.command("compare")(comparing.compare)
app.command("report")(reporting.report)
app.command("select")(selecting.select)
app.command("export")(exporting.export)
app.command("drop")(removing.drop)
app.command("rename")(removing.rename)
app.command("status")(overview.status)
app.command("search")(searching.search)
app.command("sql")(querying.sql)
app.command("prune")(database.prune)
app.command("ui")(overview.ui)
app.command("doctor")(overview.doctor)
app.add_typer(selections.selections, name="selections")
app.add_typer(database.db, name="db")


def run(stop: StopSignals) -> NoReturn:
    """Run the command of the arguments and end with SystemExit. An error ends in one sentence on standard error.

    Exit code 1 means a mistake of the user or trouble of the machine, 2 an argument that cannot be used, and 70 a fault
    of the program, whose traceback goes to a log file. An error after a signal is raised: the signal is what ended it.
    """
    # Models come from local folders or the local cache; a hub is asked only where the user allows it.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    hide_connection_attempts()
    try:
        # Typer would print usage errors in a box; without its standalone mode it raises them, and returns exit codes.
        with waits_told():
            code = app(standalone_mode=False)
        sys.exit(code)
    except BaseException as error:  # also panics of Rust libraries, which are no Exception
        if isinstance(error, SystemExit | KeyboardInterrupt) or stop.received():
            raise
        sys.exit(_reported(error))


def _reported(error: BaseException) -> int:
    """Print the sentence of an error, and return the exit code."""
    if isinstance(error, typer.TyperException):
        if sentence := usage_sentence(error):
            print_error(f"error: {sentence}")
        return error.exit_code
    if isinstance(error, typer.Abort):
        print_error("stopped; nothing was done")
        return 1
    # Imported late: it imports the database drivers, and most commands end without an error.
    from orchestration.cli.errors import judge

    verdict = judge(error)
    print_error(f"error: {verdict.sentence}")
    return verdict.exit_code
