"""What a server's answer means: valid, to be asked again, refused, or an error that no repetition mends."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from metrics_core.models.chat.protocol import ChatRequest
from metrics_core.models.chat.structured import Malformed, read_answer, texts_in
from metrics_core.models.chat.wire import Completion, is_about_form, read_completion
from metrics_core.models.server.answers import REMEDIES, explain_error, is_same_model, read_complaint
from metrics_core.models.server.ledger import Outcome
from metrics_core.models.server.post import HttpAnswer, cut_key, shorten
from metrics_core.models.server.retries import is_retried

# Characters of a reason: the server's words and ours.
_LONGEST = 1000
# Statuses of a server that does not understand a field of the request.
_NOT_UNDERSTOOD = frozenset({400, 422, 501})
_REMEDIES = {**REMEDIES, 403: ". Check that the key may use this model"}
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

    Judging joins the parts of an answer and reads JSON within JSON: the key may appear only now.
    """
    judgement = _judge(answer, request, model)
    if answer.key and any(answer.key in text for text in texts_in(judgement.data)):
        return Judgement("malformed", "the model's answer holds the key of the server", tokens=judgement.tokens)
    reason = judgement.reason and shorten(cut_key(judgement.reason, answer.key), _LONGEST)
    return replace(judgement, reason=reason)


def _judge(answer: HttpAnswer, request: ChatRequest, model: str) -> Judgement:
    if answer.status != 200:
        return _judge_error(answer)
    completion = read_completion(answer.body)
    if completion is None:
        reason = "the server's answer is no chat completion: check the address, which ends in /v1"
        return Judgement("malformed", reason)
    if completion.model and not is_same_model(model, completion.model):
        reason = f"asked for {model}, but {shorten(completion.model)} answered: name the model as the server names it"
        return Judgement("wrong_model", reason, tokens=completion.tokens, lasting=True)
    return _judge_completion(completion, request)


def _judge_completion(completion: Completion, request: ChatRequest) -> Judgement:
    tokens = completion.tokens
    if completion.refusal or completion.finish_reason == "content_filter":
        why = completion.refusal or "its content filter ended the answer"
        return Judgement("refused", f"the model declined: {shorten(why)}", tokens=tokens)
    if completion.finish_reason == "length":
        reason = f"the answer was cut at {request.max_tokens} tokens: allow more, or ask for less"
        return Judgement("truncated", reason, tokens=tokens)
    try:
        return Judgement("ok", data=read_answer(completion.text, request.schema), tokens=tokens)
    except Malformed as error:
        return Judgement("malformed", str(error), tokens=tokens)


def _judge_error(answer: HttpAnswer) -> Judgement:
    complaint, code = read_complaint(answer.body)
    reason = explain_error(answer)
    if code == "content_filter":
        return Judgement("refused", reason)
    # llama.cpp's Python server answers 500 to a form of answer that it does not know.
    not_understood = answer.status in _NOT_UNDERSTOOD or (answer.status == 500 and is_about_form(complaint))
    if is_retried(answer.status) and not not_understood:
        return Judgement("unreachable", reason)
    remedy = _REMEDIES.get(answer.status, "")
    lasting = answer.status in _LASTING
    # A form of answer that a server does not know is the same for every request.
    of_request = answer.status in _OF_REQUEST and not is_about_form(complaint) and not _OF_SETTINGS.search(complaint)
    return Judgement("rejected", reason + remedy, not_understood=not_understood, lasting=lasting, of_request=of_request)
