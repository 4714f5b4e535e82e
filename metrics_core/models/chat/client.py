"""Ask a server of /v1/chat/completions: the model, and one request with all its attempts."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from metrics_core.models.chat.attempt_result import AttemptResult, classify_answer
from metrics_core.models.chat.bookkeeping import ReplyCache, check_request, compute_request_keys
from metrics_core.models.chat.outbox import Outbox, OutgoingRequest
from metrics_core.models.chat.protocol import ChatReply, ChatRequest
from metrics_core.models.chat.token_estimates import estimate_tokens
from metrics_core.models.chat.wire import Dialect, build_request_body
from metrics_core.models.server.address import ServerUnusable
from metrics_core.models.server.answers import Exchange
from metrics_core.models.server.endpoint import Endpoint
from metrics_core.models.server.ledger import CacheMode, Ledger
from metrics_core.models.server.spending import Usage, add_usage
from metrics_core.models.server.tokens import estimate_byte_tokens
from metrics_core.protocols import ModelIdentity

if TYPE_CHECKING:
    import openai

# Outcomes after which the next attempt asks the model anew, with another seed.
_ASKED_ANEW = frozenset({"malformed", "truncated"})
# Requests in a row without an answer after which the rest is not asked; more where more run at once.
_MIN_SILENT = 4


@dataclass
class _Stop:
    """Why no more requests are sent; None while requests are sent. n_silent: requests in a row that got no answer."""

    reason: str | None = None
    n_silent: int = 0


@dataclass(eq=False)
class HttpChatModel:
    """A ChatModel behind an HTTP server, which sends several requests at once. dialect: the request format to send; one
    that the server understands replaces it. cache: where answers are looked up and stored, None for nowhere. outbox:
    takes the requests in place of the server; None sends them. Raises ValueError for an offline endpoint without a
    cache.
    """

    endpoint: Endpoint
    dialect: Dialect = field(default_factory=Dialect)
    cache: ReplyCache | None = None
    outbox: Outbox | None = None
    _silence: _Stop | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.endpoint.mode == "offline" and self.cache is None:
            raise ValueError("offline answers come from a cache: give a cache")

    @property
    def identity(self) -> ModelIdentity:
        """Return the model's name and revision as the endpoint gives them, the same on every server. Asks no server."""
        return ModelIdentity(self.endpoint.model, self.endpoint.revision)

    def add_cache(self, cache: ReplyCache, mode: CacheMode, ledger: Ledger) -> HttpChatModel:
        """Return a copy of this model for one run, which looks up and stores answers in `cache` and records attempts in
        `ledger`. mode: whether stored answers count, see `CacheMode`. After several requests in a row without an
        answer, the copy asks nothing more: a run of many calls waits for a dead server only once.
        """
        return replace(self, endpoint=replace(self.endpoint, mode=mode, ledger=ledger), cache=cache, _silence=_Stop())

    def divert(self, outbox: Outbox) -> HttpChatModel:
        """Return a copy of this model that asks no server: it puts the requests without a stored answer into `outbox`,
        and gives them the status "stopped".
        """
        return replace(self, outbox=outbox)

    def chat(self, requests: Sequence[ChatRequest]) -> list[ChatReply]:
        """Return one reply per request, in their order, from the cache or the server; equal requests are asked once. A
        failure of server, model or network is a reply's status. Raises ValueError for a bad schema or max_tokens below
        1, ServerUnusable for an unusable proxy or certificates, and any error of cache and ledger.
        """
        for request in requests:
            check_request(request)
        n_attempts = self.endpoint.content_retries + 1
        keys = [compute_request_keys(self.identity, request, n_attempts) for request in requests]
        known = self._load_stored(keys)
        replies: dict[bytes, ChatReply] = {}
        pending: dict[bytes, _Asker] = {}
        call, silence = _Stop(), self._silence or _Stop()
        for request, request_keys in zip(requests, keys, strict=True):
            reply = self._find_reply(request, request_keys, known)
            if reply is None:
                # An imported answer that is no valid JSON was one of the attempts.
                n_tried = next(n for n, key in enumerate(request_keys) if key not in known)
                pending[request_keys[0]] = _Asker(
                    self, request, request_keys, call, silence, attempts=n_tried, content_retries=n_tried
                )
            else:
                replies[request_keys[0]] = reply
        if self.outbox is not None:
            replies |= {key: asker.hand_over(self.outbox) for key, asker in pending.items()}
        elif pending:
            # It imports the libraries of servers, which take seconds.
            from metrics_core.models.server.exchange import ask_all

            asked = ask_all(self.endpoint, lambda client, asker: asker.ask(client), list(pending.values()))
            replies |= zip(pending, asked, strict=True)
        return _sort_replies(replies, [request_keys[0] for request_keys in keys])

    def learn_dialect(self, used: Dialect, complaint: str) -> bool:
        """Change `dialect` after a server's complaint about the one used; return whether to send the request again.
        False means that no other format would help. It is also True where another request has changed it meanwhile.
        """
        if self.dialect == used:
            learned = used.find_next_dialect(complaint)
            self.dialect = learned or used
            return learned is not None
        return True

    def _load_stored(self, keys: Sequence[Sequence[bytes]]) -> Mapping[bytes, Mapping[str, Any]]:
        if self.cache is None or self.endpoint.mode == "refresh":
            return {}
        return self.cache.load(list(dict.fromkeys(key for request_keys in keys for key in request_keys)))

    def _find_reply(
        self, request: ChatRequest, keys: Sequence[bytes], known: Mapping[bytes, Mapping[str, Any]]
    ) -> ChatReply | None:
        stored = [known[key] for key in keys if key in known]
        for answer in stored:
            if answer["outcome"] == "ok":
                return ChatReply("ok", answer["data"], is_cached=True)
        final = [answer for answer in stored if answer["outcome"] not in _ASKED_ANEW]
        if final or len(stored) == len(keys):
            return _build_stored_failure(request, (final or stored)[-1])
        if self.endpoint.mode == "offline" and self.outbox is None:
            why = f"{self.endpoint.model} has no stored answer: run once without REELSIEVE_CHAT_MODE=offline"
            return ChatReply("error", reason=f"{request.purpose}: {why}")
        return None


