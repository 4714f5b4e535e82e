"""A model behind a server and how it is asked, shared by chat models and text encoders."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from metrics_core.models.server.address import Server
from metrics_core.models.server.exchange import MAX_ANSWER_BYTES
from metrics_core.models.server.ledger import CacheMode, Ledger
from metrics_core.models.server.post import HttpAnswer, open_client, post_json
from metrics_core.models.server.retries import RetryPolicy
from metrics_core.models.server.spending import Prices, SpendingLimit, Usage, compute_call_usage

if TYPE_CHECKING:
    import httpx2


@dataclass(frozen=True, slots=True)
class TimeSource:
    """The clock, sleep and random functions that requests use; tests give others. clock: seconds that only grow."""

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = random.random


@dataclass(frozen=True)
class Endpoint:
    """A model behind a server, and how it is asked. model: the name that the server knows. revision: distinguishes two
    models of one name, such as a commit or a quantisation; a server does not report it. concurrency: requests at once.
    mode: whether stored answers count, see `CacheMode`; "offline" asks nothing. ledger: stores every call, None for no
    record. Raises ValueError for a spending limit without the prices of the model.
    """

    model: str
    server: Server
    revision: str = "as served"
    concurrency: int = 8
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    prices: Prices | None = None
    spending: SpendingLimit | None = None
    mode: CacheMode = "normal"
    ledger: Ledger | None = None
    time: TimeSource = field(default_factory=TimeSource, repr=False)

    def __post_init__(self) -> None:
        if self.spending is not None and self.prices is None:
            raise ValueError("a spending limit needs the prices of the model: give both, or neither")

    @property
    def stop_reason(self) -> str | None:
        """Return a sentence if the spending limit is reached, so that nothing more may be asked; else None."""
        if self.spending is not None and self.spending.is_reached:
            return f"the spending limit of {self.spending.limit:g} is reached"
        return None

    def open_client(self) -> httpx2.Client:
        """Open an HTTP client for this server with the time limits of the policy. The caller closes it."""
        return open_client(self.server, self.policy.connect_s, self.policy.timeout_s)

    def post_json(
        self,
        client: httpx2.Client,
        path: str,
        body: Mapping[str, Any],
        deadline: float,
        max_bytes: int = MAX_ANSWER_BYTES,
    ) -> HttpAnswer:
        """Send one request to `path` under the server's address, and return its answer. deadline: a time of the
        endpoint's clock by which the answer must be whole. Raises ServerUnreachable where it is not, or is longer than
        `max_bytes`; ServerUnusable where the server's key is missing.
        """
        timeout_s = max(deadline - self.time.clock(), 0.0)
        return post_json(client.stream, self.server, body, timeout_s, path=path, max_bytes=max_bytes)

    def count_usage(self, tokens_in: int, tokens_out: int) -> Usage:
        """Return the usage of one call with these tokens, and add its money to the spending limit."""
        usage = compute_call_usage(tokens_in, tokens_out, self.prices)
        if self.spending is not None:
            self.spending.add(usage)
        return usage
