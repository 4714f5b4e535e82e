"""Waits for locks of others, told on standard error while a command runs."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_FIRST_LOOK_S = 2.0


@contextmanager
def waits_told() -> Iterator[None]:
    """Tell the waits of the command that runs meanwhile. One that is done soon imports and connects nothing for it."""
    ended = threading.Event()
    thread = threading.Thread(target=_tell, args=[ended], name="waits", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(1.0)


def _tell(ended: threading.Event) -> None:
    while not ended.wait(_FIRST_LOOK_S):
        # Every command that uses the database has imported it by now.
        platform = sys.modules.get("orchestration.platform")
        url = platform.known_url() if platform else None
        if url is not None:
            from db.server.reader import READER
            from db.server.waits import Watch
            from orchestration.terminal import say

            Watch(READER, lambda line: say("database", line)).run(url, ended)
            return
