"""Ask a server of /v1/chat/completions: the model, and one request with all its attempts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from metrics_core.models.chat.attempt_result import AttemptResult, classify_answer
from metrics_core.models.chat.bookkeeping import Bookkeeping, PendingRequest, ReplyCache
from metrics_core.models.chat.protocol import ChatReply, ChatRequest
from metrics_core.models.chat.stop_signals import SilenceCounter, StopSignal
from metrics_core.models.chat.token_estimates import estimate_tokens
from metrics_core.models.chat.wire import Dialect, DialectMemory, build_request_body
from metrics_core.models.server.address import ServerUnusable
from metrics_core.models.server.concurrency import ConcurrencyLimit
from metrics_core.models.server.endpoint import Endpoint
from metrics_core.models.server.exchange import ServerUnreachable
from metrics_core.models.server.ledger import CacheMode, Ledger
from metrics_core.models.server.post import HttpAnswer
from metrics_core.models.server.retries import parse_retry_delay
from metrics_core.models.server.spending import Usage, add_usage
from metrics_core.models.server.threads import run_in_threads
from metrics_core.models.server.tokens import estimate_byte_tokens
from metrics_core.protocols import ModelIdentity

if TYPE_CHECKING:
    import httpx2

# Requests in a row without an answer after which the rest is not asked; more where more run at once.
_MIN_SILENT = 4


@dataclass(frozen=True)
class HttpChatModel:
    """A ChatModel behind an HTTP server, which sends several requests at once. takes_images: whether the model takes
    images. dialect: the request format to try first; the one that the server understands is remembered for the life of
    this object. cache: where answers are looked up and stored, None for nowhere. Raises ValueError for an offline
    endpoint without a cache.
    """

    endpoint: Endpoint
    takes_images: bool = True
    dialect: Dialect = field(default_factory=Dialect)
    cache: ReplyCache | None = None
    memory: DialectMemory = field(init=False, repr=False, compare=False)
    limit: ConcurrencyLimit = field(init=False, repr=False, compare=False)
    _silence: SilenceCounter | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.endpoint.mode == "offline" and self.cache is None:
            raise ValueError("offline answers come from a cache: give a cache")
        object.__setattr__(self, "memory", DialectMemory(self.dialect))
        object.__setattr__(self, "limit", ConcurrencyLimit(self.endpoint.concurrency))

    @property
    def identity(self) -> ModelIdentity:
        """Return the model's name and revision as the endpoint gives them, the same on every server. Asks no server."""
        return ModelIdentity(self.endpoint.model, self.endpoint.revision)

    def add_cache(self, cache: ReplyCache, mode: CacheMode, ledger: Ledger) -> HttpChatModel:
        """Return a copy of this model for one run, which looks up and stores answers in `cache` and records attempts in
        `ledger`. mode: whether stored answers count, see `CacheMode`. After several requests in a row without an
        answer, the copy asks nothing more: a run of many calls waits for a dead server only once.
        """
        model = replace(self, endpoint=replace(self.endpoint, mode=mode, ledger=ledger), cache=cache)
        object.__setattr__(model, "_silence", model._new_silence())
        return model

    def chat(self, requests: Sequence[ChatRequest]) -> list[ChatReply]:
        """Return one reply per request, in their order, from the cache or the server. Equal requests are asked once. A
        failure of server, model or network is a reply's status. Raises ValueError for a request whose schema is not a
        JSON schema or whose max_tokens is below 1, and any error of cache and ledger.
        """
        attempts, mode = self.endpoint.policy.content_retries + 1, self.endpoint.mode
        book = Bookkeeping(self.identity, attempts, self.takes_images, self.cache, mode, self.endpoint.ledger)
        return book.collect_replies(requests, partial(self._ask_pending, book))

    def _ask_pending(self, book: Bookkeeping, pending: list[PendingRequest]) -> list[ChatReply]:
        stop_signal, silence = StopSignal(), self._silence or self._new_silence()
        with self.endpoint.open_client() as client:
            askers = [RequestAsker(self, client, book, stop_signal, silence, request) for request in pending]
            try:
                return run_in_threads(RequestAsker.ask_model, askers, self.endpoint.concurrency)
            finally:
                # After an error or an interrupt, requests under way send nothing more.
                stop_signal.stop("interrupted")

    def _new_silence(self) -> SilenceCounter:
        return SilenceCounter(max(_MIN_SILENT, self.endpoint.concurrency))


