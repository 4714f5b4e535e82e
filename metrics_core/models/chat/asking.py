"""One request to a server, from its first attempt to its reply: retries, budgets, deadline and spending."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from metrics_core.models.chat.exchange import Unreachable
from metrics_core.models.chat.judging import Judgement, judge
from metrics_core.models.chat.protocol import ChatReply, ChatRequest, Usage
from metrics_core.models.chat.records import CallRecord, ValidReply
from metrics_core.models.chat.retries import retry_after_s
from metrics_core.models.chat.server import HttpAnswer, ServerUnusable, post
from metrics_core.models.chat.spending import add_usage, usage_of_call
from metrics_core.models.chat.surroundings import Surroundings
from metrics_core.models.chat.tokens import estimated_tokens, text_tokens
from metrics_core.models.chat.wire import Dialect, request_body


@dataclass(slots=True)
class Asking:
    """The state of one request. keys: its cache keys, one for each content attempt."""

    around: Surroundings
    request: ChatRequest
    keys: list[bytes]
    usage: Usage = field(default_factory=Usage)
    attempts: int = 0
    content_retries: int = 0
    transport_retries: int = 0
    deadline: float = 0.0

    def reply(self) -> ChatReply:
        """Ask until there is a valid answer, a final failure, or no budget left. A valid answer is stored at once."""
        self.deadline = self.around.clock() + self.around.policy.deadline_s
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
                self.around.sleep(wait_s)

    def _call(self) -> ChatReply | tuple[Judgement, float]:
        """Make one call, unless asking has ended; returns how it is judged, and seconds to wait before the next one."""
        around, queued = self.around, self.around.clock()
        with around.limit.slot() as mark:
            # A request that stands in a queue does not spend its own time.
            started = around.clock()
            self.deadline += started - queued
            if ended := self._ended():
                return ended
            dialect, answer = around.memory.dialect, None
            try:
                answer = self._post(dialect)
                judgement = judge(answer, self.request, around.identity.model_id)
            except Unreachable as error:
                judgement = Judgement("unreachable", f"no answer ({error})")
            except ServerUnusable as error:
                around.fuse.blow(str(error))
                return ChatReply("error", reason=str(error), usage=self.usage)
            if answer is not None and answer.status == 429:
                around.limit.too_many(mark)
            elif judgement.outcome != "unreachable":
                around.limit.good()
            self._count(judgement, answer, around.clock() - started)
        if judgement.not_understood:
            judgement = replace(judgement, not_understood=around.memory.learn(dialect, judgement.reason or ""))
        retry_after = None if answer is None else retry_after_s(answer.headers)
        return judgement, around.policy.wait_s(self.transport_retries, around.random(), retry_after)

    def _ended(self) -> ChatReply | None:
        spending, reason = self.around.spending, self.around.fuse.reason or self.around.silence.reason
        if spending is not None and spending.reached:
            why = f"the spending limit of {spending.limit:g} is reached"
            return ChatReply("stopped", reason=f"not asked to the end: {why}", usage=self.usage)
        return ChatReply("error", reason=reason, usage=self.usage) if reason else None

    def _post(self, dialect: Dialect) -> HttpAnswer:
        around, request = self.around, self.request
        body = request_body(request, around.identity.model_id, dialect, request.seed + self.content_retries)
        return post(around.stream, around.server, body, max(self._remaining_s(), 0.0))

    def _remaining_s(self) -> float:
        return self.deadline - self.around.clock()

    def _count(self, judgement: Judgement, answer: HttpAnswer | None, duration_s: float) -> None:
        around, tokens = self.around, judgement.tokens
        if tokens is None and answer is not None and answer.status == 200:
            # The server does not say. A spending stop that counted nothing would never stop.
            tokens = estimated_tokens(self.request), min(text_tokens(answer.text), self.request.max_tokens)
        usage = usage_of_call(*(tokens or (0, 0)), around.prices)
        self.usage = add_usage(self.usage, usage)
        if around.spending is not None:
            around.spending.add(usage)
        if around.ledger is not None:
            around.ledger.record(
                CallRecord(
                    key=self.keys[self.content_retries],
                    model=around.identity.as_dict(),
                    purpose=self.request.purpose,
                    attempt=self.attempts,
                    outcome=judgement.outcome,
                    error=judgement.reason,
                    http_status=None if answer is None else answer.status,
                    usage=usage,
                    duration_s=duration_s,
                )
            )
        self.attempts += 1

    def _may_retry(self, judgement: Judgement, wait_s: float) -> bool:
        policy = self.around.policy
        if judgement.outcome in {"malformed", "truncated"}:
            self.content_retries += 1
            return self.content_retries <= policy.content_retries and self._remaining_s() > 0
        if judgement.outcome == "unreachable":
            self.transport_retries += 1
            return self.transport_retries <= policy.transport_retries and self._remaining_s() > wait_s
        return judgement.not_understood and self._remaining_s() > 0

    def _valid(self, judgement: Judgement) -> ChatReply:
        around = self.around
        around.silence.answered()
        assert judgement.data is not None
        if around.cache is not None:
            key, model = self.keys[self.content_retries], around.identity.as_dict()
            around.cache.store([ValidReply(key, model, self.request.purpose, judgement.data, self.usage)])
        return ChatReply("ok", judgement.data, usage=self.usage)

    def _failed(self, judgement: Judgement) -> ChatReply:
        around, calls = self.around, f"{self.attempts} calls" if self.attempts > 1 else "1 call"
        reason = f"{self.request.purpose}: {judgement.reason} ({calls} to {around.server.url})"
        if judgement.lasting:
            around.fuse.blow(reason)
        if judgement.outcome == "unreachable":
            around.silence.unanswered(reason)
        else:
            around.silence.answered()
        if judgement.outcome in {"malformed", "truncated"}:
            return ChatReply("malformed", reason=reason, usage=self.usage)
        is_refused = judgement.outcome == "refused" or judgement.of_request
        return ChatReply("refused" if is_refused else "error", reason=reason, usage=self.usage)
