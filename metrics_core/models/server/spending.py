"""The cost of calls: tokens and money of all attempts, and a spending limit that several models may share."""

from __future__ import annotations

import threading
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Prices:
    """The prices of a model from the user's contract, in any currency: money for a million tokens in (read) and out
    (written). Raises ValueError for a price that is negative or not finite.
    """

    per_million_in: float
    per_million_out: float

    def __post_init__(self) -> None:
        if not (0 <= self.per_million_in < float("inf") and 0 <= self.per_million_out < float("inf")):
            raise ValueError(f"a price per million tokens is a number of 0 or more, not {self}")


@dataclass(frozen=True, slots=True)
class Usage:
    """The calls, tokens and money of one or more attempts, failed ones included. money: None without prices."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    money: float | None = None


def compute_call_usage(tokens_in: int, tokens_out: int, prices: Prices | None) -> Usage:
    """Return the usage of one call with these tokens; its money is None without prices.

    >>> compute_call_usage(100, 20, Prices(2.5, 10.0)).money
    0.00045
    """
    money = None
    if prices is not None:
        money = (tokens_in * prices.per_million_in + tokens_out * prices.per_million_out) / 1_000_000
    return Usage(1, tokens_in, tokens_out, money)


def add_usage(first: Usage, second: Usage) -> Usage:
    """Return the sum of two usages. Its money is None if either one's is None; a usage without calls adds nothing."""
    if not first.calls:
        return second
    if not second.calls:
        return first
    known = first.money is not None and second.money is not None
    return Usage(
        first.calls + second.calls,
        first.tokens_in + second.tokens_in,
        first.tokens_out + second.tokens_out,
        (first.money or 0.0) + (second.money or 0.0) if known else None,
    )


class SpendingLimit:
    """The money spent so far and a limit to it. Give one object to all models that share the limit; threads may share
    it. Once the limit is reached, nothing more is sent. Calls under way are not cancelled, so the sum may pass the
    limit. Raises ValueError for a negative limit.
    """

    def __init__(self, limit: float) -> None:
        if not limit >= 0:
            raise ValueError(f"a spending limit is a number of 0 or more, not {limit}")
        self.limit = limit
        self._spent = 0.0
        self._lock = threading.Lock()

    @property
    def is_reached(self) -> bool:
        """Whether the money spent has reached the limit, so that nothing more may be sent."""
        return self._spent >= self.limit

    def add(self, usage: Usage) -> None:
        """Add the money of a call that was made; unknown money counts as 0."""
        with self._lock:
            self._spent += usage.money or 0.0
