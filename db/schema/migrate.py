"""Create the databases, bring the schema to its newest revision, and update the reader role and the views."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection

from db.schema import METADATA
from db.schema.marks import MetricInputs
from db.schema.views import create_views, delete_views
from db.server.conflicts import retry_conflicts
from db.server.engine import build_connection_error, open_engine
from db.server.leases import Leases
from db.server.reader import create_reader_role
from db.server.urls import CURATION, DAGSTER, DatabaseUnavailable, build_sibling_url, format_user

if TYPE_CHECKING:
    from alembic.config import Config

# The newest migration. Alembic itself is imported only to migrate: most commands find the schema as it should be.
REVISION = "0001_6e7abc00"
MIGRATIONS = Path(__file__).parents[1] / "migrations"
_ALREADY_THERE = (
    psycopg.errors.DuplicateTable,
    psycopg.errors.DuplicateFunction,
    psycopg.errors.DuplicateObject,
)


@retry_conflicts
def migrate(url: URL, metrics: MetricInputs, tables: Sequence[sa.Table] = ()) -> str:
    """Create the missing databases and tables, upgrade the schema to the newest revision, and return that revision.
    Also updates views, comments, triggers and the reader role. Several processes may call it at once: they wait for
    each other, and a conflict is tried again.

    metrics: the inputs of every metric's scores, by the metric's name, which becomes a column of view sample_scores.
    tables: the tables of installed sources outside this schema. Raises DatabaseUnavailable if a database cannot be
    created or is of another version, or pgvector is not installed on the server.
    """
    for name in (url.database or CURATION, DAGSTER):
        _create_database(url, name)
    engine = open_engine(url)
    try:
        with _hold_migration_lease(url), engine.begin() as connection:
            revoke_public_access(connection, DAGSTER)
            upgrade_schema(connection, url, metrics, tables)
            return REVISION
    finally:
        engine.dispose()


def upgrade_schema(connection: Connection, url: URL, metrics: MetricInputs, tables: Sequence[sa.Table]) -> None:
    """Create or upgrade the tables of an existing database, in the connection's transaction, with its views and the
    reader role. metrics: the inputs of every metric's scores. tables: those of installed sources. Raises
    DatabaseUnavailable if pgvector is missing, no migration leads from the schema's revision to the newest one, or only
    a part of the tables is there.
    """
    revision = _find_revision(connection)
    if revision is None:
        try:
            create_tables(connection, url)
        except sa.exc.ProgrammingError as error:
            if not isinstance(error.orig, _ALREADY_THERE):
                raise
            raise _build_refusal(url, "has some of Reelsieve's tables but no revision") from None
    elif revision != REVISION:
        if revision not in list_revisions():
            version = f"schema {revision}, this one has {REVISION}"
            raise _build_refusal(url, f"was made by another version of Reelsieve ({version})")
        _upgrade_tables(connection)
    elif missing := _find_missing_tables(connection):
        raise _build_refusal(url, f"lacks the table {missing[0]}")
    for table in tables:
        table.create(connection, checkfirst=True)
    create_views(connection, metrics)
    create_reader_role(connection, url)


def _build_refusal(url: URL, state: str) -> DatabaseUnavailable:
    return DatabaseUnavailable(
        f"database {url.database} {state}: set a new home folder (REELSIEVE_HOME) or database (CURATION_DB_URL) and "
        "ingest your manifests again with reelsieve ingest"
    )


def create_tables(connection: Connection, url: URL, revision: str = REVISION) -> None:
    """Create all tables of a schema revision in an empty database, and the extension pgvector if it is missing; no
    views. Raises DatabaseUnavailable if pgvector cannot be created.
    """
    from alembic import command

    _create_extension(connection, url)
    command.upgrade(_make_config(connection), revision)


def _upgrade_tables(connection: Connection) -> None:
    """Bring tables of an older revision to the newest one, and keep their rows. The views are dropped."""
    from alembic import command

    # A migration may change a column that they read; they are made anew afterwards.
    delete_views(connection)
    command.upgrade(_make_config(connection), REVISION)


def list_revisions() -> list[str]:
    """List the schema revisions that can be upgraded to the newest one, the oldest first and the newest included."""
    from alembic.script import ScriptDirectory

    revisions = ScriptDirectory(str(MIGRATIONS)).walk_revisions("base", REVISION)
    return [script.revision for script in revisions][::-1]


def revoke_public_access(connection: Connection, dagster: str) -> None:
    """Revoke the right of all roles but the owner to enter Dagster's database, named by `dagster`. Leases are locks in
    it, see `db.server.leases`. Does nothing if the database belongs to another user: its owner must do it.
    """
    name = connection.dialect.identifier_preparer.quote(dagster)
    with suppress(sa.exc.ProgrammingError), connection.begin_nested():
        connection.exec_driver_sql(f"REVOKE CONNECT, TEMPORARY ON DATABASE {name} FROM PUBLIC")


def is_schema_current(connection: Connection) -> bool:
    """Whether the database has all tables, at the newest revision. Views and columns are not checked."""
    return not _find_missing_tables(connection) and _find_revision(connection) == REVISION


def _find_missing_tables(connection: Connection) -> list[str]:
    return sorted(METADATA.tables.keys() - sa.inspect(connection).get_table_names())


def _make_config(connection: Connection) -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["connection"] = connection
    return config


def _find_revision(connection: Connection) -> str | None:
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    revision: str | None = connection.scalar(sa.text("SELECT version_num FROM alembic_version"))
    return revision


@contextmanager
def _hold_migration_lease(url: URL) -> Iterator[None]:
    """Let only one migration run at a time: all databases of a server share the reader and Dagster's database."""
    ledger = build_sibling_url(url, DAGSTER)
    try:
        leases = Leases(ledger)
    except psycopg.OperationalError as error:
        raise build_connection_error(ledger, error) from None
    with leases:
        leases.take("migration")
        yield


