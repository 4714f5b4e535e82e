"""Restores a back-up: its rows go into tables that this program makes, and nothing of it is ever run.

Both databases are filled under temporary names, and get their own names in one transaction. So a restore that fails or
is killed changes nothing, and what a killed one left behind, the next one removes.
"""

from __future__ import annotations

import re
import secrets
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import psycopg
import sqlalchemy as sa
from psycopg import sql
from sqlalchemy.engine import URL, Connection
from typing_extensions import LiteralString

from db.schema.marks import MetricInputs
from db.schema.migrate import bring_up, keep_others_out, list_revisions, make_tables
from db.server.backup import BackupError, Tell, check, databases, dump_file, failure, program
from db.server.engine import connect, open_engine
from db.server.urls import CURATION, DAGSTER, DatabaseUnavailable, sibling_url

# Puts the rows of a dump file into tables that exist. The file is read as text: no statement of it is ever run.

# Lines of the script that pg_restore makes of a dump: the head of a table's rows, their end, a sequence's number.
_HEAD = re.compile(r"COPY (.+?)(?: \((.*)\))? +FROM stdin;\n")
_END = b"\\.\n"
_NUMBER = re.compile(r"SELECT pg_catalog\.setval\('public\.(\w+)', (\d+), (true|false)\);\n")
# A table of ours; its name is quoted where it is a word of SQL.
_TABLE = re.compile(r'public\."?(\w+)"?')
# Which revision the tables are of. Its row is made with the tables.
_VERSION = "alembic_version"
_BLOCK = 1 << 18
_PUBLIC = "relnamespace = 'public'::regnamespace"
_COLUMNS = f"""
SELECT c.relname, array_agg(a.attname::text) FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
WHERE {_PUBLIC} AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped GROUP BY 1
"""
# What is made anew behind the rows: how each is dropped, in this order, and made. Foreign keys rest on the others.
_MADE_BEHIND = f"""
SELECT format('ALTER TABLE public.%I DROP CONSTRAINT %I', relname, conname),
  format('ALTER TABLE public.%I ADD CONSTRAINT %I ', relname, conname) || pg_get_constraintdef(o.oid), contype <> 'f'
FROM pg_constraint o JOIN pg_class c ON c.oid = conrelid
WHERE {_PUBLIC} AND contype IN ('f', 'p', 'u')
UNION ALL
SELECT format('DROP INDEX public.%I', relname), pg_get_indexdef(c.oid), true
FROM pg_index i JOIN pg_class c ON c.oid = indexrelid
WHERE {_PUBLIC} AND NOT EXISTS (SELECT 1 FROM pg_constraint WHERE conindid = c.oid)
ORDER BY 3
"""


class _Torn(BackupError):
    """A file that ends within a table."""


def fill_tables(
    connection: psycopg.Connection[Any], file: Path, revision: str | None = None
) -> tuple[set[str], list[str]]:
    """Replace the rows of all tables in schema public by those of a dump file; tables filled, and tables not here.

    No trigger fires, so the rows are as they were. revision: what the file must say in table alembic_version, whose row
    stays as it is; None for anything. Raises BackupError, and psycopg.Error where rows do not fit into the tables.
    """
    tables: dict[str, list[str]] = dict(connection.execute(_COLUMNS.encode()).fetchall())
    filled, left_out = set[str](), list[str]()
    with _bare(connection, tables), _script(file) as script:
        for line in script:
            text = line.decode(errors="replace")
            if number := _NUMBER.fullmatch(text):
                _set_number(connection, number)
            elif head := _HEAD.fullmatch(text):
                known = _TABLE.fullmatch(head[1])
                table = known[1] if known else head[1]
                if table in filled:
                    raise BackupError(f"{file}: it has table {table} twice: give a whole back-up")
                rows = _plain_rows(file, script)
                if table not in tables:
                    left_out.append(table)
                    deque(rows, maxlen=0)
                    continue
                filled.add(table)
                if table == _VERSION:
                    _compare(file, b"".join(rows).decode(errors="replace").strip(), revision)
                else:
                    _copy(connection, table, _columns(file, table, head[2] or "", tables[table]), rows)
    return filled, left_out


@contextmanager
def _bare(connection: psycopg.Connection[Any], tables: Collection[str]) -> Iterator[None]:
    """Empty the tables, and do without their triggers, keys and indexes for a while, which are faster made at once."""
    made = connection.execute(_MADE_BEHIND.encode()).fetchall()
    names = sql.SQL(", ").join(sql.Identifier("public", table) for table in tables if table != _VERSION)
    _set_triggers(connection, tables, "DISABLE")
    for drop, _make, _ in made:
        connection.execute(drop)
    if names.as_string():
        connection.execute(sql.SQL("TRUNCATE {}").format(names))
    yield
    for _drop, make, _ in reversed(made):
        connection.execute(make)
    _set_triggers(connection, tables, "ENABLE")


