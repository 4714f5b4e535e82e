"""Reports on standard error when a command waits for database locks of other processes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_FIRST_LOOK_S = 2.0


@contextmanager
def report_waits() -> Iterator[None]:
    """While the block runs, print on standard error which locks this process waits for, and which locks of the
    read-only role or of other programs hold up other Reelsieve processes. A thread looks every two seconds, once the
    database is open. A read-only session that blocks others for five looks is ended.
    """
    ended = threading.Event()
    thread = threading.Thread(target=_report_until_end, args=[ended], name="waits", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(1.0)


def _report_until_end(ended: threading.Event) -> None:
    while not ended.wait(_FIRST_LOOK_S):
        # Every command that uses the database has imported it by now, or is about to; its import may be under way.
        get_installation = getattr(sys.modules.get("orchestration.installation"), "get_installation", None)
        opened = get_installation is not None and get_installation.cache_info().currsize
        url = get_installation().find_database_url() if get_installation and opened else None
        if url is not None:
            from db.server.reader import READER_ROLE
            from db.server.waits import LockWatch
            from orchestration.terminal import print_line

            LockWatch(READER_ROLE, lambda line: print_line("database", line)).run(url, ended)
            return
