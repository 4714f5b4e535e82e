"""The read-only role behind `reelsieve sql`: it may read every table and view and change nothing.

If the role cannot log in, the owner runs the query instead, in a transaction that only reads.

Postgres lets every role change its own password and settings. So what the reader changed about itself counts only for
its own sessions, and only until the next migration makes the role anew.
"""

from __future__ import annotations

import hashlib
import hmac
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import psycopg
import sqlalchemy as sa
from psycopg import pq, sql
from psycopg.postgres import types
from sqlalchemy.engine import URL, Connection

from db.server.engine import build_connection_error, open_connection
from db.server.urls import convert_to_psql_url, format_user

READER_ROLE = "reelsieve_reader"
STATEMENT_TIMEOUT = "10min"
ROWS_AT_A_TIME = 500
# Sessions at a time, of the hundred that a server has by default, and the temporary files that each may fill.
MAX_SESSIONS = 20
MAX_TEMPORARY = "10GB"
# Characters of a query's line that are shown before, and from, the place of an error.
_SHOWN_BEFORE = 60
_NUMBERS = {types[name].oid for name in ("int2", "int4", "int8", "float4", "float8", "numeric", "oid")}
# Functions that every role may call and that can fill the disk, or the lock table that all sessions share.
_FORBIDDEN = """
SELECT string_agg(oid::regprocedure::text, ', ') FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace
AND proname ~ '^(lo_creat|lo_create|lo_from_bytea|pg_logical_emit_message|pg_(try_)?advisory_.*)$'
"""
# The databases in which the role has settings of its own.
_SET_IN = """
SELECT datname FROM pg_db_role_setting s JOIN pg_database d ON d.oid = setdatabase JOIN pg_roles r ON r.oid = setrole
WHERE rolname = :name
"""
# Ends sessions of the reader that have changed its own role, and so block others who change that role.
_END_CHANGING = """
SELECT pg_stat_clear_snapshot();
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = {} AND backend_xid IS NOT NULL
"""
# How often the change of the role is tried while the reader keeps changing its own role.
_ATTEMPTS = 20
# Resets the role's own settings to the defaults of Postgres, except the one that it may only read.
_WITHOUT_OWN_SETTINGS = """
SELECT set_config(name, CASE name WHEN 'client_encoding' THEN 'UTF8' ELSE boot_val END, false) FROM pg_settings
WHERE source IN ('user', 'database user') AND context = 'user' AND name <> 'default_transaction_read_only'
"""
# A member of one of these roles, as every superuser is, reaches beyond the database.
_OF_THE_MACHINE = ("pg_execute_server_program", "pg_read_server_files", "pg_write_server_files")


class QueryError(ValueError):
    """Raised when the user's SQL could not be run or is not allowed; the message is a sentence of the server, with its
    hint, or of Reelsieve. `place` is the line of the SQL that the server points at, with a caret below; else empty.
    """

    plain = True

    def __init__(self, message: str, place: str = "") -> None:
        super().__init__(message)
        self.place = place


def compute_reader_password(url: URL) -> str | None:
    """Return the password of the read-only role, derived from the owner's password in `url`, so that it is stored
    nowhere. None if the URL has no password, since then anyone could derive the other one.
    """
    if not url.password:
        return None
    return hmac.new(str(url.password).encode(), READER_ROLE.encode(), hashlib.sha256).hexdigest()


def create_reader_role(connection: Connection, url: URL) -> None:
    """Create the read-only role, or set its password, settings and rights anew. Ends sessions of the role that are
    changing it. Does nothing else if there is no such role and this user may not create one; the owner then runs
    queries in its place.
    """
    raw: psycopg.Connection[Any] = connection.connection.driver_connection  # type: ignore[assignment]  # psycopg engine
    for attempt in range(1, _ATTEMPTS + 1):
        _try(connection, raw, sql.SQL(_END_CHANGING).format(sql.Literal(READER_ROLE)))
        try:
            with connection.begin_nested():
                return _create_reader_role(connection, raw, url)
        except psycopg.errors.InternalError_:  # the reader changed itself at the same time
            if attempt == _ATTEMPTS:
                raise


def _create_reader_role(connection: Connection, raw: psycopg.Connection[Any], url: URL) -> None:
    exists = connection.scalar(sa.text("SELECT 1 FROM pg_roles WHERE rolname = :name"), {"name": READER_ROLE})
    if connection.scalar(sa.text("SELECT rolcreaterole OR rolsuper FROM pg_roles WHERE rolname = current_user")):
        # A role that another user made on this server stays as it is; it may still read what is granted below.
        with suppress(psycopg.errors.InsufficientPrivilege), connection.begin_nested():
            _make_role(connection, raw, url, "ALTER" if exists else "CREATE")
    elif not exists:
        return
    for grant in (
        "GRANT USAGE ON SCHEMA public TO {}",
        "GRANT SELECT ON ALL TABLES IN SCHEMA public TO {}",
        "ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO {}",
    ):
        raw.execute(_format_for_role(grant))
    _forbid_scratch_space(connection, raw)


