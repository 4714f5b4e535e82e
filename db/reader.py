"""The read-only role behind `reelsieve sql`: it may look at everything of ours and change nothing."""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from contextlib import suppress
from typing import Any

import psycopg
import sqlalchemy as sa
from psycopg import sql
from sqlalchemy.engine import URL, Connection

READER = "reelsieve_reader"
STATEMENT_TIMEOUT = "10min"


class QueryError(ValueError):
    """The user's SQL could not be run; the message is the server's."""


def reader_password(url: URL) -> str | None:
    """The reader's password, derived from the owner's, so that it is stored nowhere and the same everywhere.

    None where the owner has none: one derived from nothing would be known to all the world.
    """
    if not url.password:
        return None
    return hmac.new(str(url.password).encode(), READER.encode(), hashlib.sha256).hexdigest()


def create_reader_role(connection: Connection, url: URL) -> None:
    """Create or refresh the role and its rights. Skipped where this user may not create roles."""
    may_create = sa.text("SELECT rolcreaterole OR rolsuper FROM pg_roles WHERE rolname = current_user")
    if not connection.scalar(may_create):
        return
    raw: psycopg.Connection[Any] = connection.connection.driver_connection  # type: ignore[assignment]  # psycopg engine
    role = sql.Identifier(READER)
    exists = connection.scalar(sa.text("SELECT 1 FROM pg_roles WHERE rolname = :name"), {"name": READER})
    login = sql.SQL(("ALTER" if exists else "CREATE") + " ROLE {} LOGIN PASSWORD {}")
    # A role that somebody else made on this server stays as it is; it may still read what is granted below.
    with suppress(psycopg.errors.InsufficientPrivilege), connection.begin_nested():
        raw.execute(login.format(role, sql.Literal(reader_password(url))))
        raw.execute(sql.SQL("ALTER ROLE {} SET default_transaction_read_only = on").format(role))
    for grant in (
        "GRANT USAGE ON SCHEMA public TO {}",
        "GRANT SELECT ON ALL TABLES IN SCHEMA public TO {}",
        "ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO {}",
    ):
        raw.execute(sql.SQL(grant).format(role))


def run_read_only(url: URL, query: str) -> list[dict[str, Any]]:
    """Run one SQL statement as the reader and return its rows; raises QueryError with the server's sentence."""
    if query.lstrip()[:4].lower() == "copy":
        raise QueryError("COPY is not for this command: write a SELECT")
    reader = url.set(drivername="postgresql", username=READER, password=reader_password(url))
    try:
        connection = psycopg.connect(reader.render_as_string(hide_password=False))
    except psycopg.OperationalError as error:
        reason = str(error).strip().splitlines()[0]
        raise QueryError(
            f"the role {READER} cannot log in ({reason}): run reelsieve db migrate as a user that may create roles"
        ) from None
    try:
        with connection:
            connection.read_only = True
            connection.execute(sql.SQL("SET LOCAL statement_timeout = {}").format(STATEMENT_TIMEOUT))
            # The extended protocol accepts exactly one statement, so nothing can follow a closing semicolon.
            cursor = connection.execute(query.encode(), prepare=True)
            names = _column_names(cursor)
            return [dict(zip(names, row, strict=True)) for row in cursor] if names else []
    except psycopg.Error as error:
        message = error.diag.message_primary or str(error).strip().splitlines()[0]
        raise QueryError(message) from None
    except UnicodeEncodeError:
        raise QueryError("the query holds a character that is no text: write it again by hand") from None


def _column_names(cursor: psycopg.Cursor[Any]) -> list[str]:
    names = [column.name for column in cursor.description or ()]
    repeated = [name for name, n in Counter(names).items() if n > 1]
    if repeated:
        raise QueryError(f"several columns are named {repeated[0]!r}: give each its own name with AS")
    return names