@dataclass(slots=True)
class RequestAsker:
    """One request to a server, from its first attempt to its reply: retries, budgets, deadline and spending. client:
    the HTTP client of this call of `chat`. stop_signal: ends all requests of the call. silence: counts requests in a
    row without an answer. pending: the request with its cache keys. The counts are of its attempts so far.
    """

    model: HttpChatModel
    client: httpx2.Client
    book: Bookkeeping
    stop_signal: StopSignal
    silence: SilenceCounter
    pending: PendingRequest
    usage: Usage = field(default_factory=Usage)
    attempts: int = 0
    content_retries: int = 0
    transport_retries: int = 0
    deadline: float = 0.0

    @property
    def request(self) -> ChatRequest:
        """Return the request that is asked, taken from `pending`."""
        return self.pending.request

    @property
    def endpoint(self) -> Endpoint:
        """Return the model's endpoint: server, policy, prices and clock."""
        return self.model.endpoint

    def ask_model(self) -> ChatReply:
        """Ask the server until there is a valid answer, a final failure, or no retry, money or time left, and return
        the reply. A valid answer is stored in the cache at once, and every attempt in the ledger. A failure that
        concerns all requests sets the stop signal.
        """
        self.deadline = self.endpoint.time.clock() + self.endpoint.policy.deadline_s
        while True:
            attempt = self._try_once()
            if isinstance(attempt, ChatReply):
                return attempt
            result, wait_s = attempt
            if result.outcome == "ok":
                return self._store_answer(result)
            if not self._can_retry(result, wait_s):
                return self._build_failed_reply(result)
            if result.outcome == "unreachable":
                self.endpoint.time.sleep(wait_s)

    def _try_once(self) -> ChatReply | tuple[AttemptResult, float]:
        """Make one call, unless asking has ended; returns its result, and the seconds to wait before the next call."""
        model, clock = self.model, self.endpoint.time.clock
        queued = clock()
        with model.limit.hold_slot() as mark:
            # A request that waits in the queue does not use up its own time.
            started = clock()
            self.deadline += started - queued
            if stopped := self._find_stop():
                return stopped
            dialect, answer = model.memory.dialect, None
            try:
                answer = self._post(dialect)
                result = classify_answer(answer, self.request, self.endpoint.model)
            except ServerUnreachable as error:
                result = AttemptResult("unreachable", f"no answer ({error})")
            except ServerUnusable as error:
                self.stop_signal.stop(str(error))
                return ChatReply("error", reason=str(error), usage=self.usage)
            if answer is not None and answer.status == 429:
                model.limit.halve_limit(mark)
            elif result.outcome != "unreachable":
                model.limit.count_success()
            self._record_attempt(result, answer, clock() - started)
        if result.is_not_understood:
            result = replace(result, is_not_understood=model.memory.learn_from_complaint(dialect, result.reason or ""))
        retry_after = None if answer is None else parse_retry_delay(answer.headers)
        return result, self.endpoint.policy.compute_wait_s(
            self.transport_retries, self.endpoint.time.random(), retry_after
        )

    def _find_stop(self) -> ChatReply | None:
        if why := self.endpoint.stop_reason:
            return ChatReply("stopped", reason=f"the request was given up: {why}", usage=self.usage)
        reason = self.stop_signal.reason or self.silence.reason
        return ChatReply("error", reason=reason, usage=self.usage) if reason else None

    def _post(self, dialect: Dialect) -> HttpAnswer:
        body = build_request_body(self.request, self.endpoint.model, dialect, self.request.seed + self.content_retries)
        return self.endpoint.post_json(self.client, "chat/completions", body, self.deadline)

    def _compute_remaining_s(self) -> float:
        return self.deadline - self.endpoint.time.clock()

    def _record_attempt(self, result: AttemptResult, answer: HttpAnswer | None, duration_s: float) -> None:
        tokens = result.tokens
        if tokens is None and answer is not None and answer.status == 200:
            # The server does not report them. A spending limit that counted nothing would never be reached.
            tokens = estimate_tokens(self.request), min(estimate_byte_tokens(answer.n_bytes), self.request.max_tokens)
        usage = self.endpoint.count_usage(*(tokens or (0, 0)))
        self.usage = add_usage(self.usage, usage)
        status = None if answer is None else answer.status
        self.book.record_attempt(
            *(self.pending, self.content_retries, result.outcome, result.reason, usage, duration_s),
            attempt=self.attempts,
            http_status=status,
        )
        self.attempts += 1

    def _can_retry(self, result: AttemptResult, wait_s: float) -> bool:
        policy = self.endpoint.policy
        if result.outcome in {"malformed", "truncated"}:
            self.content_retries += 1
            return self.content_retries <= policy.content_retries and self._compute_remaining_s() > 0
        if result.outcome == "unreachable":
            self.transport_retries += 1
            return self.transport_retries <= policy.transport_retries and self._compute_remaining_s() > wait_s
        return result.is_not_understood and self._compute_remaining_s() > 0

    def _store_answer(self, result: AttemptResult) -> ChatReply:
        self.silence.reset()
        assert result.data is not None
        self.book.store_answer(self.pending, self.content_retries, result.data, self.usage)
        return ChatReply("ok", result.data, usage=self.usage)

    def _build_failed_reply(self, result: AttemptResult) -> ChatReply:
        calls = f"{self.attempts} calls" if self.attempts > 1 else "1 call"
        reason = f"{self.request.purpose}: {result.reason} ({calls} to {self.endpoint.server.url})"
        if result.affects_all_requests:
            self.stop_signal.stop(reason)
        if result.outcome == "unreachable":
            self.silence.count_silence(reason)
        else:
            self.silence.reset()
        if result.outcome in {"malformed", "truncated"}:
            return ChatReply("malformed", reason=reason, usage=self.usage, is_cut=result.outcome == "truncated")
        is_refused = result.outcome == "refused" or result.is_request_fault
        return ChatReply("refused" if is_refused else "error", reason=reason, usage=self.usage)
