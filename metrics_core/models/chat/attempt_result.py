"""Classify a server's answer: valid, to be asked again, refused, or an error that no repetition mends."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from metrics_core.models.chat.expected_number import TokenChoice, compute_expected_number, parse_token_choices
from metrics_core.models.chat.json_answers import MalformedAnswer, iterate_texts, parse_json_answer
from metrics_core.models.chat.protocol import ChatRequest, build_expected_name
from metrics_core.models.chat.wire import is_about_json_mode, is_about_logprobs
from metrics_core.models.server.answers import (
    REMEDIES,
    Exchange,
    explain_error,
    hide_key,
    is_credible_count,
    is_same_model,
    parse_complaint,
    shorten_text,
)
from metrics_core.models.server.ledger import AttemptOutcome

# The most characters of a reason, with the server's words and ours.
_MAX_REASON_CHARACTERS = 1000
# Statuses of a server that does not understand a field of the request.
_NOT_UNDERSTOOD = frozenset({400, 422, 501})
_REMEDIES = {**REMEDIES, 403: ". Check that the key may use this model"}
# Statuses that every other request to this server and model would get too.
_AFFECTS_ALL = frozenset({401, 404})
# Statuses of a request that this server and model cannot take, such as one with too many frames for the context.
_REQUEST_FAULT = frozenset({400, 413, 422})
# Some servers answer 400 to a wrong key, an empty account or a wrong model too, which may be mended.
_SETTINGS_FAULT = re.compile(
    r"api.?key|credential|billing|credit|quota|balance|invalid model|not (?:found|exist|loaded)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """The outcome of one attempt at a chat request: `data` for "ok", else `reason`. tokens: (in, out), None where not
    reported. is_not_understood: the server knows no such field or form; the request may pass in another `Dialect`.
    affects_all_requests: every request to this server and model would fail so. is_request_fault: this request always
    fails so, others may pass.
    """

    outcome: AttemptOutcome
    reason: str | None = None
    data: Mapping[str, Any] | None = None
    tokens: tuple[int, int] | None = None
    is_not_understood: bool = False
    affects_all_requests: bool = False
    is_request_fault: bool = False


def classify_answer(answer: Exchange, request: ChatRequest, model: str) -> AttemptResult:
    """Return how an attempt at a request ended, judged by the server's answer: valid data, or a failure with its
    reason. model: the name that was asked for; the answer of another model is a failure. No text of the result holds
    the server's key: data with the key in it is "malformed". A reason is cut at 1,000 characters.

    The key is searched for here too, because joining the parts of an answer and reading JSON within JSON may bring it
    about.
    """
    result = _classify_answer(answer, request, model)
    if answer.key and any(answer.key in text for text in iterate_texts(result.data)):
        return AttemptResult("malformed", "the model's answer holds the key of the server", tokens=result.tokens)
    reason = result.reason and shorten_text(hide_key(result.reason, answer.key), _MAX_REASON_CHARACTERS)
    return replace(result, reason=reason)


def _classify_answer(answer: Exchange, request: ChatRequest, model: str) -> AttemptResult:
    if answer.status != 200:
        return _classify_error(answer)
    completion = _parse_completion(answer.body)
    if completion is None:
        reason = "the server's answer is not a chat completion: check the address, which ends in /v1"
        return AttemptResult("malformed", reason)
    if completion.model and not is_same_model(model, completion.model):
        reason = (
            f"the server was asked for {model}, but {shorten_text(completion.model)} answered: name the model as the "
            "server names it"
        )
        return AttemptResult("wrong_model", reason, tokens=completion.tokens, affects_all_requests=True)
    return _classify_completion(completion, request)


def _classify_completion(completion: _Completion, request: ChatRequest) -> AttemptResult:
    tokens = completion.tokens
    if completion.refusal or completion.finish_reason == "content_filter":
        why = completion.refusal or "the server's content filter ended the answer"
        return AttemptResult("refused", f"the model declined: {shorten_text(why)}", tokens=tokens)
    if completion.finish_reason == "length":
        reason = f"the answer broke off at {request.max_tokens} tokens: allow more tokens, or ask for less"
        return AttemptResult("truncated", reason, tokens=tokens)
    try:
        data = parse_json_answer(completion.text, request.schema)
    except MalformedAnswer as error:
        return AttemptResult("malformed", str(error), tokens=tokens)
    return AttemptResult("ok", data={**data, **_compute_expectation(completion, request, data)}, tokens=tokens)


def _compute_expectation(completion: _Completion, request: ChatRequest, data: Mapping[str, Any]) -> dict[str, float]:
    """Return the expectation that the request asks for by its name; {} if it asks for none or the tokens show none."""
    name = request.expected
    if name is None:
        return {}
    highest = request.schema["properties"][name]["maximum"]
    expected = compute_expected_number(completion.choices, name, data[name], highest)
    return {} if expected is None else {build_expected_name(name): expected}


def _classify_error(answer: Exchange) -> AttemptResult:
    complaint, code = parse_complaint(answer.body)
    reason = explain_error(answer)
    if code == "content_filter":
        return AttemptResult("refused", reason)
    # llama.cpp's Python server answers 500 to a form of answer that it does not know, and to a wish for probabilities
    # that it was not started for. Hosted models that think have none, and answer as to somebody without the right.
    is_not_understood = (
        answer.status in _NOT_UNDERSTOOD
        or (answer.status == 500 and is_about_json_mode(complaint))
        or (answer.status in {403, 500} and is_about_logprobs(complaint))
    )
    if answer.may_pass and not is_not_understood:
        return AttemptResult("unreachable", reason)
    # A form of answer that a server does not know is the same for every request.
    is_request_fault = (
        answer.status in _REQUEST_FAULT and not is_about_json_mode(complaint) and not _SETTINGS_FAULT.search(complaint)
    )
    return AttemptResult(
        "rejected",
        reason + _REMEDIES.get(answer.status or 0, ""),
        is_not_understood=is_not_understood,
        affects_all_requests=answer.status in _AFFECTS_ALL,
        is_request_fault=is_request_fault,
    )


@dataclass(frozen=True, slots=True)
class _Completion:
    """The parsed answer of a chat server. finish_reason: the server's word for why it ended, such as "stop" or
    "length". refusal: the model's words if it declined. tokens: (in, out), None where missing or not credible. model:
    the name of the model, None where missing. choices: its tokens with the probabilities of others; () where not given.
    """

    text: str = ""
    finish_reason: str | None = None
    refusal: str | None = None
    tokens: tuple[int, int] | None = None
    model: str | None = None
    choices: tuple[TokenChoice, ...] = ()


def _parse_completion(body: Any) -> _Completion | None:
    """Parse a JSON body of status 200 into a Completion; None for a body that is no chat completion."""
    try:
        choice = body["choices"][0]
        message = choice["message"]
        refusal = message.get("refusal")
        return _Completion(
            text=_join_text(message.get("content")),
            finish_reason=choice.get("finish_reason"),
            refusal=str(refusal) if refusal else None,
            tokens=_parse_tokens(body.get("usage")),
            model=body.get("model") if isinstance(body.get("model"), str) else None,
            choices=parse_token_choices(choice.get("logprobs")),
        )
    except (KeyError, IndexError, TypeError, AttributeError):
        return None


def _join_text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content)
    return str(content or "")


def _parse_tokens(usage: Mapping[str, Any] | None) -> tuple[int, int] | None:
    if not isinstance(usage, Mapping):
        return None
    count_in, count_out = usage.get("prompt_tokens"), usage.get("completion_tokens")
    return (count_in, count_out) if is_credible_count(count_in) and is_credible_count(count_out) else None
