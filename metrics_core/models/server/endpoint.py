"""A model behind a server and how it is asked, shared by chat models and text encoders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from metrics_core.models.server.address import Server
from metrics_core.models.server.answers import Exchange
from metrics_core.models.server.ledger import AttemptOutcome, CacheMode, Ledger, build_call
from metrics_core.models.server.pace import Pace
from metrics_core.models.server.spending import Prices, SpendingLimit, Usage, compute_call_usage


@dataclass(frozen=True)
class Endpoint:
    """A model behind a server, and how it is asked. model: its name there. revision: distinguishes models of one name,
    such as a quantisation; no server reports it. concurrency: requests at once; None follows `pace`. mode: whether
    stored answers count, see `CacheMode`. ledger: stores every call, None for no record.

    timeout_s: the longest silence of a server. deadline_s: for all attempts at a request. transport_retries: after no
    answer, 408, 409, 429 or 5xx. content_retries: after an answer that is no valid JSON or was cut at its token limit;
    every one is a fresh request with the next seed. Raises ValueError for a spending limit without prices, and numbers
    out of range.
    """

    model: str
    server: Server
    revision: str = "as served"
    concurrency: int | None = None
    deadline_s: float = 600.0
    timeout_s: float = 180.0
    transport_retries: int = 5
    content_retries: int = 2
    prices: Prices | None = None
    spending: SpendingLimit | None = None
    mode: CacheMode = "normal"
    ledger: Ledger | None = None
    pace: Pace = field(default_factory=Pace, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.spending is not None and self.prices is None:
            raise ValueError("a spending limit needs the prices of the model: give both, or neither")
        if not min(self.timeout_s, self.deadline_s) > 0:
            raise ValueError("timeout and deadline are more than 0 seconds")
        if self.concurrency is not None and self.concurrency < 1:
            raise ValueError(f"concurrency is {self.concurrency}: give the number of calls at once, 1 or more")

    @property
    def most_at_once(self) -> int:
        """Return how many requests may be in flight now."""
        return self.concurrency or self.pace.limit

    @property
    def stop_reason(self) -> str | None:
        """Return a sentence if the spending limit is reached, so that nothing more may be asked; else None."""
        if self.spending is not None and self.spending.is_reached:
            return f"the spending limit of {self.spending.limit:g} is reached"
        return None

    def count_attempt(
        self,
        request: Mapping[str, Any],
        exchange: Exchange,
        outcome: AttemptOutcome,
        error: str | None = None,
        tokens: tuple[int, int] = (0, 0),
    ) -> Usage:
        """Return the usage of one attempt with these tokens (in, out), add its money to the spending limit, let it set
        the pace, and record it in the ledger. request: the members of the record that say which request it was, see
        `Ledger.record`. error: None for "ok".
        """
        self.pace.note(str(request["purpose"]), exchange)
        usage = compute_call_usage(*tokens, self.prices)
        if self.spending is not None:
            self.spending.add(usage)
        if self.ledger is not None:
            self.ledger.record(build_call(request, exchange, outcome, error, usage))
        return usage
