"""The wire format of /v1/chat/completions: what is sent, what of it a server may lack, and what its answer means."""

from __future__ import annotations

import base64
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, TypeGuard

from metrics_core.models.chat.protocol import ChatRequest, ImagePart, Part, TextPart
from metrics_core.models.chat.records import Outcome
from metrics_core.models.chat.server import HttpAnswer, shown
from metrics_core.models.chat.structured import Malformed, read_answer, schema_instruction
from metrics_core.models.chat.surroundings import is_retried

Rung: TypeAlias = Literal["json_schema", "json_object_schema", "json_object", "prompt"]
"""How a server is asked for JSON. json_object_schema: type json_object with a schema beside it, as in llama.cpp."""

RUNGS: tuple[Rung, ...] = ("json_schema", "json_object_schema", "json_object", "prompt")
# Of one call: no model takes or writes nearly as many.
MOST_TOKENS = 1_000_000_000
_ABOUT_FORM = re.compile(
    r"response_format|json_schema|json_object|structured.output|guided|grammar|invalid schema", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a server understands of the wire format."""

    rung: Rung = "json_schema"
    limit_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    sends_seed: bool = True

    def after(self, complaint: str) -> Dialect | None:
        """The dialect to try after a server's error 400 with this message; None where another one would not help.

        >>> Dialect().after("unknown field: response_format").rung
        'json_object_schema'
        >>> Dialect().after("the prompt is too long") is None
        True
        """
        if self.limit_field == "max_tokens" and "max_completion_tokens" in complaint:
            return replace(self, limit_field="max_completion_tokens")
        if is_about_form(complaint) and self.rung != "prompt":
            return replace(self, rung=RUNGS[RUNGS.index(self.rung) + 1])
        if self.sends_seed and re.search(r"\bseed\b", complaint):
            return replace(self, sends_seed=False)
        return None


class DialectMemory:
    """The dialect that a server was last seen to understand. Threads share it."""

    def __init__(self, first: Dialect) -> None:
        self.dialect = first
        self._lock = threading.Lock()

    def learn(self, used: Dialect, complaint: str) -> bool:
        """Whether to send the request again, in a dialect learned from the server's complaint about the one used."""
        with self._lock:
            if self.dialect != used:
                # Another request has learned meanwhile.
                return True
            learned = used.after(complaint)
            self.dialect = learned or used
            return learned is not None


def is_about_form(complaint: str) -> bool:
    """Whether a server complains about the form of answer that it was asked for."""
    return bool(_ABOUT_FORM.search(complaint))


def request_body(request: ChatRequest, model: str, dialect: Dialect, seed: int) -> dict[str, Any]:
    """The JSON body of a request."""
    body: dict[str, Any] = {
        "model": model,
        "messages": [
            {"role": "system", "content": request.system},
            # Last, so that requests about one video with schemas of their own share all that comes before.
            {"role": "user", "content": _content((*request.parts, TextPart(schema_instruction(request.schema))))},
        ],
        "temperature": request.temperature,
        dialect.limit_field: request.max_tokens,
    }
    if dialect.sends_seed:
        body["seed"] = seed
    if form := _response_format(request, dialect.rung):
        body["response_format"] = form
    return body


def _content(parts: tuple[Part, ...]) -> str | list[dict[str, Any]]:
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    if len(texts) == len(parts):
        # Every server takes a plain text; some take nothing else where there is no image.
        return "\n\n".join(texts)
    return [_part(part) for part in parts]


def _part(part: Part) -> dict[str, Any]:
    if isinstance(part, ImagePart):
        data = base64.b64encode(part.jpeg).decode()
        return {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{data}"}}
    return {"type": "text", "text": part.text}


def _response_format(request: ChatRequest, rung: Rung) -> dict[str, Any] | None:
    if rung == "json_schema":
        name = re.sub(r"\W+", "_", request.purpose, flags=re.ASCII).strip("_")[:60] or "answer"
        return {"type": "json_schema", "json_schema": {"name": name, "schema": request.schema, "strict": True}}
    if rung == "json_object_schema":
        return {"type": "json_object", "schema": request.schema}
    return {"type": "json_object"} if rung == "json_object" else None


@dataclass(frozen=True, slots=True)
class Completion:
    """A server's answer. tokens: (in, out), model: the model that answered, each where the server says so credibly."""

    text: str = ""
    finish_reason: str | None = None
    refusal: str | None = None
    tokens: tuple[int, int] | None = None
    model: str | None = None


def read_completion(body: Any) -> Completion | None:
    """What a parsed body of status 200 says; None for a body of another form."""
    try:
        choice = body["choices"][0]
        message = choice["message"]
        refusal = message.get("refusal")
        return Completion(
            text=_text(message.get("content")),
            finish_reason=choice.get("finish_reason"),
            refusal=str(refusal) if refusal else None,
            tokens=_tokens(body.get("usage")),
            model=body.get("model") if isinstance(body.get("model"), str) else None,
        )
    except (KeyError, IndexError, TypeError, AttributeError):
        return None


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content)
    return str(content or "")


def _tokens(usage: Mapping[str, Any] | None) -> tuple[int, int] | None:
    if not isinstance(usage, Mapping):
        return None
    count_in, count_out = usage.get("prompt_tokens"), usage.get("completion_tokens")
    return (count_in, count_out) if is_credible(count_in) and is_credible(count_out) else None


def is_credible(count: Any) -> TypeGuard[int]:
    """Whether a server's count of tokens may be one."""
    return isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= MOST_TOKENS


def complaint_of(body: Any, text: str) -> tuple[str, str | None]:
    """The message and the code in the body of an error, in the forms that servers use; else the beginning of its text.

    >>> complaint_of({"error": {"message": "No such model", "code": "model_not_found"}}, "")
    ('No such model', 'model_not_found')
    """
    error = body.get("error", body) if isinstance(body, Mapping) else None
    if isinstance(error, Mapping) and (error.get("message") or error.get("detail")):
        code = error.get("code")
        return shown(str(error.get("message") or error.get("detail"))), None if code is None else str(code)
    return shown(error if isinstance(error, str) else text), None


def same_model(asked: str, answered: str) -> bool:
    """Whether a server's name of a model means the model that was asked for.

    Servers add an organisation, a folder, a file's ending, or the date, tag or revision of a version.

    >>> same_model("gpt-4o", "gpt-4o-2024-08-06"), same_model("gpt-4o", "gpt-4o-mini")
    (True, False)
    >>> same_model("tiny", "/models/tiny.gguf"), same_model("org/Tiny", "tiny")
    (True, True)
    """
    first, second = _bare(asked), _bare(answered)
    return second == first or bool(re.fullmatch(re.escape(first) + r"(-\d{3,}(-\d\d){0,2}|@[^@]+)", second))


def _bare(name: str) -> str:
    return re.split(r"[/\\]", name.strip().casefold())[-1].removesuffix(".gguf").removesuffix(":latest")


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
