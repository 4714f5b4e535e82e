"""The command `reelsieve`: its subcommands, and its errors with their exit codes."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from assets.dataset_changes import report_dataset_changes
from orchestration.cli import (
    calibrate,
    compare,
    config,
    dagster,
    db,
    demo,
    dg,
    doctor,
    drop,
    explain,
    export,
    facts,
    holds,
    ingest,
    init,
    look,
    prove,
    prune,
    rate,
    rejects,
    report,
    score,
    scores,
    search,
    select,
    selections,
    sql,
    status,
    stress,
    try_,
    ui,
)
from orchestration.cli.dagster_program import PASS_THROUGH
from orchestration.cli.dataset_argument import use_dataset_command
from orchestration.cli.output import hide_connection_attempts, print_error
from orchestration.cli.usage_sentence import explain_usage_error
from orchestration.cli.waits import report_waits
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


app.command("demo")(demo.demo)
app.command("try")(try_.try_folder)
app.command("init")(init.init)
app.command("ingest")(ingest.ingest)
app.command("rejects")(rejects.rejects)
app.command("facts")(facts.facts)
app.command("score")(score.score)
app.command("scores")(scores.scores)
app.command("calibrate")(calibrate.calibrate)
app.command("explain")(explain.explain)
app.command("look")(look.look)
app.command("rate")(rate.rate)
app.command("compare")(compare.compare)
app.command("stress")(stress.stress)
app.command("report")(report.report)
app.command("select")(select.select)
app.command("prove")(prove.prove)
app.command("export")(export.export)
app.command("holds")(holds.holds)
app.command("drop")(drop.drop)
app.command("status")(status.status)
app.command("search")(search.search)
app.command("sql")(sql.sql)
app.command("prune")(prune.prune)
app.command("ui")(ui.ui)
app.command("dagster", context_settings=PASS_THROUGH)(dagster.dagster)
app.command("dg", context_settings=PASS_THROUGH)(dg.dg)
app.command("doctor")(doctor.doctor)
app.add_typer(config.config, name="config")
app.add_typer(selections.selections, name="selections")
app.add_typer(db.db, name="db")
use_dataset_command(app, config.config, selections.selections, db.db)


def run_cli(stop: StopSignals) -> NoReturn:
    """Run the command that the arguments of this process name, and end with SystemExit; an error prints one sentence on
    standard error. Exit code 1 means a mistake of the user or trouble of the machine, and 2 an argument that cannot be
    used. 70 is a fault of the program, whose traceback goes to a log file. After a signal, which `stop` has seen, an
    error is raised instead.
    """
    # Models come from local folders or the local cache; a hub is asked only where the user allows it.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    # Torch makes the folder of its compiler when transformers is imported, by default among the temporary files of all
    # users. Nothing is compiled here, so a folder that exists will do.
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path(__file__).resolve().parent))
    hide_connection_attempts()
    # Warnings of libraries, such as of a division by zero, are none of the person's.
    logging.getLogger("py.warnings").propagate = False
    logging.getLogger("py.warnings").addHandler(logging.NullHandler())
    logging.captureWarnings(True)
    try:
        # Typer would print usage errors in a box; without its standalone mode it raises them, and returns exit codes.
        with report_waits(), report_dataset_changes():
            code = app(prog_name="reelsieve", standalone_mode=False)
        sys.exit(code)
    except BaseException as error:  # also panics of Rust libraries, which are no Exception
        if isinstance(error, SystemExit | KeyboardInterrupt) or stop.find_signal():
            raise
        sys.exit(_print_error_report(error))
    finally:
        logging.captureWarnings(False)


def _print_error_report(error: BaseException) -> int:
    """Print the sentence of an error on standard error, and return the exit code."""
    if isinstance(error, typer.TyperException):
        if sentence := explain_usage_error(error):
            print_error(f"error: {sentence}")
        return error.exit_code
    if isinstance(error, typer.Abort):
        print_error("stopped; nothing was done")
        return 1
    # Imported late: it imports the database drivers, and most commands end without an error.
    from orchestration.cli.errors import report_error

    verdict = report_error(error)
    print_error(f"error: {verdict.sentence}")
    return verdict.exit_code
