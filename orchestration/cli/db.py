"""The commands db start, stop, url, migrate, dump and restore: the database server and its schema."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestration.cli.installation import with_installation
from orchestration.cli.output import AsJson, console, print_error, print_json, progress
from orchestration.cli.refusals import Refused

if TYPE_CHECKING:
    from orchestration.platform import Installation

db = typer.Typer(help="The database server and its schema.", no_args_is_help=True)


@db.command()
@with_installation
def start(
    installation: Installation,
    listen: Annotated[
        bool | None,
        typer.Option("--listen/--no-listen", help="Whether it listens on 127.0.0.1, with a password; remembered."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Start the embedded Postgres if it is not running, and print its URL."""
    _refuse_foreign_server(installation, "start")
    if listen is not None:
        _let_listen(installation, listen)
    _show_url(installation, as_json)


def _let_listen(installation: Installation, is_wanted: bool) -> None:
    from assets.scores.registry import METRIC_INPUTS, SOURCE_TABLES
    from db.schema.migrate import migrate as run_migrations
    from db.server.access import listen, listen_no_more

    home = installation.home
    # The reader's password follows from the owner's.
    run_migrations(listen(home) if is_wanted else listen_no_more(home), METRIC_INPUTS, SOURCE_TABLES)


@db.command()
@with_installation
def stop(installation: Installation, as_json: AsJson = False) -> None:
    """Stop the embedded Postgres. Its data stays."""
    from db.server.embedded import stop_embedded

    _refuse_foreign_server(installation, "stop")
    stopped = stop_embedded(installation.home)
    if as_json:
        print_json({"stopped": stopped})
    else:
        console.print("stopped" if stopped else "it was not running")


@db.command()
@with_installation
def url(
    installation: Installation,
    reader: Annotated[bool, typer.Option("--reader", help="That of the role that may only read, complete.")] = False,
    owner: Annotated[bool, typer.Option("--owner", help="That of the owner, complete.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print the database's URL, for psql or a notebook; its password is hidden unless a role is named."""
    from db.server.access import owner_url
    from db.server.reader import reader_url

    if reader and owner:
        raise Refused("--reader and --owner are two roles: name one of them")
    if reader:
        _show(reader_url(installation.engine.url), as_json)
    elif owner:
        _show(owner_url(installation.database_url), as_json)
    else:
        _show_url(installation, as_json)


@db.command()
@with_installation
def migrate(installation: Installation, as_json: AsJson = False) -> None:
    """Create the databases and bring the tables to the newest revision."""
    from assets.scores.registry import METRIC_INPUTS, SOURCE_TABLES
    from db.schema.migrate import migrate as run_migrations

    revision = run_migrations(installation.database_url, METRIC_INPUTS, SOURCE_TABLES)
    if as_json:
        print_json({"revision": revision})
    else:
        console.print(f"the schema is at revision {revision}")


@db.command()
@with_installation
def dump(
    installation: Installation,
    folder: Annotated[Path, typer.Argument(help="A new folder for the back-up.")],
    as_json: AsJson = False,
) -> None:
    """Write a back-up of both databases, the curation database and Dagster's, into a new folder."""
    from db.schema.migrate import REVISION
    from db.server.backup import dump as write

    url = installation.engine.url
    with progress() as tell:
        written = write(url, folder, REVISION, tell)
    if as_json:
        print_json({"path": str(written)})
    else:
        console.print(f"written to {written}", markup=False)


@db.command()
@with_installation
def restore(
    installation: Installation,
    folder: Annotated[Path, typer.Argument(help="A folder that reelsieve db dump wrote.")],
    as_json: AsJson = False,
) -> None:
    """Fill databases that hold nothing from a back-up, and bring them to the newest revision.

    Rows alone are taken from it, into tables that Reelsieve makes: nothing of a back-up is run.
    """
    from assets.scores.registry import METRIC_INPUTS, SOURCE_TABLES
    from db.schema.migrate import REVISION
    from db.server.restore import restore as fill
    from orchestration.platform import make_dagster_tables

    with progress() as tell:
        left_out = fill(installation.database_url, folder, METRIC_INPUTS, SOURCE_TABLES, make_dagster_tables, tell)
    if left_out is None:
        print_error("note: this back-up was restored here before; what came since stays")
    elif left_out:
        names = ", ".join(left_out)
        print_error(f"note: left out, since nothing that is installed makes such a table: {names}")
    if as_json:
        print_json({"revision": REVISION})
    else:
        console.print(f"restored; the schema is at revision {REVISION}")


def _show_url(installation: Installation, as_json: bool) -> None:
    from db.server.urls import shown_url

    _show(shown_url(installation.database_url), as_json)


def _show(shown: str, as_json: bool) -> None:
    if as_json:
        print_json({"url": shown})
    else:
        console.print(shown, soft_wrap=True, markup=False)


def _refuse_foreign_server(installation: Installation, verb: str) -> None:
    if installation.settings.database:
        raise Refused(f"CURATION_DB_URL is set: {verb} that server with its own tools")
