"""Ask a server of /v1/chat/completions: the model, and one request with all its attempts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from metrics_core.models.chat.giving_up import Fuse, Silence
from metrics_core.models.chat.judging import Judgement, judge
from metrics_core.models.chat.protocol import ChatReply, ChatRequest
from metrics_core.models.chat.records import Bookkeeping, Pending, ReplyCache
from metrics_core.models.chat.token_estimates import estimate_tokens
from metrics_core.models.chat.wire import Dialect, DialectMemory, request_body
from metrics_core.models.server.address import ServerUnusable
from metrics_core.models.server.concurrency import ConcurrencyLimit
from metrics_core.models.server.endpoint import Endpoint
from metrics_core.models.server.exchange import Unreachable
from metrics_core.models.server.ledger import CacheMode, Ledger
from metrics_core.models.server.post import HttpAnswer
from metrics_core.models.server.retries import retry_after_s
from metrics_core.models.server.spending import Usage, add_usage
from metrics_core.models.server.threads import in_threads
from metrics_core.models.server.tokens import byte_tokens
from metrics_core.protocols import ModelIdentity

if TYPE_CHECKING:
    import httpx2

# Unanswered requests in a row after which the rest is not asked, and at least as many as run at once.
_MOST_SILENT = 4


@dataclass(frozen=True)
class HttpChatModel:
    """Asks a server, several requests at once, and each valid answer only once in its life where there is a cache.

    images: whether the model takes them. The dialect that the server understands is remembered for the life of this
    object. Raises ValueError for a setting that makes no sense.
    """

    endpoint: Endpoint
    images: bool = True
    dialect: Dialect = field(default_factory=Dialect)
    cache: ReplyCache | None = None
    memory: DialectMemory = field(init=False, repr=False, compare=False)
    limit: ConcurrencyLimit = field(init=False, repr=False, compare=False)
    _silence: Silence | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.endpoint.mode == "offline" and self.cache is None:
            raise ValueError("offline answers come from a cache: give one")
        object.__setattr__(self, "memory", DialectMemory(self.dialect))
        object.__setattr__(self, "limit", ConcurrencyLimit(self.endpoint.concurrency))

    @property
    def identity(self) -> ModelIdentity:
        """Name and revision as given: the same on every server."""
        return ModelIdentity(self.endpoint.model, self.endpoint.revision)

    def remembering(self, cache: ReplyCache, mode: CacheMode, ledger: Ledger) -> HttpChatModel:
        """The same model with a cache and a ledger, for one run.

        Once it finds the server silent, it asks nothing more: a run of many calls waits for a dead server only once.
        """
        model = replace(self, endpoint=replace(self.endpoint, mode=mode, ledger=ledger), cache=cache)
        object.__setattr__(model, "_silence", model._new_silence())
        return model

    def chat(self, requests: Sequence[ChatRequest]) -> list[ChatReply]:
        """One reply for each request, in their order. Equal requests are asked once.

        Raises ValueError for a request whose schema is none or whose max_tokens is below 1, and whatever cache and
        ledger raise; all that server, model and network cause is a reply's status.
        """
        attempts, mode = self.endpoint.policy.content_retries + 1, self.endpoint.mode
        book = Bookkeeping(self.identity, attempts, self.images, self.cache, mode, self.endpoint.ledger)
        return book.replies(requests, partial(self._ask, book))

    def _ask(self, book: Bookkeeping, pending: list[Pending]) -> list[ChatReply]:
        fuse, silence = Fuse(), self._silence or self._new_silence()
        with self.endpoint.open_client() as client:
            askings = [Asking(self, client, book, fuse, silence, one) for one in pending]
            try:
                return in_threads(Asking.reply, askings, self.endpoint.concurrency)
            finally:
                # After an error or an interrupt, requests under way send nothing more.
                fuse.blow("interrupted")

    def _new_silence(self) -> Silence:
        return Silence(max(_MOST_SILENT, self.endpoint.concurrency))


@dataclass(slots=True)
class Asking:
    """One request to a server, from its first attempt to its reply: retries, budgets, deadline and spending.

    client: of this call of `chat`, which `fuse` ends.
    """

    model: HttpChatModel
    client: httpx2.Client
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

    @property
    def endpoint(self) -> Endpoint:
        """The model's endpoint."""
        return self.model.endpoint

    def reply(self) -> ChatReply:
        """Ask until there is a valid answer, a final failure, or no budget left. A valid answer is stored at once."""
        self.deadline = self.endpoint.time.clock() + self.endpoint.policy.deadline_s
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
                self.endpoint.time.sleep(wait_s)

    def _call(self) -> ChatReply | tuple[Judgement, float]:
        """Make one call, unless asking has ended; returns how it is judged, and seconds to wait before the next one."""
        model, clock = self.model, self.endpoint.time.clock
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
                judgement = judge(answer, self.request, self.endpoint.model)
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
        return judgement, self.endpoint.policy.wait_s(self.transport_retries, self.endpoint.time.random(), retry_after)

    def _ended(self) -> ChatReply | None:
        if why := self.endpoint.why_stopped:
            return ChatReply("stopped", reason=f"not asked to the end: {why}", usage=self.usage)
        reason = self.fuse.reason or self.silence.reason
        return ChatReply("error", reason=reason, usage=self.usage) if reason else None

    def _post(self, dialect: Dialect) -> HttpAnswer:
        body = request_body(self.request, self.endpoint.model, dialect, self.request.seed + self.content_retries)
        return self.endpoint.post(self.client, "chat/completions", body, self.deadline)

    def _remaining_s(self) -> float:
        return self.deadline - self.endpoint.time.clock()

    def _count(self, judgement: Judgement, answer: HttpAnswer | None, duration_s: float) -> None:
        tokens = judgement.tokens
        if tokens is None and answer is not None and answer.status == 200:
            # The server does not say. A spending stop that counted nothing would never stop.
            tokens = estimate_tokens(self.request), min(byte_tokens(answer.n_bytes), self.request.max_tokens)
        usage = self.endpoint.spend(*(tokens or (0, 0)))
        self.usage = add_usage(self.usage, usage)
        status = None if answer is None else answer.status
        ended = judgement.outcome, judgement.reason
        self.book.record(
            *(self.pending, self.content_retries, *ended, usage, duration_s), attempt=self.attempts, http_status=status
        )
        self.attempts += 1

    def _may_retry(self, judgement: Judgement, wait_s: float) -> bool:
        policy = self.endpoint.policy
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
        reason = f"{self.request.purpose}: {judgement.reason} ({calls} to {self.endpoint.server.url})"
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
