"""The command `reelsieve`: its subcommands, usage errors and exit codes, and waits for locks told while it runs."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from assets.work import one_work
from orchestration.cli import (
    configuring,
    database,
    drop,
    explaining,
    export,
    ingest,
    init,
    looking,
    passing,
    querying,
    rejects,
    rename,
    reporting,
    scoring,
    select,
    selections,
    showcase,
    trying,
)
from orchestration.cli.output import hide_connection_attempts, print_error
from orchestration.stopping import StopSignals

# Arguments that cannot be used: said in one sentence, like every other error of the command line.

_EXPECTED = {"float_parsing": "is no number", "int_parsing": "is no whole number"}
_PERCENT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*")
_DECIMAL_COMMA = re.compile(r"\s*\d*,\d+\s*")


def usage_sentence(error: typer.TyperException) -> str:
    """Say what is wrong with the arguments, and where the right ones are listed; nothing where the help was shown."""
    said = (_about_value(error) or error.format_message()).strip().removesuffix(".")
    if not said:
        return ""
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "reelsieve"
    return f"{said[0].lower()}{said[1:]} (see {command} --help)"


def _about_value(error: typer.TyperException) -> str:
    """Name the value that is refused, which Typer's own message often leaves out; nothing for other errors."""
    # The error of pydantic, by which Typer reads values; it is not imported, since most commands end without one.
    problems = getattr(error.__cause__, "errors", None)
    parameter = getattr(error, "param", None)
    if problems is None or parameter is None:
        return ""
    problem = problems(include_url=False)[0]
    value, name = problem["input"], parameter.get_error_hint().split(" / ")[0].strip("'")
    if expected := _EXPECTED.get(problem["type"]):
        return f"{name}: {value!r} {expected}{_as_number(str(value))}"
    return f"{name}: {problem['msg'].removeprefix('Value error, ').replace('Input', repr(value), 1)}"


def _as_number(text: str) -> str:
    """The remedy for a percentage or a decimal comma.

    >>> _as_number("12.5%"), _as_number("0,5"), _as_number("half")
    (': write 0.125', ': write 0.5', '')
    """
    if percent := _PERCENT.fullmatch(text):
        return f": write {float(percent[1]) / 100:g}"
    return f": write {float(text.replace(',', '.')):g}" if _DECIMAL_COMMA.fullmatch(text) else ""


# Waits for locks of others, told on standard error while a command runs.

_FIRST_LOOK_S = 2.0


@contextmanager
def waits_told() -> Iterator[None]:
    """Tell the waits of the command that runs meanwhile. One that is done soon imports and connects nothing for it."""
    ended = threading.Event()
    thread = threading.Thread(target=_tell, args=[ended], name="waits", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(1.0)


def _tell(ended: threading.Event) -> None:
    while not ended.wait(_FIRST_LOOK_S):
        # Every command that uses the database has imported it by now, or is about to; its import may be under way.
        installed = getattr(sys.modules.get("orchestration.platform"), "installed", None)
        url = installed().known_url() if installed and installed.cache_info().currsize else None
        if url is not None:
            from db.server.reader import READER
            from db.server.waits import Watch
            from orchestration.terminal import say

            Watch(READER, lambda line: say("database", line)).run(url, ended)
            return


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
app.command("try")(trying.try_folder)
app.command("init")(init.init)
app.command("ingest")(ingest.ingest)
app.command("rejects")(rejects.rejects)
app.command("facts")(explaining.facts)
app.command("score")(scoring.score)
app.command("scores")(scoring.scores)
app.command("calibrate")(scoring.calibrate)
app.command("explain")(explaining.explain)
app.command("look")(looking.look)
app.command("rate")(looking.rate)
app.command("compare")(reporting.compare)
app.command("report")(reporting.report)
app.command("select")(select.select)
app.command("export")(export.export)
app.command("drop")(drop.drop)
app.command("rename")(rename.rename)
app.command("status")(reporting.status)
app.command("search")(querying.search)
app.command("sql")(querying.sql)
app.command("prune")(database.prune)
app.command("ui")(reporting.ui)
app.command("dagster", context_settings=passing.THEIRS)(passing.dagster)
app.command("dg", context_settings=passing.THEIRS)(passing.dg)
app.command("doctor")(reporting.doctor)
app.add_typer(configuring.config, name="config")
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
    # Torch makes the folder of its compiler when transformers is imported, by default among the temporary files of all
    # users. Nothing is compiled here, so a folder that exists will do.
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path(__file__).resolve().parent))
    hide_connection_attempts()
    try:
        # Typer would print usage errors in a box; without its standalone mode it raises them, and returns exit codes.
        with waits_told(), one_work():
            code = app(prog_name="reelsieve", standalone_mode=False)
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
