"""Asks a server of /v1/chat/completions: the model, one request with all its attempts, and servers by name."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from metrics_core.models.chat.protocol import ChatReply, ChatRequest, Usage
from metrics_core.models.chat.records import Bookkeeping, CacheMode, Ledger, Pending, ReplyCache
from metrics_core.models.chat.server import (
    HttpAnswer,
    Server,
    ServerUnusable,
    Unreachable,
    in_threads,
    open_client,
    post,
)
from metrics_core.models.chat.spending import Prices, Spending, add_usage, estimated_tokens, text_tokens, usage_of_call
from metrics_core.models.chat.surroundings import ConcurrencyLimit, Fuse, RetryPolicy, Silence, retry_after_s
from metrics_core.models.chat.wire import Dialect, DialectMemory, Judgement, judge, request_body
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
    memory: DialectMemory = field(init=False, repr=False, compare=False)
    limit: ConcurrencyLimit = field(init=False, repr=False, compare=False)
    _silence: Silence | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.spending is not None and self.prices is None:
            raise ValueError("a spending limit needs the prices of the model: give both, or neither")
        if self.mode == "offline" and self.cache is None:
            raise ValueError("offline answers come from a cache: give one")
        object.__setattr__(self, "memory", DialectMemory(self.dialect))
        object.__setattr__(self, "limit", ConcurrencyLimit(self.concurrency))

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
        book = Bookkeeping(self.identity, attempts, self.images, self.cache, self.mode, self.ledger)
        return book.replies(requests, partial(self._ask, book))

    def _ask(self, book: Bookkeeping, pending: list[Pending]) -> list[ChatReply]:
        fuse, silence = Fuse(), self._silence or self._new_silence()
        with open_client(self.server, self.policy.connect_s, self.policy.timeout_s) as client:
            askings = [Asking(self, client.stream, book, fuse, silence, one) for one in pending]
            try:
                return in_threads(Asking.reply, askings, self.concurrency)
            finally:
                # After an error or an interrupt, requests under way send nothing more.
                fuse.blow("interrupted")

    def _new_silence(self) -> Silence:
        return Silence(max(_MOST_SILENT, self.concurrency))


@dataclass(slots=True)
class Asking:
    """One request to a server, from its first attempt to its reply: retries, budgets, deadline and spending.

    stream: method of the client of this call of `chat`, which `fuse` ends.
    """

    model: HttpChatModel
    stream: Callable[..., Any]
    book: Bookkeeping
    fuse: Fuse
    silence: Silence
    pending: Pending
    usage: Usage = field(default_factory=Usage)
    attempts: int = 0
    content_retries: int = 0
    transport_retries: int = 0
    deadline: float = 0.0

    @property
    def request(self) -> ChatRequest:
        """What is asked."""
        return self.pending.request

    def reply(self) -> ChatReply:
        """Ask until there is a valid answer, a final failure, or no budget left. A valid answer is stored at once."""
        self.deadline = self.model.time.clock() + self.model.policy.deadline_s
        while True:
            tried = self._call()
            if isinstance(tried, ChatReply):
                return tried
            judgement, wait_s = tried
            if judgement.outcome == "ok":
                return self._valid(judgement)
            if not self._may_retry(judgement, wait_s):
                return self._failed(judgement)
            if judgement.outcome == "unreachable":
                self.model.time.sleep(wait_s)

    def _call(self) -> ChatReply | tuple[Judgement, float]:
        """Make one call, unless asking has ended; returns how it is judged, and seconds to wait before the next one."""
        model, clock = self.model, self.model.time.clock
        queued = clock()
        with model.limit.slot() as mark:
            # A request that stands in a queue does not spend its own time.
            started = clock()
            self.deadline += started - queued
            if ended := self._ended():
                return ended
            dialect, answer = model.memory.dialect, None
            try:
                answer = self._post(dialect)
                judgement = judge(answer, self.request, model.model)
            except Unreachable as error:
                judgement = Judgement("unreachable", f"no answer ({error})")
            except ServerUnusable as error:
                self.fuse.blow(str(error))
                return ChatReply("error", reason=str(error), usage=self.usage)
            if answer is not None and answer.status == 429:
                model.limit.too_many(mark)
            elif judgement.outcome != "unreachable":
                model.limit.good()
            self._count(judgement, answer, clock() - started)
        if judgement.not_understood:
            judgement = replace(judgement, not_understood=model.memory.learn(dialect, judgement.reason or ""))
        retry_after = None if answer is None else retry_after_s(answer.headers)
        return judgement, model.policy.wait_s(self.transport_retries, model.time.random(), retry_after)

    def _ended(self) -> ChatReply | None:
        spending, reason = self.model.spending, self.fuse.reason or self.silence.reason
        if spending is not None and spending.reached:
            why = f"the spending limit of {spending.limit:g} is reached"
            return ChatReply("stopped", reason=f"not asked to the end: {why}", usage=self.usage)
        return ChatReply("error", reason=reason, usage=self.usage) if reason else None

    def _post(self, dialect: Dialect) -> HttpAnswer:
        body = request_body(self.request, self.model.model, dialect, self.request.seed + self.content_retries)
        return post(self.stream, self.model.server, body, max(self._remaining_s(), 0.0))

    def _remaining_s(self) -> float:
        return self.deadline - self.model.time.clock()

    def _count(self, judgement: Judgement, answer: HttpAnswer | None, duration_s: float) -> None:
        tokens, spending = judgement.tokens, self.model.spending
        if tokens is None and answer is not None and answer.status == 200:
            # The server does not say. A spending stop that counted nothing would never stop.
            tokens = estimated_tokens(self.request), min(text_tokens(answer.text), self.request.max_tokens)
        usage = usage_of_call(*(tokens or (0, 0)), self.model.prices)
        self.usage = add_usage(self.usage, usage)
        if spending is not None:
            spending.add(usage)
        status = None if answer is None else answer.status
        said = judgement.outcome, judgement.reason
        self.book.record(
            *(self.pending, self.content_retries, *said, usage, duration_s), attempt=self.attempts, http_status=status
        )
        self.attempts += 1

    def _may_retry(self, judgement: Judgement, wait_s: float) -> bool:
        policy = self.model.policy
        if judgement.outcome in {"malformed", "truncated"}:
            self.content_retries += 1
            return self.content_retries <= policy.content_retries and self._remaining_s() > 0
        if judgement.outcome == "unreachable":
            self.transport_retries += 1
            return self.transport_retries <= policy.transport_retries and self._remaining_s() > wait_s
        return judgement.not_understood and self._remaining_s() > 0

    def _valid(self, judgement: Judgement) -> ChatReply:
        self.silence.answered()
        assert judgement.data is not None
        self.book.keep(self.pending, self.content_retries, judgement.data, self.usage)
        return ChatReply("ok", judgement.data, usage=self.usage)

    def _failed(self, judgement: Judgement) -> ChatReply:
        calls = f"{self.attempts} calls" if self.attempts > 1 else "1 call"
        reason = f"{self.request.purpose}: {judgement.reason} ({calls} to {self.model.server.url})"
        if judgement.lasting:
            self.fuse.blow(reason)
        if judgement.outcome == "unreachable":
            self.silence.unanswered(reason)
        else:
            self.silence.answered()
        if judgement.outcome in {"malformed", "truncated"}:
            return ChatReply("malformed", reason=reason, usage=self.usage)
        is_refused = judgement.outcome == "refused" or judgement.of_request
        return ChatReply("refused" if is_refused else "error", reason=reason, usage=self.usage)


# Servers by name: where they listen, and what they understand to begin with.


@dataclass(frozen=True, slots=True)
class Preset:
    """url: where the server listens on this machine by default; None for a hosted one, whose address the user gives.

    dialect: what is tried first; the client goes down from there by itself. images: what images need, for `doctor`.
    """

    url: str | None
    images: str
    dialect: Dialect = field(default_factory=Dialect)


PRESETS = {
    "vllm": Preset("http://127.0.0.1:8000/v1", "a vision model; --limit-mm-per-prompt bounds the frames of a request"),
    "sglang": Preset("http://127.0.0.1:30000/v1", "a vision model"),
    "ollama": Preset("http://127.0.0.1:11434/v1", "a vision model; its num_ctx must hold all frames"),
    "llama.cpp": Preset("http://127.0.0.1:8080/v1", "--mmproj with the projector of the model"),
    # Its type of the field knows json_object alone, with a schema beside it.
    "llama-cpp-python": Preset(
        "http://127.0.0.1:8000/v1", "a chat handler with a projector", Dialect("json_object_schema")
    ),
    # No field for the form of an answer at all.
    "transformers": Preset("http://127.0.0.1:8000/v1", "a vision model", Dialect("prompt")),
    "hosted": Preset(None, "a vision model; the frames leave this machine"),
}


def server_of(model: str, address: str | None, key_variable: str | None) -> Server:
    """The server of a model at an address. Raises ServerUnusable for none, and for one that cannot be used."""
    if address is None:
        raise ServerUnusable(f"model {model} needs a server: give its address, which ends in /v1, or a preset")
    return Server(address, key_variable)


def make_chat_model(
    model: str,
    *,
    url: str | None = None,
    preset: str | None = None,
    key_variable: str | None = None,
    revision: str = "as served",
    images: bool = True,
    concurrency: int = 8,
    timeout_s: float = 180.0,
    deadline_s: float = 600.0,
    prices: Prices | None = None,
    spending: Spending | None = None,
    cache: ReplyCache | None = None,
    mode: CacheMode = "normal",
    ledger: Ledger | None = None,
    time: Time | None = None,
) -> HttpChatModel:
    """Build a chat model from plain values: an address, a preset, or a preset at another address.

    key_variable: the environment variable that holds the key; it is read when a request is sent. Raises ServerUnusable
    for an address, preset or key variable that cannot be used, ValueError for a number that makes no sense.

    >>> make_chat_model("qwen2.5vl:7b", preset="ollama").server.url
    'http://127.0.0.1:11434/v1'
    """
    if preset is not None and preset not in PRESETS:
        raise ServerUnusable(f"there is no preset {preset!r}: name one of {', '.join(PRESETS)}, or give an address")
    known = PRESETS[preset] if preset else Preset(None, "a vision model")
    return HttpChatModel(
        model=model,
        server=server_of(model, url or known.url, key_variable),
        revision=revision,
        images=images,
        dialect=known.dialect,
        concurrency=concurrency,
        policy=replace(RetryPolicy(), timeout_s=timeout_s, deadline_s=deadline_s),
        prices=prices,
        spending=spending,
        cache=cache,
        mode=mode,
        ledger=ledger,
        time=time or Time(),
    )
