"""Requests to /v1/chat/completions: their bodies, and variants for servers that lack a field."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from metrics_core.models.chat.json_answers import format_schema_instruction
from metrics_core.models.chat.protocol import ChatRequest, ImagePart, MessagePart, TextPart

JsonMode: TypeAlias = Literal["json_schema", "json_object_schema", "json_object", "prompt"]
"""How a server is asked for JSON. json_object_schema: type json_object with a schema next to it, as in llama.cpp."""

PlacePicture: TypeAlias = Callable[[bytes], str]
"""Returns the address under which a server finds a JPEG image."""

_JSON_MODES: tuple[JsonMode, ...] = ("json_schema", "json_object_schema", "json_object", "prompt")
# The most that OpenAI's servers and vLLM give for a token.
_MAX_LOGPROBS = 20
_ABOUT_JSON_MODE = re.compile(
    r"response_format|json_schema|json_object|structured.output|guided|grammar|invalid schema", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Dialect:
    """A variant of the chat request format, for a server that does not understand every field. json_mode: how JSON is
    asked for. limit_field: the name of the field with the most tokens of an answer. sends_seed: whether a request has
    the field `seed`. sends_logprobs: whether a request that wants probabilities of tokens has the fields for them.
    """

    json_mode: JsonMode = "json_schema"
    limit_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    sends_seed: bool = True
    sends_logprobs: bool = True

    def find_next_dialect(self, complaint: str) -> Dialect | None:
        """Return the request format to try after a server refused a request in this one; None where no other would
        help. complaint: the server's error message, which shows what it does not understand.

        >>> Dialect().find_next_dialect("unknown field: response_format").json_mode
        'json_object_schema'
        >>> Dialect().find_next_dialect("the prompt is too long") is None
        True
        """
        if self.limit_field == "max_tokens" and "max_completion_tokens" in complaint:
            return replace(self, limit_field="max_completion_tokens")
        if is_about_json_mode(complaint) and self.json_mode != "prompt":
            return replace(self, json_mode=_JSON_MODES[_JSON_MODES.index(self.json_mode) + 1])
        if self.sends_seed and re.search(r"\bseed\b", complaint):
            return replace(self, sends_seed=False)
        if self.sends_logprobs and is_about_logprobs(complaint):
            return replace(self, sends_logprobs=False)
        return None


FIRST_DIALECTS = {
    # Its response_format takes only json_object, with a schema next to it.
    "llama-cpp-python": Dialect("json_object_schema"),
    # It has no field for the form of an answer.
    "transformers": Dialect("prompt"),
}
"""The request format to try first with a make of server, by the name of its preset, where it is not `Dialect()`."""


def is_about_json_mode(complaint: str) -> bool:
    """Whether a server's complaint is about the form of answer that it was asked for, such as `response_format`."""
    return bool(_ABOUT_JSON_MODE.search(complaint))


def is_about_logprobs(complaint: str) -> bool:
    """Whether a server's complaint is about the probabilities of tokens that it was asked for."""
    return "logprobs" in complaint.lower()


def build_data_url(jpeg: bytes) -> str:
    """Return the address of a JPEG image that holds the image itself."""
    return f"data:image/jpeg;base64,{base64.b64encode(jpeg).decode()}"


def build_request_body(
    request: ChatRequest, model: str, dialect: Dialect, seed: int, place_picture: PlacePicture = build_data_url
) -> dict[str, Any]:
    """Build the JSON body of a chat request, with the fields that the dialect allows. model: the name that the server
    knows. seed: of this attempt; sent in place of the request's own. place_picture: returns the addresses of images.
    """
    parts = (*request.parts, TextPart(format_schema_instruction(request.schema)))
    body: dict[str, Any] = {
        "model": model,
        "messages": [
            {"role": "system", "content": request.system},
            # Last, so that requests about one video with schemas of their own share all that comes before.
            {"role": "user", "content": _build_content(parts, place_picture)},
        ],
        "temperature": request.temperature,
        dialect.limit_field: request.max_tokens,
    }
    if dialect.sends_seed:
        body["seed"] = seed
    if request.expected and dialect.sends_logprobs:
        body |= {"logprobs": True, "top_logprobs": _MAX_LOGPROBS}
    if form := _build_response_format(request, dialect.json_mode):
        body["response_format"] = form
    return body


def _build_content(parts: tuple[MessagePart, ...], place_picture: PlacePicture) -> str | list[dict[str, Any]]:
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    if len(texts) == len(parts):
        # Every server takes a plain text; some take nothing else where there is no image.
        return "\n\n".join(texts)
    return [_build_part(part, place_picture) for part in parts]


def _build_part(part: MessagePart, place_picture: PlacePicture) -> dict[str, Any]:
    if isinstance(part, ImagePart):
        return {"type": "image_url", "image_url": {"url": place_picture(part.jpeg)}}
    return {"type": "text", "text": part.text}


def _build_response_format(request: ChatRequest, rung: JsonMode) -> dict[str, Any] | None:
    if rung == "json_schema":
        name = re.sub(r"\W+", "_", request.purpose, flags=re.ASCII).strip("_")[:60] or "answer"
        return {"type": "json_schema", "json_schema": {"name": name, "schema": request.schema, "strict": True}}
    if rung == "json_object_schema":
        return {"type": "json_object", "schema": request.schema}
    return {"type": "json_object"} if rung == "json_object" else None
