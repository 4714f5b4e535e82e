"""Leases: names that a process holds for as long as it lives, whichever host it runs on.

A lease is an advisory lock on a connection of its own. Postgres frees it when that connection ends, however it ends, so
nobody has to know the holder's host or process id to tell that it is gone. Advisory locks are of one database: holder
and asker must name the same one. A pooler between them must keep sessions apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from sqlalchemy.engine import URL

from db.engine import KEEPALIVE, connect

_LOST_MS = 1000 * (KEEPALIVE["keepalives_idle"] + KEEPALIVE["keepalives_interval"] * KEEPALIVE["keepalives_count"])
_LOCK = "hashtextextended('reelsieve lease ' || %s, 0)"


class Lease:
    """A held lease. It is lost with its connection: `renew` notices the loss and takes the lease again."""

    def __init__(self, url: URL, name: str) -> None:
        """Take the lease; waits while somebody else has it. Raises psycopg.OperationalError without a connection."""
        self._url = url
        self._name = name
        self._connection = _connect(url)
        self._connection.execute(f"SELECT pg_advisory_lock({_LOCK})".encode(), [name])

    def renew(self) -> bool:
        """Whether the lease is still held, or is held again after its connection was lost.

        False while the server cannot be reached, or while another process, which took this one for dead, holds the
        lease: try again later.
        """
        with suppress(psycopg.OperationalError):
            self._connection.execute("SELECT 1")
            return True
        self._connection.close()
        with suppress(psycopg.OperationalError):
            self._connection = _connect(self._url)
            if _take(self._connection, self._name):
                return True
            self._connection.close()
        return False

    def end(self) -> None:
        """Give the lease back."""
        self._connection.close()


@contextmanager
def lease(url: URL, name: str) -> Iterator[Lease]:
    """Hold the lease of this name; waits while somebody else has it."""
    held = Lease(url, name)
    try:
        yield held
    finally:
        held.end()


@contextmanager
def lease_if_free(url: URL, name: str) -> Iterator[bool]:
    """Hold the lease if nobody has it. Yields whether it was free.

    A free lease proves that its holder is gone; while it is held here, no other process can conclude the same.
    """
    with _connect(url) as connection:
        yield _take(connection, name)


def _connect(url: URL) -> psycopg.Connection[Any]:
    """A connection whose loss both sides notice within a minute, also when a host or the network is simply gone."""
    name = "reelsieve lease"
    connection = connect(url, autocommit=True, application_name=name, tcp_user_timeout=_LOST_MS, **KEEPALIVE)
    # The server probes likewise. It may also be set to end sessions that are silent, as this one always is.
    settings = {f"tcp_{name}": value for name, value in KEEPALIVE.items()}
    for setting, value in {**settings, "tcp_user_timeout": _LOST_MS, "idle_session_timeout": 0}.items():
        connection.execute("SELECT set_config(%s, %s, false)", [setting, str(value)])
    return connection


def _take(connection: psycopg.Connection[Any], name: str) -> bool:
    row = connection.execute(f"SELECT pg_try_advisory_lock({_LOCK})".encode(), [name]).fetchone()
    return row == (True,)
