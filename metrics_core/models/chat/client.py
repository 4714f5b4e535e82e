"""A chat model behind any server of /v1/chat/completions, with retries, a cache, and a spending stop."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from metrics_core.models.chat.asking import Asking
from metrics_core.models.chat.bookkeeping import Bookkeeping, Pending
from metrics_core.models.chat.protocol import ChatReply, ChatRequest
from metrics_core.models.chat.records import CacheMode, Ledger, ReplyCache
from metrics_core.models.chat.retries import RetryPolicy
from metrics_core.models.chat.server import Server, in_threads, open_client
from metrics_core.models.chat.spending import Prices, Spending
from metrics_core.models.chat.surroundings import ConcurrencyLimit, DialectMemory, Fuse, Silence, Surroundings
from metrics_core.models.chat.wire import Dialect
from metrics_core.protocols import ModelIdentity

# Unanswered requests in a row after which the rest is not asked, and at least as many as run at once.
_MOST_SILENT = 4


@dataclass(frozen=True, slots=True)
class Time:
    """Where time and chance come from; tests give their own. clock: seconds that only grow."""

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = random.random


@dataclass(frozen=True)
class HttpChatModel:
    """Asks a server, several requests at once, and each valid answer only once in its life where there is a cache.

    model: the name that the server knows. revision: what tells two models of one name apart, such as a commit or a
    quantisation; a server does not say. images: whether the model takes them. The dialect that the server understands
    is remembered for the life of this object. Raises ValueError for a setting that makes no sense.
    """

    model: str
    server: Server
    revision: str = "as served"
    images: bool = True
    dialect: Dialect = field(default_factory=Dialect)
    concurrency: int = 8
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    prices: Prices | None = None
    spending: Spending | None = None
    cache: ReplyCache | None = None
    mode: CacheMode = "normal"
    ledger: Ledger | None = None
    time: Time = field(default_factory=Time, repr=False)
    _memory: DialectMemory = field(init=False, repr=False, compare=False)
    _limit: ConcurrencyLimit = field(init=False, repr=False, compare=False)
    _silence: Silence | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.spending is not None and self.prices is None:
            raise ValueError("a spending limit needs the prices of the model: give both, or neither")
        if self.mode == "offline" and self.cache is None:
            raise ValueError("offline answers come from a cache: give one")
        object.__setattr__(self, "_memory", DialectMemory(self.dialect))
        object.__setattr__(self, "_limit", ConcurrencyLimit(self.concurrency))

    @property
    def identity(self) -> ModelIdentity:
        """Name and revision as given: the same on every server."""
        return ModelIdentity(self.model, self.revision)

    def remembering(self, cache: ReplyCache, mode: CacheMode, ledger: Ledger) -> HttpChatModel:
        """The same model with a cache and a ledger, for one run.

        Once it finds the server silent, it asks nothing more: a run of many calls waits for a dead server only once.
        """
        model = replace(self, cache=cache, mode=mode, ledger=ledger)
        object.__setattr__(model, "_silence", model._new_silence())
        return model

    def chat(self, requests: Sequence[ChatRequest]) -> list[ChatReply]:
        """One reply for each request, in their order. Equal requests are asked once.

        Raises ValueError for a request whose schema is none or whose max_tokens is below 1, and whatever cache and
        ledger raise; all that server, model and network cause is a reply's status.
        """
        attempts = self.policy.content_retries + 1
        book = Bookkeeping(self.identity, attempts, self.images, self.cache, self.mode)
        return book.replies(requests, self._ask)

    def _ask(self, pending: list[Pending]) -> list[ChatReply]:
        with open_client(self.server, self.policy.connect_s, self.policy.timeout_s) as client:
            around = self._surroundings(client.stream)
            askings = [Asking(around, one.request, one.keys) for one in pending]
            try:
                return in_threads(Asking.reply, askings, self.concurrency)
            finally:
                # After an error or an interrupt, requests under way send nothing more.
                around.fuse.blow("interrupted")

    def _new_silence(self) -> Silence:
        return Silence(max(_MOST_SILENT, self.concurrency))

    def _surroundings(self, stream: Callable[..., Any]) -> Surroundings:
        return Surroundings(
            identity=self.identity,
            server=self.server,
            stream=stream,
            policy=self.policy,
            memory=self._memory,
            limit=self._limit,
            fuse=Fuse(),
            silence=self._silence or self._new_silence(),
            prices=self.prices,
            spending=self.spending,
            cache=self.cache,
            ledger=self.ledger,
            clock=self.time.clock,
            sleep=self.time.sleep,
            random=self.time.random,
        )