def _set_triggers(connection: psycopg.Connection[Any], tables: Collection[str], state: LiteralString) -> None:
    for table in tables:
        query = sql.SQL(f"ALTER TABLE {{}} {state} TRIGGER USER").format(sql.Identifier("public", table))
        connection.execute(query)


@contextmanager
def _script(file: Path) -> Iterator[IO[bytes]]:
    """The lines of the script that pg_restore makes of a dump. It reads the file and talks to no server."""
    command = [program("pg_restore"), "--data-only", "--file=-", str(file)]
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors) as process,
    ):
        assert process.stdout is not None
        try:
            yield process.stdout
        except _Torn:
            # Its own reason is the better one.
            if process.wait() == 0:
                raise
        except BaseException:
            process.kill()
            raise
        if process.wait():
            errors.seek(0)
            raise failure("pg_restore", errors.read().decode(errors="replace")) from None


def _plain_rows(file: Path, script: IO[bytes]) -> Iterator[bytes]:
    """Lines up to the end of the table's rows."""
    for line in script:
        if line == _END:
            return
        yield line
    raise _Torn(f"{file}: it ends in the middle of a table: give a whole back-up")


def _copy(connection: psycopg.Connection[Any], table: str, columns: Collection[str], rows: Iterator[bytes]) -> None:
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier("public", table), names)
    with connection.cursor().copy(statement) as copy:
        block = bytearray()
        for row in rows:
            block += row
            if len(block) >= _BLOCK:
                copy.write(block)
                block = bytearray()
        copy.write(block)


def _columns(file: Path, table: str, listed: str, known: Collection[str]) -> list[str]:
    columns = [name.strip('"') for name in listed.split(", ")]
    for name in columns:
        if name not in known:
            raise BackupError(f"{file}: table {table} has no column {name!r} here: give a whole back-up")
    return columns


def _set_number(connection: psycopg.Connection[Any], said: re.Match[str]) -> None:
    """Let a sequence go on where it was; one that is not here is passed over."""
    query = (
        "SELECT setval(oid, %s::numeric::bigint, %s) FROM pg_class WHERE relname = %s AND relkind = 'S' AND " + _PUBLIC
    )
    connection.execute(query.encode(), [said[2], said[3] == "true", said[1]])


def _compare(file: Path, found: str, revision: str | None) -> None:
    if revision is not None and found != revision:
        raise BackupError(f"{file}: it is of schema {found}, and backup.json says {revision}: give a whole back-up")


_PREFIX = "reelsieve_restore_"
# The comment on a database that was restored.
_MARK = "reelsieve restored back-up {}"
# A table of each database whose rows say that it is in use.
_TELLING = {CURATION: "dataset", DAGSTER: "runs"}


def restore(
    url: URL,
    source: Path,
    metrics: MetricInputs,
    tables: Sequence[sa.Table],
    make_dagster: Callable[[URL], None],
    tell: Tell,
) -> list[str] | None:
    """Fill the databases of this server from a back-up. They must not exist, or hold no dataset and no run.

    metrics, tables: as for `db.schema.migrate.migrate`. make_dagster: makes Dagster's tables in a database.
    Returns tables of the back-up that were left out, since nothing here makes them; None where this very back-up was
    restored here before, and nothing was done. Raises BackupError.
    """
    tell(f"checks {source}")
    checked = check(source, list_revisions())
    names, mark = databases(url), _MARK.format(checked.digest)
    # A server that is not there is no server that went away. The other databases need not exist yet.
    open_engine(sibling_url(url, "postgres")).dispose()
    if (held := _held(url, names)) and _comment(url, names[CURATION]) == mark:
        return None
    _refuse(held)
    try:
        with _temporary(url, names) as temporary:
            tell(f"restores database {names[CURATION]}")
            file = dump_file(source, CURATION)
            left_out = _restore_curation(temporary[CURATION], file, checked.revision, metrics, tables)
            tell(f"restores database {names[DAGSTER]}")
            left_out += _restore_dagster(temporary[DAGSTER], dump_file(source, DAGSTER), make_dagster)
            _refuse(_held(url, names))
            _rename(url, temporary, names, mark)
    except psycopg.errors.InsufficientPrivilege as error:
        reason = error.diag.message_primary
        raise BackupError(f"{url.username} may not do it ({reason}): ask the server's owner for that right") from error
    return left_out