def _make_role(connection: Connection, raw: psycopg.Connection[Any], url: URL, create_or_alter: str) -> None:
    login = f"{create_or_alter} ROLE {{}} LOGIN CONNECTION LIMIT {MAX_SESSIONS} PASSWORD {{}}"
    raw.execute(sql.SQL(login).format(sql.Identifier(READER_ROLE), sql.Literal(compute_reader_password(url))))
    raw.execute(_format_for_role("ALTER ROLE {} RESET ALL"))
    for name in connection.scalars(sa.text(_SET_IN), {"name": READER_ROLE}):
        reset = sql.SQL("ALTER ROLE {} IN DATABASE {} RESET ALL")
        raw.execute(reset.format(sql.Identifier(READER_ROLE), sql.Identifier(name)))
    raw.execute(_format_for_role("ALTER ROLE {} SET default_transaction_read_only = on"))
    raw.execute(_format_for_role(f"ALTER ROLE {{}} SET statement_timeout = '{STATEMENT_TIMEOUT}'"))
    # Only a superuser may set this. The next one lets another owner see the reader's sessions, and end them.
    _try(connection, raw, _format_for_role(f"ALTER ROLE {{}} SET temp_file_limit = '{MAX_TEMPORARY}'"))
    _try(connection, raw, _format_for_role("GRANT {} TO CURRENT_USER"))


def _format_for_role(statement: str) -> sql.Composed:
    return sql.SQL(statement).format(sql.Identifier(READER_ROLE))


def _try(connection: Connection, raw: psycopg.Connection[Any], statement: sql.Composed) -> None:
    """Run a statement, unless this user may not."""
    with suppress(psycopg.errors.InsufficientPrivilege), connection.begin_nested():
        raw.execute(statement)


def _forbid_scratch_space(connection: Connection, raw: psycopg.Connection[Any]) -> None:
    """Forbid everybody but the owner temporary tables, large objects and advisory locks.

    Only a superuser can forbid functions of Postgres. Elsewhere a transaction that only reads makes no large object,
    and nothing of Reelsieve waits for an advisory lock of this database, see `db.server.leases`.
    """
    database = sql.Identifier(str(connection.engine.url.database))
    raw.execute(sql.SQL("REVOKE TEMPORARY ON DATABASE {} FROM PUBLIC").format(database))
    functions = sql.SQL(str(connection.scalar(sa.text(_FORBIDDEN))))
    _try(connection, raw, sql.SQL("REVOKE EXECUTE ON FUNCTION {} FROM PUBLIC").format(functions))


def format_reader_url(url: URL) -> str:
    """Return the URL of the same database for the read-only role, as text for psql. It shows the password in clear, if
    there is one.
    """
    reader = convert_to_psql_url(url).set(username=READER_ROLE, password=compute_reader_password(url))
    return reader.render_as_string(hide_password=False)


