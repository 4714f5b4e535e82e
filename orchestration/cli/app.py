"""The command `reelsieve`: its subcommands, and what becomes of errors."""

from __future__ import annotations

import os
import sys

import typer

from orchestration.cli import checklists, data, database, overview, scoring, selecting, showcase
from orchestration.cli.output import hide_connection_attempts

STOPPED_BY_HAND = 130
app = typer.Typer(
    name="reelsieve",
    help="Scores, sifts and selects video-caption training data.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(showcase.demo)
app.command("ingest")(data.ingest)
app.command("rejects")(data.rejects)
app.command("score")(scoring.score)
app.command("scores")(scoring.scores)
app.command("calibrate")(checklists.calibrate)
app.command("explain")(checklists.explain)
app.command("select")(selecting.select)
app.command("export")(selecting.export)
app.command("status")(overview.status)
app.command("sql")(database.sql)
app.command("ui")(overview.ui)
app.command("doctor")(overview.doctor)
app.add_typer(database.db, name="db")


def main() -> None:
    """Run the command line. A user's mistake ends in one sentence on standard error and exit code 1."""
    # Models come from local folders or the local cache; a hub is asked only where the user allows it.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    hide_connection_attempts()
    try:
        app()
    except SystemExit as end:
        # Typer makes a Ctrl-C into this exit code and says nothing.
        if end.code == STOPPED_BY_HAND:
            typer.echo("stopped; the same command goes on from here", err=True)
        raise
    except Exception as error:
        # Imported late: it needs Dagster, which takes seconds, and most commands end well.
        from orchestration.cli.errors import explain

        sentence = explain(error)
        if sentence is None:
            raise
        typer.echo(f"error: {sentence}", err=True)
        sys.exit(1)