def _held(url: URL, names: Mapping[str, str]) -> str | None:
    """What the databases hold, as the beginning of a sentence; None where a restore loses nothing."""
    for key, table in _TELLING.items():
        if n := _rows(sibling_url(url, names[key]), table):
            return f"database {names[key]} holds {n} rows of {table} already"
    return None


def _refuse(held: str | None) -> None:
    if held:
        raise BackupError(f"{held}: restore into another home (REELSIEVE_HOME) or server, so that nothing is lost")


def _comment(url: URL, name: str) -> str | None:
    with _server(url) as connection:
        query = "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = %s"
        row = connection.execute(query, [name]).fetchone()
        return None if row is None else row[0]


@contextmanager
def _temporary(url: URL, names: Mapping[str, str]) -> Iterator[dict[str, URL]]:
    """New databases for the time of a restore. What killed restores left behind goes too."""
    fresh = {key: f"{_PREFIX}{secrets.token_hex(4)}_{key}" for key in names}
    with _server(url) as connection:
        query = "SELECT datname FROM pg_database WHERE starts_with(datname, %s) AND pg_has_role(datdba, 'member')"
        for (left_behind,) in connection.execute(query, [_PREFIX]).fetchall():
            _drop(connection, left_behind)
    try:
        with _server(url) as connection:
            for name in fresh.values():
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        yield {key: sibling_url(url, name) for key, name in fresh.items()}
    finally:
        # A server that is gone keeps them until the next restore.
        with suppress(psycopg.OperationalError), _server(url) as connection:
            for name in fresh.values():
                _drop(connection, name)


def _rename(url: URL, temporary: Mapping[str, URL], names: Mapping[str, str], mark: str) -> None:
    """Give the new databases their names, both at once or neither; those that had them hold nothing."""
    with _server(url) as connection:
        for name in names.values():
            _drop(connection, name)
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
            make_tables(connection, url, revision)
        except DatabaseUnavailable as error:
            raise BackupError(f"{error}; a restore makes new databases, so run that in database template1") from error
        required = set(sa.inspect(connection).get_table_names())
        for table in tables:
            table.create(connection, checkfirst=True)
        filled, left_out = _fill(connection, file, revision)
        if missing := sorted(required - filled):
            raise BackupError(f"{file}: it has no table {missing[0]}: give a whole back-up")
    with _transaction(url, file) as connection:
        bring_up(connection, url, metrics, tables)
    return left_out


def _restore_dagster(url: URL, file: Path, make_dagster: Callable[[URL], None]) -> list[str]:
    make_dagster(url)
    with _transaction(url, file) as connection:
        filled, left_out = _fill(connection, file)
        # A server on which nothing ever ran has no table of Dagster's.
        if (filled or left_out) and _TELLING[DAGSTER] not in filled:
            raise BackupError(f"{file}: it has no table {_TELLING[DAGSTER]}: give a whole back-up")
        keep_others_out(connection, url.database or "")
    return left_out


def _fill(connection: Connection, file: Path, revision: str | None = None) -> tuple[set[str], list[str]]:
    for limit in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"):
        connection.exec_driver_sql(f"SET LOCAL {limit} = 0")
    connection.exec_driver_sql("SET LOCAL client_encoding = 'UTF8'")
    raw: psycopg.Connection[Any] = connection.connection.driver_connection  # type: ignore[assignment]  # psycopg engine
    return fill_tables(raw, file, revision)


@contextmanager
def _transaction(url: URL, file: Path) -> Iterator[Connection]:
    """A transaction in a new database. Raises BackupError where rows of the file do not fit into its tables."""
    engine = open_engine(url)
    try:
        with engine.begin() as connection:
            yield connection
    except (psycopg.Error, sa.exc.DBAPIError) as error:
        cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
        if isinstance(cause, psycopg.OperationalError | psycopg.errors.InsufficientPrivilege):
            raise
        reason = str(cause).strip().splitlines()[0]
        raise BackupError(f"{file}: its rows do not fit into the tables ({reason}): give a whole back-up") from error
    finally:
        engine.dispose()


@contextmanager
def _server(url: URL) -> Iterator[psycopg.Connection[Any]]:
    """A connection to another database of the server, whose statements each are a transaction."""
    with connect(sibling_url(url, "postgres"), autocommit=True) as connection:
        yield connection


def _drop(connection: psycopg.Connection[Any], name: str) -> None:
    connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def _rows(url: URL, table: str) -> int:
    """How many rows a table holds; 0 where there is no such table or database."""
    try:
        with connect(url) as connection:
            query = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table))
            (n,) = connection.execute(query).fetchone() or (0,)
            return int(n)
    except psycopg.errors.UndefinedTable:
        return 0
    except psycopg.OperationalError as error:
        if "does not exist" not in str(error):
            raise
        return 0
