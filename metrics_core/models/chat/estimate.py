"""A dry run: counts the calls, tokens and money that requests would take, and sends nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from metrics_core.models.chat.bookkeeping import Bookkeeping, Pending
from metrics_core.models.chat.protocol import ChatReply, ChatRequest, Usage
from metrics_core.models.chat.records import ReplyCache
from metrics_core.models.chat.retries import RetryPolicy
from metrics_core.models.chat.spending import Prices, add_usage, usage_of_call
from metrics_core.models.chat.tokens import estimated_tokens
from metrics_core.protocols import ModelIdentity


def estimate(requests: Sequence[ChatRequest], prices: Prices | None) -> Usage:
    """Usage of these requests, each answered at the first attempt with all the tokens that it allows.

    Tokens in are estimated by `estimated_tokens`. Tokens out are an upper bound, unless answers are asked again.
    """
    total = Usage()
    for request in requests:
        total = add_usage(total, usage_of_call(estimated_tokens(request), request.max_tokens, prices))
    return total


@dataclass
class DryRun:
    """A chat model that sends nothing. Stored answers are given as they are; the rest is counted and "stopped".

    by_purpose: usage that the requests of each step would take, in the order in which the steps came.
    """

    identity: ModelIdentity
    prices: Prices | None = None
    cache: ReplyCache | None = None
    n_cached: int = 0
    by_purpose: dict[str, Usage] = field(default_factory=dict)

    @property
    def total(self) -> Usage:
        """Usage of all requests so far."""
        total = Usage()
        for usage in self.by_purpose.values():
            total = add_usage(total, usage)
        return total

    def chat(self, requests: Sequence[ChatRequest]) -> list[ChatReply]:
        """Count these requests; an equal one twice in a call is counted once, as it would be asked once."""
        book = Bookkeeping(self.identity, RetryPolicy().content_retries + 1, True, self.cache, "normal")
        replies = book.replies(requests, self._count)
        self.n_cached += sum(reply.status == "ok" for reply in replies)
        return replies

    def _count(self, pending: list[Pending]) -> list[ChatReply]:
        for request in (one.request for one in pending):
            before = self.by_purpose.get(request.purpose, Usage())
            self.by_purpose[request.purpose] = add_usage(before, estimate([request], self.prices))
        return [ChatReply("stopped", reason="a dry run: nothing was sent")] * len(pending)
