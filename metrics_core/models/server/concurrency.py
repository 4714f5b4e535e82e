"""Limit how many calls to a server run at once: the limit halves when it answers 429, and rises again slowly."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class ConcurrencyLimit:
    """A limit of the calls that run at once, at most `maximum`, which adapts to the server. Threads share it.

    A 429 halves the limit, to 1 at least. Calls that were under way when it was halved do not halve it again: they were
    too many for the same reason. After as many good calls as the limit, it rises by 1.
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
        """Wait until fewer calls run than the limit, and count as one during the block. Yields a number for
        `halve_limit`.
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
        """Halve the limit, unless it was halved after the call that got this number from `hold_slot` began."""
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
