"""The commands db start, stop, url, migrate, dump, restore and prune: the database server and its schema."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestration.cli.output import AsJson, console, print_error, print_json, print_rows, print_sentence, show_progress
from orchestration.cli.pass_installation import pass_installation
from orchestration.cli.refusals import RequestRefused

if TYPE_CHECKING:
    from orchestration.installation import Installation

db = typer.Typer(help="Start, stop, back up, restore and prune the database.", no_args_is_help=True)


@db.command()
@pass_installation
def start(
    installation: Installation,
    listen: Annotated[
        bool | None,
        typer.Option(
            "--listen/--no-listen", help="Listen on 127.0.0.1 with a password, or on no port; later starts do the same."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Start the embedded Postgres if it is not running, and print its URL."""
    from db.server.urls import format_url

    _refuse_foreign_server(installation, "start")
    if listen is not None:
        _set_listening(installation, listen)
    shown = format_url(installation.database_url)
    _print_answer({"url": shown}, shown, as_json)


def _set_listening(installation: Installation, is_wanted: bool) -> None:
    from assets.metrics.registry import METRIC_INPUTS, SOURCE_TABLES
    from db.schema.migrate import migrate as run_migrations
    from db.server.access import start_listening, stop_listening

    home = installation.home
    # The reader's password follows from the owner's.
    run_migrations(start_listening(home) if is_wanted else stop_listening(home), METRIC_INPUTS, SOURCE_TABLES)


@db.command()
@pass_installation
def stop(installation: Installation, as_json: AsJson = False) -> None:
    """Stop the embedded Postgres if it is running. Its data stays."""
    from db.server.embedded import stop_embedded

    _refuse_foreign_server(installation, "stop")
    stopped = stop_embedded(installation.home)
    _print_answer({"stopped": stopped}, "stopped" if stopped else "the server was not running", as_json)


@db.command()
@pass_installation
def url(
    installation: Installation,
    reader: Annotated[
        bool, typer.Option("--reader", help="Print the URL of the read-only role, with its password.")
    ] = False,
    owner: Annotated[bool, typer.Option("--owner", help="Print the URL of the owner, with its password.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print the database's URL, for psql or a notebook; its password is hidden unless a role is named."""
    from db.server.access import format_owner_url
    from db.server.reader import format_reader_url
    from db.server.urls import format_url

    if reader and owner:
        raise RequestRefused("--reader and --owner cannot be combined: give one of them")
    if reader:
        shown = format_reader_url(installation.engine.url)
    else:
        shown = (format_owner_url if owner else format_url)(installation.database_url)
    _print_answer({"url": shown}, shown, as_json)


@db.command()
@pass_installation
def migrate(installation: Installation, as_json: AsJson = False) -> None:
    """Create the databases if they are missing, and bring their tables to the newest revision."""
    from assets.metrics.registry import METRIC_INPUTS, SOURCE_TABLES
    from db.schema.migrate import migrate as run_migrations

    revision = run_migrations(installation.database_url, METRIC_INPUTS, SOURCE_TABLES)
    _print_answer({"revision": revision}, f"the schema is at revision {revision}", as_json)


@db.command()
@pass_installation
def dump(
    installation: Installation,
    folder: Annotated[Path, typer.Argument(help="Folder to create for the back-up.")],
    as_json: AsJson = False,
) -> None:
    """Write a back-up of both databases, the curation database and Dagster's, into a new folder."""
    from db.schema.migrate import REVISION
    from db.server.backup import write_backup

    url = installation.engine.url
    with show_progress() as tell:
        written = write_backup(url, folder, REVISION, tell)
    _print_answer({"path": str(written)}, f"written to {written}", as_json)


@db.command()
@pass_installation
def restore(
    installation: Installation,
    folder: Annotated[Path, typer.Argument(help="Folder that reelsieve db dump wrote.")],
    as_json: AsJson = False,
) -> None:
    """Fill empty databases from a back-up, and bring their tables to the newest revision.

    Only rows are taken from it, into tables that Reelsieve makes: no code of a back-up is run.
    """
    from assets.metrics.registry import METRIC_INPUTS, SOURCE_TABLES
    from db.schema.migrate import REVISION
    from db.server.restore import restore_backup
    from orchestration.installation import create_dagster_tables

    with show_progress() as tell:
        left_out = restore_backup(
            installation.database_url, folder, METRIC_INPUTS, SOURCE_TABLES, create_dagster_tables, tell
        )
    if left_out is None:
        print_error("note: this back-up was restored here before, so nothing was restored now; data stored since stays")
    elif left_out:
        names = ", ".join(left_out)
        print_error(f"note: left out, since no installed package has these tables: {names}")
    done = "nothing was restored" if left_out is None else "restored"
    _print_answer({"revision": REVISION}, f"{done}; the schema is at revision {REVISION}", as_json)


@db.command()
@pass_installation
def prune(
    installation: Installation,
    days: Annotated[int, typer.Option(min=1, help="Number of days to keep Dagster's runs and ticks.")] = 30,
    yes: Annotated[
        bool, typer.Option("--yes", help="Delete the data; without this option they are only listed.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List data that nothing needs: old runs and ticks of Dagster, evidence of retired scorers. With --yes delete it.

    Scores, their history and selections are never deleted.
    """
    from orchestration import retention

    prunable = retention.load_prunable_data(installation, days)
    if yes:
        retention.delete_prunable_data(installation, prunable)
    if as_json:
        print_json({"deleted": yes, "found": prunable.rows})
        return
    print_rows(prunable.rows, empty="nothing to delete")
    if prunable.rows:
        print_sentence("deleted" if yes else "nothing was deleted: add --yes to delete what is listed")


def _print_answer(value: dict[str, Any], sentence: str, as_json: bool) -> None:
    """Print a value as JSON, or else a sentence that says the same."""
    if as_json:
        print_json(value)
    else:
        console.print(sentence)


def _refuse_foreign_server(installation: Installation, verb: str) -> None:
    if installation.settings.database_url:
        raise RequestRefused(
            f"CURATION_DB_URL names a server that Reelsieve does not {verb}: {verb} it with its own tools"
        )
