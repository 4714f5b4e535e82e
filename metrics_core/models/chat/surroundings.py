"""What the requests of one call of `chat` share: the server, its peculiarities, budgets, storage, time and chance."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from metrics_core.models.chat.records import Ledger, ReplyCache
from metrics_core.models.chat.retries import RetryPolicy
from metrics_core.models.chat.server import Server
from metrics_core.models.chat.spending import Prices, Spending
from metrics_core.models.chat.wire import Dialect
from metrics_core.protocols import ModelIdentity

if TYPE_CHECKING:
    import httpx2


# How many calls run at once: halved when a server says that they are too many, and raised again slowly.


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
    def slot(self) -> Iterator[int]:
        """Wait for a place among the running calls. Yields a mark for `too_many`."""
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

    def too_many(self, mark: int) -> None:
        """Halve the limit, unless it was halved since the call with this mark began."""
        with self._changed:
            if mark == self._halvings:
                self._limit = max(1, self._limit // 2)
                self._halvings += 1
                self._good = 0

    def good(self) -> None:
        """Count a call that the server answered; raise the limit by 1 after as many as it allows at once."""
        with self._changed:
            self._good += 1
            if self._good >= self._limit < self.maximum:
                self._limit += 1
                self._good = 0
                self._changed.notify_all()


# End asking early where going on cannot help: a wrong key, a wrong model, a server that is gone.


class Fuse:
    """Blows when told, and ends one call of `chat`. Threads share it."""

    def __init__(self) -> None:
        self._reason: str | None = None
        self._lock = threading.Lock()

    @property
    def reason(self) -> str | None:
        """Why nothing more is asked; None while asking goes on."""
        return self._reason

    def blow(self, reason: str) -> None:
        """Ask nothing more, for the first reason given."""
        with self._lock:
            self._reason = self._reason or reason


class Silence:
    """Ends asking after `most` requests in a row without an answer, in as many calls of `chat` as share it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._n = 0
        self._reason: str | None = None
        self._lock = threading.Lock()

    @property
    def reason(self) -> str | None:
        """Why nothing more is asked; None while asking goes on."""
        return self._reason

    def answered(self) -> None:
        """Note that the server lives."""
        with self._lock:
            self._n = 0

    def unanswered(self, reason: str) -> None:
        """Count a request to which no answer came after all retries."""
        with self._lock:
            self._n += 1
            if self._n >= self._most:
                self._reason = self._reason or f"not asked, since {self._n} requests before went unanswered: {reason}"


class DialectMemory:
    """The dialect that a server was last seen to understand. Threads share it."""

    def __init__(self, first: Dialect) -> None:
        self.dialect = first
        self._lock = threading.Lock()

    def learn(self, used: Dialect, complaint: str) -> bool:
        """Whether to send the request again, in a dialect learned from the server's complaint about the one used."""
        with self._lock:
            if self.dialect != used:
                # Another request has learned meanwhile.
                return True
            learned = used.after(complaint)
            self.dialect = learned or used
            return learned is not None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """clock: seconds that only grow. sleep: waits so many seconds. random: a number in [0, 1)."""

    identity: ModelIdentity
    server: Server
    stream: Callable[..., AbstractContextManager[httpx2.Response]]
    policy: RetryPolicy
    memory: DialectMemory
    limit: ConcurrencyLimit
    fuse: Fuse
    silence: Silence
    prices: Prices | None
    spending: Spending | None
    cache: ReplyCache | None
    ledger: Ledger | None
    clock: Callable[[], float]
    sleep: Callable[[float], None]
    random: Callable[[], float]
