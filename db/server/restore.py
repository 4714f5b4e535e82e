"""Restore a back-up: its rows go into tables that this program creates, and nothing of it is ever run.

Both databases are filled under temporary names, and get their own names in one transaction. So a restore that fails or
is killed changes nothing, and the next one removes what a killed one left behind.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import sqlalchemy as sa
from psycopg import sql
from sqlalchemy.engine import URL, Connection

from db.schema.marks import MetricInputs
from db.schema.migrate import create_tables, list_revisions, revoke_public_access, upgrade_schema
from db.server.backup import ReportProgress, build_dump_path, check_backup, list_databases
from db.server.dump_rows import BackupError, replace_rows
from db.server.engine import open_connection, open_engine
from db.server.urls import CURATION, DAGSTER, DatabaseUnavailable, build_sibling_url, format_user

_PREFIX = "reelsieve_restore_"
# The comment on a database that was restored.
_MARK = "reelsieve restored back-up {}"
# By database, a table whose rows show that it is in use.
_CONTENT_TABLES = {CURATION: "dataset", DAGSTER: "runs"}


def restore_backup(
    url: URL,
    source: Path,
    metrics: MetricInputs,
    tables: Sequence[sa.Table],
    make_dagster: Callable[[URL], None],
    tell: ReportProgress,
) -> list[str] | None:
    """Fill both databases of a server from the back-up in folder `source`, and return the names of its tables that were
    left out, since nothing here creates them. None if this very back-up was restored here before. The databases must
    not exist yet, or hold no dataset and no run; they are replaced only after all rows were restored.

    metrics, tables: as for `db.schema.migrate.migrate`. make_dagster: creates Dagster's tables in a database. tell:
    called with progress lines. Raises BackupError, and DatabaseUnavailable if the server cannot be reached.
    """
    tell(f"checking {source}")
    checked = check_backup(source, list_revisions())
    names, mark = list_databases(url), _MARK.format(checked.digest)
    # Fail now, and with a clear message, if the server cannot be reached. The other databases need not exist yet.
    open_engine(build_sibling_url(url, "postgres")).dispose()
    if (contents := _describe_contents(url, names)) and _load_comment(url, names[CURATION]) == mark:
        return None
    _check_empty(contents)
    try:
        with _create_temporary_databases(url, names) as temporary:
            tell(f"restoring database {names[CURATION]}")
            file = build_dump_path(source, CURATION)
            left_out = _restore_curation(temporary[CURATION], file, checked.revision, metrics, tables)
            tell(f"restoring database {names[DAGSTER]}")
            left_out += _restore_dagster(temporary[DAGSTER], build_dump_path(source, DAGSTER), make_dagster)
            _check_empty(_describe_contents(url, names))
            _rename(url, temporary, names, mark)
    except psycopg.errors.InsufficientPrivilege as error:
        reason = error.diag.message_primary
        raise BackupError(
            f"{format_user(url)} may not restore here ({reason}): ask the server's owner for that right"
        ) from error
    return left_out


def _describe_contents(url: URL, names: Mapping[str, str]) -> str | None:
    """Return which database has rows that a restore would lose, as the beginning of a sentence; None if none
    has any.
    """
    for key, table in _CONTENT_TABLES.items():
        if n := _count_rows(build_sibling_url(url, names[key]), table):
            return f"database {names[key]} already holds {n:,} {'row' if n == 1 else 'rows'} of {table}"
    return None


def _check_empty(contents: str | None) -> None:
    if contents:
        raise BackupError(f"{contents}: restore into another home (REELSIEVE_HOME) or server, so that nothing is lost")


def _load_comment(url: URL, name: str) -> str | None:
    with _open_server(url) as connection:
        query = "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = %s"
        row = connection.execute(query, [name]).fetchone()
        return None if row is None else row[0]


@contextmanager
def _create_temporary_databases(url: URL, names: Mapping[str, str]) -> Iterator[dict[str, URL]]:
    """Create databases for the time of a restore, and yield their URLs. Deletes those that killed restores left
    behind.
    """
    fresh = {key: f"{_PREFIX}{secrets.token_hex(4)}_{key}" for key in names}
    with _open_server(url) as connection:
        query = "SELECT datname FROM pg_database WHERE starts_with(datname, %s) AND pg_has_role(datdba, 'member')"
        for (left_behind,) in connection.execute(query, [_PREFIX]).fetchall():
            _delete_database(connection, left_behind)
    try:
        with _open_server(url) as connection:
            for name in fresh.values():
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        yield {key: build_sibling_url(url, name) for key, name in fresh.items()}
    finally:
        # A server that is gone keeps them until the next restore.
        with suppress(psycopg.OperationalError), _open_server(url) as connection:
            for name in fresh.values():
                _delete_database(connection, name)


def _rename(url: URL, temporary: Mapping[str, URL], names: Mapping[str, str], mark: str) -> None:
    """Give the new databases their names, both at once or neither; empty ones that had these names are dropped."""
    with _open_server(url) as connection:
        for name in names.values():
            _delete_database(connection, name)
        with connection.transaction():
            for key, name in names.items():
                old, new = sql.Identifier(temporary[key].database or ""), sql.Identifier(name)
                connection.execute(sql.SQL("ALTER DATABASE {} RENAME TO {}").format(old, new))
            curation = sql.Identifier(names[CURATION])
            connection.execute(sql.SQL("COMMENT ON DATABASE {} IS {}").format(curation, sql.Literal(mark)))


def _restore_curation(
    url: URL, file: Path, revision: str, metrics: MetricInputs, tables: Sequence[sa.Table]
) -> list[str]:
    with _transaction(url, file) as connection:
        try:
            create_tables(connection, url, revision)
        except DatabaseUnavailable as error:
            is_right = "CREATE EXTENSION" in str(error)
            hint = "; a restore makes new databases, so run that in database template1" if is_right else ""
            raise BackupError(f"{error}{hint}") from error
        required = set(sa.inspect(connection).get_table_names())
        for table in tables:
            table.create(connection, checkfirst=True)
        filled, left_out = replace_rows(connection, file, revision)
        if missing := sorted(required - filled):
            raise BackupError(f"{file} has no table {missing[0]}: give a complete back-up")
    with _transaction(url, file) as connection:
        upgrade_schema(connection, url, metrics, tables)
    return left_out


def _restore_dagster(url: URL, file: Path, make_dagster: Callable[[URL], None]) -> list[str]:
    make_dagster(url)
    with _transaction(url, file) as connection:
        filled, left_out = replace_rows(connection, file)
        # A server on which nothing ever ran has no table of Dagster's.
        if (filled or left_out) and _CONTENT_TABLES[DAGSTER] not in filled:
            raise BackupError(f"{file} has no table {_CONTENT_TABLES[DAGSTER]}: give a complete back-up")
        revoke_public_access(connection, url.database or "")
    return left_out


@contextmanager
def _transaction(url: URL, file: Path) -> Iterator[Connection]:
    """Open a transaction in a new database. Raises BackupError if rows of the file do not fit into its tables."""
    engine = open_engine(url)
    try:
        with engine.begin() as connection:
            yield connection
    except (psycopg.Error, sa.exc.DBAPIError) as error:
        cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
        if isinstance(cause, psycopg.OperationalError | psycopg.errors.InsufficientPrivilege):
            raise
        reason = str(cause).strip().splitlines()[0]
        raise BackupError(
            f"{file} has rows that do not fit into the tables ({reason}): give an intact back-up"
        ) from error
    finally:
        engine.dispose()


@contextmanager
def _open_server(url: URL) -> Iterator[psycopg.Connection[Any]]:
    """Yield a connection to another database of the server, on which every statement is a transaction."""
    with open_connection(build_sibling_url(url, "postgres"), autocommit=True) as connection:
        yield connection


def _delete_database(connection: psycopg.Connection[Any], name: str) -> None:
    connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def _count_rows(url: URL, table: str) -> int:
    """Return the number of rows of a table; 0 if there is no such table or database."""
    try:
        with open_connection(url) as connection:
            query = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table))
            (n,) = connection.execute(query).fetchone() or (0,)
            return int(n)
    except psycopg.errors.UndefinedTable:
        return 0
    except psycopg.OperationalError as error:
        if "does not exist" not in str(error):
            raise
        return 0
