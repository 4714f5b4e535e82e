"""The wire format of /v1/chat/completions: what is sent, what of it a server may lack, and what its answer means."""

from __future__ import annotations

import base64
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from metrics_core.models.chat.protocol import ChatRequest, ImagePart, Part, TextPart
from metrics_core.models.chat.structured import schema_instruction
from metrics_core.models.server.answers import is_credible

Rung: TypeAlias = Literal["json_schema", "json_object_schema", "json_object", "prompt"]
"""How a server is asked for JSON. json_object_schema: type json_object with a schema beside it, as in llama.cpp."""

RUNGS: tuple[Rung, ...] = ("json_schema", "json_object_schema", "json_object", "prompt")
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
