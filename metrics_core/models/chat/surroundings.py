"""What the requests of one call of `chat` share: the server, its peculiarities, budgets, storage, time and chance."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from metrics_core.models.chat.fuse import Fuse, Silence
from metrics_core.models.chat.limiter import ConcurrencyLimit
from metrics_core.models.chat.records import Ledger, ReplyCache
from metrics_core.models.chat.retries import RetryPolicy
from metrics_core.models.chat.server import Server
from metrics_core.models.chat.spending import Prices, Spending
from metrics_core.models.chat.wire import Dialect
from metrics_core.protocols import ModelIdentity

if TYPE_CHECKING:
    import httpx2


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
