"""The command `reelsieve`: its subcommands, and its errors with their exit codes."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from assets.datasets.changes import report_dataset_changes
from orchestration.cli import (
    calibrate,
    compare,
    config,
    dagster,
    dataset,
    db,
    demo,
    dg,
    doctor,
    explain,
    export,
    facts,
    ingest,
    init,
    look,
    promise,
    prove,
    rate,
    report,
    requests,
    score,
    search,
    select,
    selections,
    sql,
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
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True)
    ] = False,
    config: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="File of settings to read instead of your own; or set REELSIEVE_CONFIG."),
    ] = None,
    home: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", help="Folder to use as home instead of your own; or set REELSIEVE_HOME."),
    ] = None,
) -> None:
    """Scores, sifts and selects video-caption training data."""
    for name, path in (("config", config), ("home", home)):
        if path == "":
            context.fail(f"The path --{name} is an empty text: give a path (is a shell variable unset?)")
        if path is not None:
            # The processes that this command starts read it too.
            os.environ[f"REELSIEVE_{name.upper()}"] = path


# The commands of `reelsieve --help` by panel, in its order; a group of commands comes last in its panel.
_PANELS: dict[str, dict[str, Callable[..., Any] | typer.Typer]] = {
    "Start here": {
        "demo": demo.demo,
        "try": try_.try_folder,
        "look": look.look,
        "rate": rate.rate,
        "report": report.report,
        "select": select.select,
        "export": export.export,
        "doctor": doctor.doctor,
    },
    "Data": {
        "init": init.init,
        "ingest": ingest.ingest,
        "facts": facts.facts,
        "search": search.search,
        "dataset": dataset.dataset,
    },
    "Scores": {
        "score": score.score,
        "explain": explain.explain,
        "compare": compare.compare,
        "calibrate": calibrate.calibrate,
        "requests": requests.requests,
    },
    "Trust": {"promise": promise.promise, "prove": prove.prove, "stress": stress.stress},
    "Running": {
        "ui": ui.ui,
        "dagster": dagster.dagster,
        "dg": dg.dg,
        "sql": sql.sql,
        "selections": selections.selections,
        "config": config.config,
        "db": db.db,
    },
}


def _add_commands() -> None:
    groups = [app]
    for panel, commands in _PANELS.items():
        for name, command in commands.items():
            if isinstance(command, typer.Typer):
                app.add_typer(command, name=name, rich_help_panel=panel)
                groups.append(command)
            else:
                settings = PASS_THROUGH if name in ("dagster", "dg") else None
                app.command(name, rich_help_panel=panel, context_settings=settings)(command)
    use_dataset_command(*groups)


_add_commands()


def run_cli(stop: StopSignals) -> NoReturn:
    """Run the command that the arguments of this process name, and end with SystemExit; an error prints one sentence on
    standard error. Exit code 1 is a mistake of the user or trouble of the machine, 2 an unusable argument, and 70 a
    fault of the program, logged with its traceback. After a signal an error is raised instead.
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
