"""How many calls to a server run at once: halved when it answers 429, and raised again slowly."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class ConcurrencyLimit:
    """At most `maximum` calls at once. Threads share it.

    A 429 halves the limit, to 1 at least. Calls that were under way when it was halved do not halve it again: they
    were too many for the same reason. After as many good calls as the limit, it rises by 1.
    """

    def __init__(self, maximum: int) -> None:
        if maximum < 1:
            raise ValueError(f"concurrency is {maximum}: give the number of calls at once, 1 or more.")
        self.maximum = maximum
        self._limit = maximum
        self._running = 0
        self._good = 0
        self._halvings = 0
        self._changed = threading.Condition()

    @property
    def limit(self) -> int:
        """Calls that may run at once now."""
        return self._limit

    @contextmanager
    def hold_slot(self) -> Iterator[int]:
        """Wait for a place among the running calls. Yields a mark for `halve_limit`."""
        with self._changed:
            self._changed.wait_for(lambda: self._running < self._limit)
            self._running += 1
            mark = self._halvings
        try:
            yield mark
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def halve_limit(self, mark: int) -> None:
        """Halve the limit, unless it was halved since the call with this mark began."""
        with self._changed:
            if mark == self._halvings:
                self._limit = max(1, self._limit // 2)
                self._halvings += 1
                self._good = 0

    def count_success(self) -> None:
        """Count a call that the server answered; raise the limit by 1 after as many as it allows at once."""
        with self._changed:
            self._good += 1
            if self._good >= self._limit < self.maximum:
                self._limit += 1
                self._good = 0
                self._changed.notify_all()
