"""Open connection pools and single connections to the curation database."""

from __future__ import annotations

import errno
import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import sqlalchemy as sa
from pgvector.psycopg import register_vector
from sqlalchemy.engine import URL, Engine

from db.server.urls import DatabaseUnavailable, format_url

# A full disk in a server's message, in every language: the words are those of the C library.
DISK_FULL_TEXT = "No space left on device"
# Part of libpq's message if the server asks for a password in another way than the URL allows, or for none.
_OTHER_AUTH = "authentication method requirement"
# Messages of libpq and psycopg for an address where nothing answers; the reasons are mostly those of the C library.
_REASONS = (
    *map(os.strerror, (errno.ECONNREFUSED, errno.ENOENT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ETIMEDOUT)),
    "timeout expired",
)
_NO_ANSWER = re.compile(
    r'connection to server (?:at|on socket) "(?P<host>.+)"(?: \(.+\))?(?:, port (?P<port>\d+))? failed: '
    rf"(?P<reason>{'|'.join(map(re.escape, _REASONS))})$|failed to resolve host '(?P<name>.+)': (?P<why>.+)"
)
CONNECT_ATTEMPTS = 20
CONNECT_PAUSE_S = 0.25
# Seconds of silence before a connection is probed, seconds between two probes, and how many probes may be lost.
# Networks drop connections that are idle for minutes, and a connection that holds a lock is idle.
KEEPALIVE = {"keepalives_idle": 15, "keepalives_interval": 5, "keepalives_count": 4}


def format_application_name(work: str = "") -> str:
    """Return the name under which sessions of this process appear in pg_stat_activity, with process id and host name,
    cut to 63 characters. `work` is text to put into the name, such as "lease of ".
    """
    return f"reelsieve {work}process {os.getpid()} on host {socket.gethostname()}"[:63]


def open_engine(url: URL, *, attempts: int = CONNECT_ATTEMPTS) -> Engine:
    """Open a pool of connections to a database, and return it after a first connection succeeded. While a server
    starts, it tries `attempts` times, a quarter of a second apart. Raises DatabaseUnavailable, without the password, if
    the server does not answer or refuses the connection.
    """
    arguments = {**KEEPALIVE, "application_name": format_application_name()}
    engine = sa.create_engine(url, pool_pre_ping=True, pool_size=2, max_overflow=4, connect_args=arguments)
    sa.event.listen(engine, "connect", _register_types)
    for attempt in range(attempts):
        try:
            with engine.connect():
                return engine
        except sa.exc.OperationalError as error:
            if attempt == attempts - 1 or _is_final(error):
                engine.dispose()
                raise build_connection_error(url, error.orig or error) from None
            time.sleep(CONNECT_PAUSE_S)
    raise AssertionError("unreachable: the last attempt returns or raises")


def open_connection(url: URL, **settings: Any) -> psycopg.Connection[Any]:
    """Open a psycopg connection to a database, outside any pool; the caller closes it. `settings` are further arguments
    of psycopg.connect, such as autocommit or connect_timeout. Raises psycopg.OperationalError if that fails.
    """
    # Not by the URL as text: libpq refuses some characters that SQLAlchemy leaves in it, such as a space in a password.
    _, arguments = url.get_dialect()().create_connect_args(url)
    parameters: dict[str, Any] = {**arguments, "application_name": format_application_name(), **settings}
    connection: psycopg.Connection[Any] = psycopg.connect(**parameters)
    return connection


def build_connection_error(url: URL, error: BaseException) -> DatabaseUnavailable:
    """Return the exception to raise after a connection to `url` failed with this error. Its message is one sentence
    with the reason and a remedy, without the password of the URL.
    """
    reason = str(error).strip().splitlines()[0]
    if DISK_FULL_TEXT in reason:
        return DatabaseUnavailable(
            f"the disk of the database is full ({reason}): make room there and run the same command again"
        )
    if _OTHER_AUTH in reason:
        return DatabaseUnavailable(
            f"no connection to database {url.database} at {format_url(url)}: {reason}. Let the server ask for "
            "passwords by scram-sha-256, or allow its way in CURATION_DB_URL, as in ?require_auth=md5 or "
            "?require_auth=none"
        )
    if silent := _NO_ANSWER.search(reason):
        place = ":".join(filter(None, silent.group("host", "name", "port")))
        return DatabaseUnavailable(
            f"no server answers at {place} ({silent['reason'] or silent['why']}): start that server, or correct "
            "CURATION_DB_URL"
        )
    return DatabaseUnavailable(
        f"no connection to database {url.database} at {format_url(url)}: {reason}. Check that the server runs "
        "(reelsieve doctor) and that the database exists (reelsieve db migrate)"
    )


@contextmanager
def open_psycopg_transaction(engine: Engine) -> Iterator[psycopg.Connection[Any]]:
    """Yield a psycopg connection from the pool in a transaction, for COPY. The transaction commits at the end of the
    context, or rolls back on an error; then the connection goes back to the pool.
    """
    pooled = engine.raw_connection()
    connection: psycopg.Connection[Any] = pooled.driver_connection  # type: ignore[assignment]  # engine is psycopg
    try:
        with connection.transaction():
            yield connection
        pooled.commit()
    finally:
        if connection.broken:
            # The pool would try to roll it back, fail, and print that failure with its trace.
            pooled.invalidate()
        pooled.close()


def _register_types(connection: Any, _record: Any) -> None:
    if psycopg.types.TypeInfo.fetch(connection, "vector") is not None:
        register_vector(connection)
    connection.commit()


def _is_final(error: sa.exc.OperationalError) -> bool:
    """Whether waiting cannot help: a wrong password, or a database that does not exist."""
    text = str(error.orig)
    final = ("does not exist", "authentication failed", "no password supplied", _OTHER_AUTH)
    return any(words in text for words in final)
