"""The record of every call to a server: how an attempt ended and what it took."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol, TypeAlias

from metrics_core.models.server.answers import Exchange
from metrics_core.models.server.spending import Usage

CacheMode: TypeAlias = Literal["normal", "refresh", "offline"]
"""normal: stored answers first. refresh: ask again and replace them. offline: stored answers only, nothing is sent."""

AttemptOutcome: TypeAlias = Literal["ok", "malformed", "truncated", "refused", "unreachable", "rejected", "wrong_model"]
"""How one attempt ended. rejected: the server answered with an error that no repetition mends."""


class Ledger(Protocol):
    """A store of attempts at requests. Several threads call it at once."""

    def record(self, call: Mapping[str, Any]) -> None:
        """Store one attempt durably, given as a mapping of its fields. It has its `request_sha256`, the identity of the
        `model` as plain data, `purpose`, the number of the `attempt` from 0, transport retries included, `outcome`,
        `error` and `http_status` (None where there is none), `tokens_in`, `tokens_out`, `money` and `duration_s`.
        """
        ...


def build_call(
    request: Mapping[str, Any], exchange: Exchange, outcome: AttemptOutcome, error: str | None, usage: Usage
) -> dict[str, Any]:
    """Build the record of one attempt for `Ledger.record`. request: its members that say which request it was. error:
    None for "ok".
    """
    ended = {"outcome": outcome, "error": error, "http_status": exchange.status, "duration_s": exchange.seconds}
    took = {"tokens_in": usage.tokens_in, "tokens_out": usage.tokens_out, "money": usage.money}
    return {**request, **ended, **took}
