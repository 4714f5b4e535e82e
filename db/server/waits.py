"""Report which sessions of a server wait for which others, so that a person can find the blocking one."""

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

# Seconds between two looks; a wait is reported at the second one.
PAUSE_S = 2.0
# Looks after which a blocking session of the reader is ended.
PATIENCE = 5
# Names of Reelsieve's sessions begin so, see `db.server.engine.format_application_name`.
_OWN = re.compile(r"reelsieve (lease of )?")


@dataclass(frozen=True, slots=True)
class ServerSession:
    """A session of the Postgres server: process id, role, and the name that its program gave itself. `since` is when
    its transaction began, or without a transaction its connection; None if this role may not see it.

    >>> print(ServerSession(7, "ann", "psql", None))
    psql (server process 7, role ann)
    """

    pid: int
    role: str | None
    application: str
    since: datetime | None

    @staticmethod
    def build_columns_sql(activity: str) -> str:
        """Return SQL for the columns of `pg_stat_activity` that fill this class's fields, in their order. `activity` is
        the alias of that view in the statement.
        """
        a = activity
        return f"{a}.pid, {a}.usename, {a}.application_name, coalesce({a}.xact_start, {a}.backend_start)"

    def __str__(self) -> str:
        name = _OWN.sub("", self.application, count=1) or "a program without a name"
        role = "" if self.role is None else f", role {self.role}"
        since = "" if self.since is None else f", since {self.since.astimezone():%Y-%m-%d %H:%M:%S}"
        return f"{name} (server process {self.pid}{role}{since})"


# Waits of this process, and waits of other Reelsieve processes for sessions of the reader or of other programs.
_WAITS = f"""
SELECT w.application_name = ANY(%(own)s), {ServerSession.build_columns_sql("w")}, {ServerSession.build_columns_sql("h")}
FROM pg_stat_activity w CROSS JOIN LATERAL unnest(pg_blocking_pids(w.pid)) AS ahead (pid)
JOIN pg_stat_activity h ON h.pid = ahead.pid
WHERE w.wait_event_type = 'Lock' AND (w.application_name = ANY(%(own)s)
  OR w.application_name LIKE 'reelsieve %%' AND (h.usename = %(reader)s OR h.application_name NOT LIKE 'reelsieve %%'))
"""


class LockWatch:
    """A watch for sessions that wait for locks. It calls `tell` once for every wait that is seen by two looks in a row,
    and ends a session of the read-only role that blocks others for 5 looks (PATIENCE).
    """

    def __init__(self, reader: str, tell: Callable[[str], None]) -> None:
        """reader: the role whose sessions must not block others."""
        self._tell = tell
        self._names = {"own": [format_application_name(), format_application_name("lease of ")], "reader": reader}
        self._looks: dict[tuple[int, int], int] = {}

    def run(self, url: URL, ended: threading.Event, pause_s: float = PAUSE_S) -> None:
        """Report waits every `pause_s` seconds until the event `ended` is set, and end read-only sessions that block
        others for long, both as `report_waits` does. Opens a connection of its own, and another one after an error of
        the server; such errors are not raised.
        """
        connection: psycopg.Connection[Any] | None = None
        while not ended.wait(pause_s):
            try:
                connection = connection or open_connection(url, autocommit=True, connect_timeout=5)
                self.report_waits(connection)
            except psycopg.Error:
                # The main work gets the same error, and reports it.
                if connection is not None:
                    connection.close()
                connection = None
        if connection is not None:
            connection.close()

    def report_waits(self, connection: psycopg.Connection[Any]) -> None:
        """Look for waits once: report those seen for the second time, and end a session of the read-only role that has
        blocked others for 5 looks (PATIENCE). Waits of this process count, and waits of other Reelsieve processes for
        the read-only role or for other programs. Raises psycopg.Error.
        """
        before, self._looks = self._looks, {}
        for is_own, *columns in connection.execute(_WAITS.encode(), self._names).fetchall():
            waits, holds = ServerSession(*columns[:4]), ServerSession(*columns[4:])
            pair = (waits.pid, holds.pid)
            self._looks[pair] = before.get(pair, 0) + 1
            if self._looks[pair] == 2:
                self._tell(f"{'this command' if is_own else waits} waits for a lock of {holds}")
            if self._looks[pair] >= PATIENCE and holds.role == self._names["reader"]:
                self._end(connection, holds)

    def _end(self, connection: psycopg.Connection[Any], holds: ServerSession) -> None:
        # If this role may not do it, the wait has been reported.
        with suppress(psycopg.errors.InsufficientPrivilege):
            connection.execute("SELECT pg_terminate_backend(%s)", [holds.pid])
            self._tell(f"Reelsieve ended {holds}: a session of the read-only role must not block others")