@dataclass(slots=True)
class _Asker:
    """One request to a server, from its first attempt to its reply. keys: its cache keys, one per content attempt.
    call: ends all requests of the call of `chat`. silence: ends those of the run, where no answer comes. The counts and
    `result` are of its attempts so far.
    """

    model: HttpChatModel
    request: ChatRequest
    keys: list[bytes]
    call: _Stop
    silence: _Stop
    usage: Usage = field(default_factory=Usage)
    attempts: int = 0
    content_retries: int = 0
    result: AttemptResult | None = None

    def hand_over(self, outbox: Outbox) -> ChatReply:
        """Put the request into `outbox`, and return the reply that it has until an answer is imported."""
        endpoint, n = self.model.endpoint, self.content_retries
        outbox.put(
            OutgoingRequest(
                self.keys[n],
                n,
                self.request,
                self.model.identity,
                endpoint.model,
                self.model.dialect,
                endpoint.prices,
            )
        )
        return ChatReply("stopped", reason=f"{self.request.purpose}: written to {outbox.name}, and not answered yet")

    async def ask(self, client: openai.AsyncOpenAI) -> ChatReply:
        """Ask the server until there is a valid answer, a final failure, or no retry, money or time left, and return
        the reply. A valid answer is stored in the cache at once, and every attempt in the ledger. A failure that
        concerns all requests ends the call.
        """
        from metrics_core.models.server.exchange import SpendingStopped, post

        model, endpoint = self.model, self.model.endpoint
        deadline = time.monotonic() + endpoint.deadline_s
        while True:
            if reason := self.call.reason or self.silence.reason:
                return ChatReply("error", reason=reason, usage=self.usage)
            dialect = model.dialect
            body = build_request_body(self.request, endpoint.model, dialect, self.request.seed + self.content_retries)
            try:
                await post(client, endpoint, "chat/completions", body, deadline, self._judge)
            except ServerUnusable as error:
                self.call.reason = str(error)
                continue
            except SpendingStopped:
                reason = f"the request was given up: {endpoint.stop_reason}"
                return ChatReply("stopped", reason=reason, usage=self.usage)
            assert self.result is not None
            if self.result.outcome == "ok":
                return self._store_answer(self.result)
            if not (self._can_retry(self.result, dialect) and time.monotonic() < deadline):
                return self._build_failed_reply(self.result)

    def _judge(self, exchange: Exchange) -> bool:
        endpoint = self.model.endpoint
        self.result = result = classify_answer(exchange, self.request, endpoint.model)
        tokens = result.tokens
        if tokens is None and exchange.status == 200:
            # The server does not report them. A spending limit that counted nothing would never be reached.
            tokens = estimate_tokens(self.request), min(estimate_byte_tokens(exchange.n_bytes), self.request.max_tokens)
        described = {**self._describe(), "attempt": self.attempts}
        usage = endpoint.count_attempt(described, exchange, result.outcome, result.reason, tokens or (0, 0))
        self.usage = add_usage(self.usage, usage)
        self.attempts += 1
        return result.outcome == "unreachable"

    def _describe(self) -> dict[str, Any]:
        model, key = self.model.identity.as_dict(), self.keys[self.content_retries]
        return {"request_sha256": key, "model": model, "purpose": self.request.purpose}

    def _can_retry(self, result: AttemptResult, dialect: Dialect) -> bool:
        if result.outcome not in _ASKED_ANEW:
            return result.is_not_understood and self.model.learn_dialect(dialect, result.reason or "")
        is_left = self.content_retries < self.model.endpoint.content_retries
        self.content_retries += is_left
        return is_left

    def _store_answer(self, result: AttemptResult) -> ChatReply:
        self.silence.n_silent = 0
        if self.model.cache is not None:
            answer = {"outcome": "ok", "data": result.data, "reason": None}
            self.model.cache.store([{**self._describe(), **answer, **asdict(self.usage)}])
        return ChatReply("ok", result.data, usage=self.usage)

    def _build_failed_reply(self, result: AttemptResult) -> ChatReply:
        calls = f"{self.attempts} calls" if self.attempts > 1 else "1 call"
        reason = f"{self.request.purpose}: {result.reason} ({calls} to {self.model.endpoint.server.url})"
        if result.affects_all_requests:
            self.call.reason = self.call.reason or reason
        self._count_silence(result, reason)
        if result.outcome in _ASKED_ANEW:
            return ChatReply("malformed", reason=reason, usage=self.usage, is_cut=result.outcome == "truncated")
        is_refused = result.outcome == "refused" or result.is_request_fault
        return ChatReply("refused" if is_refused else "error", reason=reason, usage=self.usage)

    def _count_silence(self, result: AttemptResult, reason: str) -> None:
        silence = self.silence
        silence.n_silent = silence.n_silent + 1 if result.outcome == "unreachable" else 0
        if silence.n_silent >= max(_MIN_SILENT, self.model.endpoint.most_at_once) and not silence.reason:
            silence.reason = f"not sent, since the {silence.n_silent} requests before it got no answer: {reason}"


def _build_stored_failure(request: ChatRequest, answer: Mapping[str, Any]) -> ChatReply:
    """Return the reply for an imported answer that is no valid one."""
    outcome, reason = answer["outcome"], f"{request.purpose}: {answer['reason']} (an imported answer)"
    status: Literal["malformed", "refused"] = "malformed" if outcome in _ASKED_ANEW else "refused"
    return ChatReply(status, reason=reason, is_cached=True, is_cut=outcome == "truncated")


def _sort_replies(replies: Mapping[bytes, ChatReply], keys: Sequence[bytes]) -> list[ChatReply]:
    """Return the reply to every key, in order. A repeated request's reply has no usage, since it cost nothing more."""
    ordered, seen = [], set()
    for key in keys:
        reply = replies[key]
        ordered.append(replace(reply, usage=Usage(), is_cached=reply.status == "ok") if key in seen else reply)
        seen.add(key)
    return ordered
