"""Leases: claims on names, such as a shard's, that a process holds while it works on them, on any host.

A lease is an advisory lock on a connection that serves nothing else. Postgres frees it when that connection ends in any
way, so nobody needs the holder's host or process id to know that it is gone. A table with a heartbeat would need a
second mechanism to write it, and a guess how long a holder may be silent. A connection pooler before the server must
keep sessions apart.

Everyone who may enter a database may take all its advisory locks. So all leases are locks of Dagster's database, which
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
    """Return 1, whatever the number of names left: names are then taken one at a time."""
    return 1


class LeaseLost(RuntimeError):
    """Raised when the connection that held leases was lost and another process has taken one of them since; the message
    names that lease.
    """

    plain = True


class Leases:
    """The leases that this process holds, on one connection to Dagster's database. A lease is a claim on a name, such
    as a shard's. As a context manager it gives all of them back at the end.

    A lease has one holder, or any number that share it: while some share it nobody can hold it exclusively.

    Leases are lost with the connection: `check` and `renew` notice the loss and take them again.
    """

    def __init__(self, url: URL) -> None:
        """Open a connection. url: the database that the leases are about. Raises psycopg.OperationalError."""
        self._url = build_sibling_url(url, DAGSTER)
        self._database = url.database or CURATION
        # By name, the suffix of the SQL functions for its lock: shared locks have functions of their own.
        self._names: dict[str, str] = {}
        self._connection = _connect(self._url)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def take(self, name: str, *, is_shared: bool = False) -> None:
        """Take the lease of this name, waiting without a limit while another connection holds it. With `is_shared`, any
        number of connections that also share it may hold it at once.
        """
        kind = _SHARED if is_shared else ""
        self._connection.execute(f"SELECT pg_advisory_lock{kind}({_LOCK})".encode(), [self._format_lock_name(name)])
        self._names[name] = kind

    def take_if_free(self, name: str) -> bool:
        """Take the lease of this name unless another connection holds it, and return whether this one holds it now.
        First takes all earlier leases again if the connection was lost; raises LeaseLost if another process has one of
        them.
        """
        self.check()
        if not self._try_lock(name, ""):
            return False
        self._names[name] = ""
        return True

    def give_back(self, name: str) -> None:
        """Give the lease of this name back; nothing happens if it is not held or the connection is lost."""
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
        """Yield all names once, in groups, and hold the leases of a group until the next group is asked for. Free names
        come first; names that others hold come once these give them back, after waiting without a limit. Raises
        LeaseLost as `check` does.

        choose_group_size: returns the largest size of the next group, given the number of names left; by default 1.
        report_wait: called with a name that others hold when no other name is left, once per name.
        """
        left, reported = list(names), set[str]()
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
                if left[0] not in reported:
                    report_wait(left[0])
                    reported.add(left[0])
                time.sleep(PAUSE_S)
            left = [name for name in left if name not in group]

    def find_holder(self, name: str) -> str | None:
        """Return a text for people about the session that holds a lease: program, host, process, role and time; None if
        nobody holds it.
        """
        row = self._connection.execute(_HOLDER.encode(), [self._format_lock_name(name)]).fetchone()
        return None if row is None else str(ServerSession(*row))

    def check(self) -> None:
        """Take all leases again if the connection was lost, else do nothing. Raises LeaseLost if another process holds
        one of them by now, and psycopg.OperationalError if no connection can be opened.
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
                    "written results stay; run the same command again for the rest"
                )

    def renew(self) -> bool:
        """Return whether all leases are held, after taking them again if the connection was lost. False if that fails
        now; it may be tried again later.
        """
        try:
            self.check()
        except (LeaseLost, psycopg.OperationalError):
            return False
        return True

    def close(self) -> None:
        """Give all leases back and close the connection, so that other processes can take them at once."""
        with suppress(psycopg.OperationalError):
            self._connection.execute("SELECT pg_advisory_unlock_all()")
        self._connection.close()

    def _format_lock_name(self, name: str) -> str:
        return f"{self._database}: {name}"

    def _try_lock(self, name: str, kind: str) -> bool:
        """Take the lock if nobody else holds it; return whether it is held now."""
        query = f"SELECT pg_try_advisory_lock{kind}({_LOCK})".encode()
        return self._connection.execute(query, [self._format_lock_name(name)]).fetchone() == (True,)


@contextmanager
def hold_lease(url: URL, name: str) -> Iterator[Leases]:
    """Hold the lease of this name until the context ends, and yield the `Leases` that has it. Waits first, without a
    limit, while another process holds it. `url` is the database that the lease is about; raises
    psycopg.OperationalError if its server cannot be reached.
    """
    with Leases(url) as leases:
        leases.take(name)
        yield leases


@contextmanager
def hold_lease_if_free(url: URL, name: str) -> Iterator[bool]:
    """Try once to take the lease of this name, and yield whether it was free. If so, it is held until the context ends.
    `url` is the database that the lease is about; raises psycopg.OperationalError if its server cannot be reached.

    A free lease proves that its holder is gone; while it is held here, no other process can conclude the same.
    """
    with Leases(url) as leases:
        yield leases.take_if_free(name)


def _connect(url: URL) -> psycopg.Connection[Any]:
    """Open a connection whose loss both sides notice within a minute, also if a host or the network is gone."""
    name = format_application_name("lease of ")
    connection = open_connection(url, autocommit=True, application_name=name, tcp_user_timeout=_LOST_MS, **KEEPALIVE)
    # The server probes in the same way. It may also end sessions that are silent or wait long, as this one does.
    settings = {f"tcp_{name}": value for name, value in {**KEEPALIVE, "user_timeout": _LOST_MS}.items()}
    settings |= {"idle_session_timeout": 0, "statement_timeout": 0, "lock_timeout": 0}
    connection.execute(
        "SELECT set_config(name, value, false) FROM unnest(%s::text[], %s::text[]) AS wanted (name, value)",
        [list(settings), [str(value) for value in settings.values()]],
    )
    return connection
