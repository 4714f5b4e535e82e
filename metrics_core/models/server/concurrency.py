"""Limit how many calls to a server run at once: the limit halves when it answers 429, and rises again slowly."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class ConcurrencyLimit:
    """A limit of the calls that run at once, which begins as `maximum` and adapts to the server. `halve_limit` halves
    it, to 1 at least, where the server answers 429 (too many requests). After as many good calls as the limit, it rises
    by 1, up to `maximum`. Threads share it. Raises ValueError for a maximum below 1.

    Calls that were under way when the limit was halved do not halve it again: they were too many for the same reason.
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
        """Return the number of calls that may run at once now."""
        return self._limit

    @contextmanager
    def hold_slot(self) -> Iterator[int]:
        """Wait until fewer calls run than the limit, and count as one during the `with` block. Yields the number of
        halvings so far, which `halve_limit` takes.
        """
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
        """Halve the limit, to 1 at least, unless it was halved since the call began. mark: the number that this call
        got from `hold_slot`.
        """
        with self._changed:
            if mark == self._halvings:
                self._limit = max(1, self._limit // 2)
                self._halvings += 1
                self._good = 0

    def count_success(self) -> None:
        """Count a call that the server answered; after as many as the limit, raise it by 1, up to the maximum."""
        with self._changed:
            self._good += 1
            if self._good >= self._limit < self.maximum:
                self._limit += 1
                self._good = 0
                self._changed.notify_all()
