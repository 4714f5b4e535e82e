"""Who waits for whom among the sessions of a server, said so that a person can find the other one."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg
from sqlalchemy.engine import URL

from db.server.engine import format_application_name, open_connection

# Seconds between two looks; a wait is told at the second one.
PAUSE_S = 2.0
# Looks after which a session of the reader must make way.
PATIENCE = 5
# How sessions of Reelsieve are called, see `db.server.engine.application`.
_OWN = re.compile(r"reelsieve (lease of )?")


@dataclass(frozen=True, slots=True)
class ServerSession:
    """A session of the server: the role as the server knows it, the application as the session calls itself.

    since: when its transaction began, or where it has none, its connection; None where that is hidden from this role.

    >>> print(ServerSession(7, "ann", "psql", None))
    psql (server process 7, role ann)
    """

    pid: int
    role: str | None
    application: str
    since: datetime | None

    @staticmethod
    def build_columns_sql(activity: str) -> str:
        """SQL of the fields, from pg_stat_activity under this name."""
        a = activity
        return f"{a}.pid, {a}.usename, {a}.application_name, coalesce({a}.xact_start, {a}.backend_start)"

    def __str__(self) -> str:
        name = _OWN.sub("", self.application, count=1) or "a program without a name"
        role = "" if self.role is None else f", role {self.role}"
        since = "" if self.since is None else f", since {self.since.astimezone():%Y-%m-%d %H:%M:%S}"
        return f"{name} (server process {self.pid}{role}{since})"


# What this process waits for, and what other processes of Reelsieve wait for that is none of theirs.
_WAITS = f"""
SELECT w.application_name = ANY(%(own)s), {ServerSession.build_columns_sql("w")}, {ServerSession.build_columns_sql("h")}
FROM pg_stat_activity w CROSS JOIN LATERAL unnest(pg_blocking_pids(w.pid)) AS ahead (pid)
JOIN pg_stat_activity h ON h.pid = ahead.pid
WHERE w.wait_event_type = 'Lock' AND (w.application_name = ANY(%(own)s)
  OR w.application_name LIKE 'reelsieve %%' AND (h.usename = %(reader)s OR h.application_name NOT LIKE 'reelsieve %%'))
"""


class LockWatch:
    """Tells every wait for a lock that lasts, once. A session of the reader that is waited for too long is ended."""

    def __init__(self, reader: str, tell: Callable[[str], None]) -> None:
        """reader: the role that may hold up nobody."""
        self._tell = tell
        self._names = {"own": [format_application_name(), format_application_name("lease of ")], "reader": reader}
        self._looks: dict[tuple[int, int], int] = {}

    def run(self, url: URL, ended: threading.Event, pause_s: float = PAUSE_S) -> None:
        """Look again and again until the event, also after the server was away."""
        connection: psycopg.Connection[Any] | None = None
        while not ended.wait(pause_s):
            try:
                connection = connection or open_connection(url, autocommit=True, connect_timeout=5)
                self.report_waits(connection)
            except psycopg.Error:
                # The work meets the same trouble, and reports it.
                if connection is not None:
                    connection.close()
                connection = None
        if connection is not None:
            connection.close()

    def report_waits(self, connection: psycopg.Connection[Any]) -> None:
        """Look once. Raises psycopg.Error."""
        before, self._looks = self._looks, {}
        for is_own, *columns in connection.execute(_WAITS.encode(), self._names).fetchall():
            waits, holds = ServerSession(*columns[:4]), ServerSession(*columns[4:])
            pair = (waits.pid, holds.pid)
            self._looks[pair] = before.get(pair, 0) + 1
            if self._looks[pair] == 2:
                self._tell(f"{'' if is_own else f'{waits} '}waits for a lock of {holds}")
            if self._looks[pair] >= PATIENCE and holds.role == self._names["reader"]:
                self._end(connection, holds)

    def _end(self, connection: psycopg.Connection[Any], holds: ServerSession) -> None:
        # Where this role may not do it, a person has been told.
        with suppress(psycopg.errors.InsufficientPrivilege):
            connection.execute("SELECT pg_terminate_backend(%s)", [holds.pid])
            self._tell(f"ended {holds}, which held it up: a reader may not")