def _create_database(url: URL, name: str) -> None:
    engine = _maintenance_engine(url, name)
    if engine is None:
        return
    try:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            exists = sa.text("SELECT 1 FROM pg_database WHERE datname = :name")
            if connection.scalar(exists, {"name": name}) is None:
                quoted = connection.dialect.identifier_preparer.quote(name)
                connection.exec_driver_sql(f"CREATE DATABASE {quoted}")
    except (sa.exc.ProgrammingError, sa.exc.IntegrityError) as error:
        if isinstance(error.orig, psycopg.errors.DuplicateDatabase | psycopg.errors.UniqueViolation):
            return  # another process made it meanwhile
        raise DatabaseUnavailable(
            f"database {name} does not exist and may not be created by {format_user(url)} ({_first_line(error)}): "
            f"ask the server's owner to make it for {format_user(url)}, with CREATE DATABASE {name} OWNER ..."
        ) from None
    finally:
        engine.dispose()


def _maintenance_engine(url: URL, name: str) -> sa.Engine | None:
    """Return an engine from which database `name` can be created; None if it exists already and answers."""
    try:
        open_engine(build_sibling_url(url, name), attempts=1).dispose()
    except DatabaseUnavailable as refused:
        try:
            return open_engine(build_sibling_url(url, "postgres"))
        except DatabaseUnavailable:
            # The user asked for this database, not for `postgres`: report its refusal.
            raise refused from None
    return None


def _first_line(error: sa.exc.DBAPIError) -> str:
    return str(error.orig).strip().splitlines()[0]


def _create_extension(connection: Connection, url: URL) -> None:
    if connection.scalar(sa.text("SELECT 1 FROM pg_extension WHERE extname = 'vector'")):
        return
    available = sa.text("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'")
    if connection.scalar(available) is None:
        raise DatabaseUnavailable(
            f"the Postgres server of database {url.database} lacks pgvector: install the extension `vector` on it"
        )
    try:
        connection.execute(sa.text("CREATE EXTENSION IF NOT EXISTS vector"))
    except sa.exc.ProgrammingError as error:
        raise DatabaseUnavailable(
            f"pgvector is not set up in database {url.database} and {format_user(url)} may not do it "
            f"({_first_line(error)}): ask the server's owner to run CREATE EXTENSION vector in it"
        ) from None
