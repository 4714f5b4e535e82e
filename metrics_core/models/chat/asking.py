"""One request to a server, from its first attempt to its reply: retries, budgets, deadline and spending."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from metrics_core.models.chat.protocol import ChatReply, ChatRequest, Part, TextPart, Usage
from metrics_core.models.chat.records import Outcome
from metrics_core.models.chat.retries import is_retried, retry_after_s
from metrics_core.models.chat.server import HttpAnswer, ServerUnusable, Unreachable, post
from metrics_core.models.chat.spending import add_usage, usage_of_call
from metrics_core.models.chat.structured import Malformed, read_answer, schema_instruction
from metrics_core.models.chat.surroundings import Surroundings
from metrics_core.models.chat.wire import (
    Completion,
    Dialect,
    complaint_of,
    is_about_form,
    read_completion,
    request_body,
    same_model,
    shown,
)

# How many tokens a request takes, by a rule of thumb: no server is asked and no tokenizer loaded.

BYTES_PER_TOKEN = 4
# Side of the square of pixels that becomes one token in models of the Qwen2.5-VL class. Others differ by up to 3 times.
PIXELS_PER_TOKEN = 28
# What the chat template puts around the two messages.
TOKENS_AROUND = 16


def estimated_tokens(request: ChatRequest) -> int:
    """Tokens of a request: one for 4 bytes of text in UTF-8, and one for a square of 28 x 28 pixels of an image."""
    around = text_tokens(request.system) + text_tokens(schema_instruction(request.schema)) + TOKENS_AROUND
    return around + sum(_part_tokens(part) for part in request.parts)


def text_tokens(text: str) -> int:
    """Tokens of a text: a quarter of its bytes in UTF-8, rounded up.

    >>> text_tokens("a dog runs"), text_tokens("")
    (3, 0)
    """
    return math.ceil(len(text.encode("utf-8", "surrogatepass")) / BYTES_PER_TOKEN)


def image_tokens(width: int, height: int) -> int:
    """Tokens of an image of this size in pixels.

    >>> image_tokens(448, 336)
    192
    """
    return math.ceil(width / PIXELS_PER_TOKEN) * math.ceil(height / PIXELS_PER_TOKEN)


def _part_tokens(part: Part) -> int:
    if isinstance(part, TextPart):
        return text_tokens(part.text)
    from PIL import Image

    # Reads the header only.
    with Image.open(io.BytesIO(part.jpeg)) as image:
        return image_tokens(*image.size)


# What a server's answer means: valid, to be asked again, refused, or an error that no repetition mends.

# Characters of a reason: the server's words and ours.
_LONGEST = 1000
# Statuses of a server that does not understand a field of the request.
_NOT_UNDERSTOOD = frozenset({400, 422, 501})
# Statuses that every other request to this server and model would get too.
_LASTING = frozenset({401, 404})
# Statuses of a request that this server and model cannot take, such as one with too many frames for the context.
_OF_REQUEST = frozenset({400, 413, 422})
# Some servers answer 400 to a wrong key, an empty account or a wrong model too, which may be mended.
_OF_SETTINGS = re.compile(
    r"api.?key|credential|billing|credit|quota|balance|invalid model|not (?:found|exist|loaded)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Judgement:
    """What became of a call. reason: for every outcome but "ok".

    tokens: (in, out), None where the server does not say. not_understood: the request may pass in another dialect.
    lasting: other requests to this server and model would end alike. of_request: only this one ends so, and always.
    """

    outcome: Outcome
    reason: str | None = None
    data: Mapping[str, Any] | None = None
    tokens: tuple[int, int] | None = None
    not_understood: bool = False
    lasting: bool = False
    of_request: bool = False


def judge(answer: HttpAnswer, request: ChatRequest, model: str) -> Judgement:
    """Judge a server's answer to a request for this model. No text of the judgement holds the server's key.

    Judging joins the parts of an answer and reads JSON within JSON: the key may stand there plainly only now.
    """
    judgement = _judge(answer, request, model)
    if answer.secret.stands_in(judgement.data):
        return Judgement("malformed", "the model's answer holds the key of the server", tokens=judgement.tokens)
    reason = judgement.reason and shown(answer.secret.without(judgement.reason), _LONGEST)
    return replace(judgement, reason=reason)


def _judge(answer: HttpAnswer, request: ChatRequest, model: str) -> Judgement:
    if answer.status != 200:
        return _judge_error(answer)
    completion = read_completion(answer.body)
    if completion is None:
        return Judgement("malformed", f"the server's answer is no chat completion: {answer.text[:80]!r}")
    if completion.model and not same_model(model, completion.model):
        reason = f"asked for {model}, but {shown(completion.model)} answered: name the model as the server names it"
        return Judgement("wrong_model", reason, tokens=completion.tokens, lasting=True)
    return _judge_completion(completion, request)


def _judge_completion(completion: Completion, request: ChatRequest) -> Judgement:
    tokens = completion.tokens
    if completion.refusal or completion.finish_reason == "content_filter":
        said = completion.refusal or "its content filter ended the answer"
        return Judgement("refused", f"the model declined: {shown(said)}", tokens=tokens)
    if completion.finish_reason == "length":
        reason = f"the answer was cut at {request.max_tokens} tokens: allow more, or ask for less"
        return Judgement("truncated", reason, tokens=tokens)
    try:
        return Judgement("ok", data=read_answer(completion.text, request.schema), tokens=tokens)
    except Malformed as error:
        return Judgement("malformed", str(error), tokens=tokens)


def _judge_error(answer: HttpAnswer) -> Judgement:
    complaint, code = complaint_of(answer.body, answer.text)
    reason = f"the server answered {answer.status}: {complaint or 'no reason given'}"
    if code == "content_filter":
        return Judgement("refused", reason)
    # llama.cpp's Python server answers 500 to a form of answer that it does not know.
    not_understood = answer.status in _NOT_UNDERSTOOD or (answer.status == 500 and is_about_form(complaint))
    if is_retried(answer.status) and not not_understood:
        return Judgement("unreachable", reason)
    remedy = {
        401: ". Check the key",
        403: ". Check that the key may use this model",
        404: ". Check the model's name and the address, which ends in /v1",
    }.get(answer.status, "")
    lasting = answer.status in _LASTING
    # A form of answer that a server does not know is the same for every request.
    of_request = answer.status in _OF_REQUEST and not is_about_form(complaint) and not _OF_SETTINGS.search(complaint)
    return Judgement("rejected", reason + remedy, not_understood=not_understood, lasting=lasting, of_request=of_request)


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
                {
                    **self._asked,
                    "attempt": self.attempts,
                    "outcome": judgement.outcome,
                    "error": judgement.reason,
                    "http_status": None if answer is None else answer.status,
                    "tokens_in": usage.tokens_in,
                    "tokens_out": usage.tokens_out,
                    "money": usage.money,
                    "duration_s": duration_s,
                }
            )
        self.attempts += 1

    @property
    def _asked(self) -> dict[str, Any]:
        """What a stored answer and a stored call say of the request."""
        key, model = self.keys[self.content_retries], self.around.identity.as_dict()
        return {"request_sha256": key, "model": model, "purpose": self.request.purpose}

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
            around.cache.store([{**self._asked, "data": judgement.data, **asdict(self.usage)}])
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
