"""The record of every call to a server: how an attempt ended and what it took."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol, TypeAlias

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
