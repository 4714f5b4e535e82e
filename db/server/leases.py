"""Leases: names that a process holds while it works on what they name, whichever host it runs on.

A lease is an advisory lock on a connection that serves nothing else. Postgres frees it when that connection ends,
however it ends, so nobody has to know the holder's host or process id to tell that it is gone. A table with a heartbeat
would need a second mechanism to write it, and a guess how long a holder may be silent. A pooler between them and the
server must keep sessions apart.

Whoever may enter a database may take every advisory lock of it. So all leases are locks of Dagster's database, where
the reader may not enter (`db.schema.migrate`). Their names begin with the database that they are about.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from sqlalchemy.engine import URL
from typing_extensions import Self

from db.server.engine import KEEPALIVE, format_application_name, open_connection
from db.server.urls import CURATION, DAGSTER, build_sibling_url
from db.server.waits import ServerSession

# Seconds between two looks at leases that others hold.
PAUSE_S = 0.5
_LOST_MS = 1000 * (KEEPALIVE["keepalives_idle"] + KEEPALIVE["keepalives_interval"] * KEEPALIVE["keepalives_count"])
_SHARED = "_shared"
_LOCK = "hashtextextended('reelsieve lease ' || %s, 0)"
# The lock of 64 bits as pg_locks shows it, in two halves.
_HOLDER = f"""
SELECT {ServerSession.build_columns_sql("pg_stat_activity")} FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND datname = current_database()
  AND (classid::bigint << 32) | objid::bigint = {_LOCK}
"""


def take_one(_n_left: int) -> int:
    """Names are taken one by one."""
    return 1


class LeaseLost(RuntimeError):
    """The connection that held a lease was lost, and another process has the lease by now."""

    plain = True


class Leases:
    """The leases that a process holds on one connection. As a context manager it gives them all back at the end.

    A lease has one holder, or any number that share it: while some share it nobody can have it for itself.

    Each is lost with the connection: `check` and `renew` notice the loss and take them again.
    """

    def __init__(self, url: URL) -> None:
        """Open a connection. url: the database that the leases are about. Raises psycopg.OperationalError."""
        self._url = build_sibling_url(url, DAGSTER)
        self._database = url.database or CURATION
        # Of the functions that take and give back the lock of a name: shared ones have a word more.
        self._names: dict[str, str] = {}
        self._connection = _connect(self._url)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def take(self, name: str, *, is_shared: bool = False) -> None:
        """Take a lease; waits while another connection has it. is_shared: only while another one has it for itself."""
        kind = _SHARED if is_shared else ""
        self._connection.execute(f"SELECT pg_advisory_lock{kind}({_LOCK})".encode(), [self._format_lock_name(name)])
        self._names[name] = kind

    def take_if_free(self, name: str) -> bool:
        """Take a lease unless another connection has it; returns whether it is held now."""
        self.check()
        if not self._try_lock(name, ""):
            return False
        self._names[name] = ""
        return True

    def give_back(self, name: str) -> None:
        """Give one lease back."""
        kind = self._names.pop(name, "")
        # A connection that was lost holds nothing.
        with suppress(psycopg.OperationalError):
            self._connection.execute(
                f"SELECT pg_advisory_unlock{kind}({_LOCK})".encode(), [self._format_lock_name(name)]
            )

    def take_in_turn(
        self,
        names: Iterable[str],
        report_wait: Callable[[str], None] = lambda _: None,
        choose_group_size: Callable[[int], int] = take_one,
    ) -> Iterator[list[str]]:
        """Yield every name once, while its lease is held: free ones first, the others as their holders let go.

        They come in groups. at_once: the most that a group has, of so many names that are left. waits: takes a name
        that others hold when no other name is left, once for each such name.
        """
        left, told = list(names), set[str]()
        while left:
            group: list[str] = []
            try:
                for name in left:
                    if self.take_if_free(name):
                        group.append(name)
                        if len(group) == choose_group_size(len(left)):
                            break
                if group:
                    yield group
            finally:
                for name in group:
                    self.give_back(name)
            if not group:
                if left[0] not in told:
                    report_wait(left[0])
                    told.add(left[0])
                time.sleep(PAUSE_S)
            left = [name for name in left if name not in group]

    def find_holder(self, name: str) -> str | None:
        """Who has a lease, as `Session` says it. None where nobody has it."""
        row = self._connection.execute(_HOLDER.encode(), [self._format_lock_name(name)]).fetchone()
        return None if row is None else str(ServerSession(*row))

    def check(self) -> None:
        """Take all leases again where the connection was lost.

        Raises LeaseLost where another process has one of them by now, psycopg.OperationalError without a connection.
        """
        with suppress(psycopg.OperationalError):
            self._connection.execute("SELECT 1")
            return
        self._connection.close()
        self._connection = _connect(self._url)
        for name, kind in self._names.items():
            if not self._try_lock(name, kind):
                self._connection.close()
                raise LeaseLost(
                    f"the connection that held the lease on {name!r} was lost, and another process works on it now: "
                    "what was written stays; the same command goes on with the rest"
                )

    def renew(self) -> bool:
        """Whether all leases are still held, or held again after the connection was lost; if not, try again later."""
        try:
            self.check()
        except (LeaseLost, psycopg.OperationalError):
            return False
        return True

    def close(self) -> None:
        """Give all leases back: others find them free at once, not only when the server misses the connection."""
        with suppress(psycopg.OperationalError):
            self._connection.execute("SELECT pg_advisory_unlock_all()")
        self._connection.close()

    def _format_lock_name(self, name: str) -> str:
        return f"{self._database}: {name}"

    def _try_lock(self, name: str, kind: str) -> bool:
        """Take the lock if nobody is in the way; whether it is held now."""
        query = f"SELECT pg_try_advisory_lock{kind}({_LOCK})".encode()
        return self._connection.execute(query, [self._format_lock_name(name)]).fetchone() == (True,)


@contextmanager
def hold_lease(url: URL, name: str) -> Iterator[Leases]:
    """Hold the lease of this name; waits while somebody else has it."""
    with Leases(url) as leases:
        leases.take(name)
        yield leases


@contextmanager
def hold_lease_if_free(url: URL, name: str) -> Iterator[bool]:
    """Hold the lease if nobody has it. Yields whether it was free.

    A free lease proves that its holder is gone; while it is held here, no other process can conclude the same.
    """
    with Leases(url) as leases:
        yield leases.take_if_free(name)


def _connect(url: URL) -> psycopg.Connection[Any]:
    """A connection whose loss both sides notice within a minute, also when a host or the network is simply gone."""
    name = format_application_name("lease of ")
    connection = open_connection(url, autocommit=True, application_name=name, tcp_user_timeout=_LOST_MS, **KEEPALIVE)
    # The server probes likewise. It may also be set to end sessions that are silent or wait long, as this one does.
    settings = {f"tcp_{name}": value for name, value in {**KEEPALIVE, "user_timeout": _LOST_MS}.items()}
    settings |= {"idle_session_timeout": 0, "statement_timeout": 0, "lock_timeout": 0}
    connection.execute(
        "SELECT set_config(name, value, false) FROM unnest(%s::text[], %s::text[]) AS wanted (name, value)",
        [list(settings), [str(value) for value in settings.values()]],
    )
    return connection
