"""What a server's answer means: valid, to be asked again, refused, or an error that no repetition mends."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from metrics_core.models.chat.json_answers import MalformedAnswer, iterate_texts, parse_json_answer
from metrics_core.models.chat.protocol import ChatRequest
from metrics_core.models.chat.wire import Completion, is_about_json_mode, parse_completion
from metrics_core.models.server.answers import REMEDIES, explain_error, is_same_model, parse_complaint
from metrics_core.models.server.ledger import AttemptOutcome
from metrics_core.models.server.post import HttpAnswer, hide_key, shorten_text
from metrics_core.models.server.retries import is_retried_status

# Characters of a reason: the server's words and ours.
_MAX_REASON_CHARACTERS = 1000
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
class AttemptResult:
    """What became of a call. reason: for every outcome but "ok".

    tokens: (in, out), None where the server does not say. not_understood: the request may pass in another dialect.
    lasting: other requests to this server and model would end alike. of_request: only this one ends so, and always.
    """

    outcome: AttemptOutcome
    reason: str | None = None
    data: Mapping[str, Any] | None = None
    tokens: tuple[int, int] | None = None
    is_not_understood: bool = False
    affects_all_requests: bool = False
    is_request_fault: bool = False


def classify_answer(answer: HttpAnswer, request: ChatRequest, model: str) -> AttemptResult:
    """Judge a server's answer to a request for this model. No text of the judgement holds the server's key.

    Judging joins the parts of an answer and reads JSON within JSON: the key may appear only now.
    """
    judgement = _classify_answer(answer, request, model)
    if answer.key and any(answer.key in text for text in iterate_texts(judgement.data)):
        return AttemptResult("malformed", "the model's answer holds the key of the server", tokens=judgement.tokens)
    reason = judgement.reason and shorten_text(hide_key(judgement.reason, answer.key), _MAX_REASON_CHARACTERS)
    return replace(judgement, reason=reason)


def _classify_answer(answer: HttpAnswer, request: ChatRequest, model: str) -> AttemptResult:
    if answer.status != 200:
        return _classify_error(answer)
    completion = parse_completion(answer.body)
    if completion is None:
        reason = "the server's answer is no chat completion: check the address, which ends in /v1"
        return AttemptResult("malformed", reason)
    if completion.model and not is_same_model(model, completion.model):
        reason = (
            f"asked for {model}, but {shorten_text(completion.model)} answered: name the model as the server names it"
        )
        return AttemptResult("wrong_model", reason, tokens=completion.tokens, affects_all_requests=True)
    return _classify_completion(completion, request)


def _classify_completion(completion: Completion, request: ChatRequest) -> AttemptResult:
    tokens = completion.tokens
    if completion.refusal or completion.finish_reason == "content_filter":
        why = completion.refusal or "its content filter ended the answer"
        return AttemptResult("refused", f"the model declined: {shorten_text(why)}", tokens=tokens)
    if completion.finish_reason == "length":
        reason = f"the answer was cut at {request.max_tokens} tokens: allow more, or ask for less"
        return AttemptResult("truncated", reason, tokens=tokens)
    try:
        return AttemptResult("ok", data=parse_json_answer(completion.text, request.schema), tokens=tokens)
    except MalformedAnswer as error:
        return AttemptResult("malformed", str(error), tokens=tokens)


def _classify_error(answer: HttpAnswer) -> AttemptResult:
    complaint, code = parse_complaint(answer.body)
    reason = explain_error(answer)
    if code == "content_filter":
        return AttemptResult("refused", reason)
    # llama.cpp's Python server answers 500 to a form of answer that it does not know.
    not_understood = answer.status in _NOT_UNDERSTOOD or (answer.status == 500 and is_about_json_mode(complaint))
    if is_retried_status(answer.status) and not not_understood:
        return AttemptResult("unreachable", reason)
    remedy = _REMEDIES.get(answer.status, "")
    lasting = answer.status in _LASTING
    # A form of answer that a server does not know is the same for every request.
    of_request = (
        answer.status in _OF_REQUEST and not is_about_json_mode(complaint) and not _OF_SETTINGS.search(complaint)
    )
    return AttemptResult(
        "rejected",
        reason + remedy,
        is_not_understood=not_understood,
        affects_all_requests=lasting,
        is_request_fault=of_request,
    )