@dataclass(frozen=True, slots=True)
class QueryColumn:
    """A column of a query's result: its name, and whether its values have a numeric type."""

    name: str
    is_number: bool


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The columns of a query's result, and an iterator of its rows as tuples, which come from the server as they are
    read. Both are empty for a statement that returns no rows.
    """

    columns: tuple[QueryColumn, ...]
    rows: Iterator[tuple[Any, ...]]


def run_read_only(url: URL, query: str, *, tell: Callable[[str], object]) -> list[dict[str, Any]]:
    """Run one SQL statement as the read-only role, and return all its rows as dicts by column. `tell` is called with a
    sentence if the role cannot log in and the owner runs the statement in a read-only transaction. Raises QueryError
    for a statement that fails, and DatabaseUnavailable.
    """
    with open_read_only_query(url, query, tell=tell) as answer:
        names = [column.name for column in answer.columns]
        return [dict(zip(names, row, strict=True)) for row in answer.rows]


@contextmanager
def open_read_only_query(url: URL, query: str, *, tell: Callable[[str], object]) -> Iterator[QueryResult]:
    """Run one SQL statement as the read-only role and yield its columns and rows, which can be read until the context
    ends. `tell` is called with a sentence if the role cannot log in and the owner runs the statement in a read-only
    transaction.

    Raises QueryError with the server's sentence, also while rows are read, and for COPY and repeated column names;
    DatabaseUnavailable if the database cannot be reached. A statement may take STATEMENT_TIMEOUT.
    """
    if query.lstrip()[:4].lower() == "copy":
        raise QueryError("COPY is not allowed here: write a SELECT")
    connection = _connect(url, tell)
    try:
        connection.read_only = True
        connection.execute(sql.SQL("SET LOCAL statement_timeout = {}").format(STATEMENT_TIMEOUT))
        # Once a transaction has read data, Postgres does not let it become one that writes.
        connection.execute("SELECT 1")
        statement = query.encode()
        columns = _list_columns(connection, statement)
        # Both ways use the extended protocol, which accepts exactly one statement: nothing can follow a semicolon.
        if columns:
            yield QueryResult(columns, connection.cursor().stream(statement, size=ROWS_AT_A_TIME))
        else:
            connection.execute(statement, prepare=True)
            yield QueryResult((), iter(()))
    except psycopg.Error as error:
        message = error.diag.message_primary or str(error).strip().splitlines()[0]
        hint = f" (HINT: {' '.join(error.diag.message_hint.split())})" if error.diag.message_hint else ""
        raise QueryError(message + hint, _point_at(query, error.diag.statement_position)) from None
    except UnicodeEncodeError:
        raise QueryError("the query holds a character that cannot be encoded: type it again by hand") from None
    finally:
        # Without a rollback: a COPY that has begun takes no further command, and there is nothing to roll back.
        connection.close()


def _point_at(query: str, position: str | None) -> str:
    """Return the line of a query with the character at a position from 1 on, and a caret below it; "" without one.

    >>> print(_point_at("SELECT 1,\\n  vsc FROM x", "13"))
    LINE 2:   vsc FROM x
              ^
    """
    if position is None:
        return ""
    before = query[: int(position) - 1]
    number, start = before.count("\n") + 1, before.rfind("\n") + 1
    line = f"LINE {number}: {query[start:].splitlines()[0]}".replace("\t", " ")
    place = len(f"LINE {number}: ") + len(before) - start
    # Of a long line what is around the place is shown. A letter of East Asia is as wide as two.
    first = max(0, place - _SHOWN_BEFORE)
    width = sum(1 + (unicodedata.east_asian_width(letter) in "FW") for letter in line[first:place])
    return f"{line[first : place + _SHOWN_BEFORE]}\n{' ' * width}^"


def _connect(url: URL, tell: Callable[[str], object]) -> psycopg.Connection[Any]:
    try:
        connection = open_connection(url.set(username=READER_ROLE, password=compute_reader_password(url)))
        connection.execute(_WITHOUT_OWN_SETTINGS.encode())
        connection.commit()
        return connection
    except psycopg.OperationalError as error:
        reason = str(error).strip().splitlines()[0]
    return _connect_as_owner(url, reason, tell)


def _connect_as_owner(url: URL, reason: str, tell: Callable[[str], object]) -> psycopg.Connection[Any]:
    """Return a connection of the owner. Raises QueryError if a read-only transaction would not be enough to hold the
    owner back.

    It is not enough for a user who may read and write the server's files or run programs there, as a superuser may.
    """
    try:
        connection = open_connection(url)
    except psycopg.OperationalError as error:
        raise build_connection_error(url, error) from None
    why = f"the role {READER_ROLE} cannot work in database {url.database} ({reason})"
    remedy = "run reelsieve db migrate as a user with CREATEROLE to fix that"
    query = " OR ".join(f"pg_has_role('{role}', 'member')" for role in _OF_THE_MACHINE)
    row = connection.execute(f"SELECT {query}".encode()).fetchone()
    connection.rollback()
    if row != (False,):
        connection.close()
        raise QueryError(
            f"{why}, and {format_user(url)} has rights that a read-only transaction cannot limit: {remedy}"
        )
    tell(f"{why}, so {format_user(url)} runs the query in a read-only transaction; {remedy}")
    return connection


def _list_columns(connection: psycopg.Connection[Any], statement: bytes) -> tuple[QueryColumn, ...]:
    """Return the columns of a statement's result before it runs; none if it returns no rows."""
    server = connection.pgconn
    for described in (server.prepare(b"", statement), server.describe_prepared(b"")):
        if described.status == pq.ExecStatus.FATAL_ERROR:
            raise psycopg.errors.error_from_result(described)
    fields = range(described.nfields)
    columns = tuple(QueryColumn((described.fname(i) or b"").decode(), described.ftype(i) in _NUMBERS) for i in fields)
    repeated = [name for name, n in Counter(column.name for column in columns).items() if n > 1]
    if repeated:
        raise QueryError(f"several columns are named {repeated[0]!r}: give each its own name with AS")
    return columns
