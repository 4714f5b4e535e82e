"""Requests to chat models, their replies, and the protocol ChatModel, which any object with its members fulfils."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from metrics_core.models.server.spending import Usage
from metrics_core.protocols import ModelIdentity


@dataclass(frozen=True, slots=True)
class TextPart:
    """A piece of text in a message to a chat model."""

    text: str


@dataclass(frozen=True, slots=True)
class ImagePart:
    """A JPEG image in a message to a chat model. preparation: how the image was made, as plain values; the cache key
    contains them and the hash of the bytes.
    """

    jpeg: bytes = field(repr=False)
    preparation: Mapping[str, Any] = field(default_factory=dict)


MessagePart: TypeAlias = TextPart | ImagePart


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A question to a chat model, to be answered with a JSON object that fits `schema`, a flat, bounded JSON schema.
    purpose: the step, such as "factuality questions", for progress and cost. system: the system message. parts: the
    user's message, context first, so that a server can keep it. max_tokens: of the answer. seed: attempt k uses seed +
    k.

    expected: the name of an integer member of the answer, with a minimum of 0 and a maximum in the schema. Where the
    server gives the probabilities of tokens, the reply's data also has the member `build_expected_name(expected)`: the
    expectation of that integer over them. None asks for no probabilities.
    """

    purpose: str
    system: str
    parts: tuple[MessagePart, ...]
    schema: Mapping[str, Any]
    prompt_version: str
    max_tokens: int
    temperature: float = 0.0
    seed: int = 0
    expected: str | None = None


def build_expected_name(member: str) -> str:
    """Return the name under which a reply's data has the expectation of an integer member.

    >>> build_expected_name("score")
    'score_expected'
    """
    return f"{member}_expected"


@dataclass(frozen=True, slots=True)
class ChatReply:
    """The reply to one chat request: for status "ok" `data`, an object that fits its schema, perhaps with the
    expectation asked for; else `reason`, a sentence. usage: of all attempts. is_cached: taken from the cache or an
    equal request, so that `usage` is empty. is_cut: whether a malformed answer broke off at `max_tokens`.

    malformed: no valid JSON after all content retries. refused: the model declined, or the server rejected this
    request, such as one too long for the model; asking again does not help. error: transport, deadline or
    configuration. stopped: not asked, or not to the end, because the spending limit was reached, or the request was
    written to a file for others to answer.
    """

    status: Literal["ok", "malformed", "refused", "error", "stopped"]
    data: Mapping[str, Any] | None = None
    reason: str | None = None
    usage: Usage = field(default_factory=Usage)
    is_cached: bool = False
    is_cut: bool = False

    def explain_failure(self) -> str:
        """Return the reason why the reply has no answer."""
        return self.reason or f"the model gave no answer (status {self.status})"


class ChatModel(Protocol):
    """A model that answers requests with JSON objects. Reading its identity asks no server and loads nothing."""

    @property
    def identity(self) -> ModelIdentity:
        """The model's name and revision with the parameters that change its answers; neither URL nor key."""
        ...

    def chat(self, requests: Sequence[ChatRequest]) -> list[ChatReply]:
        """Return one reply per request, in their order, asking several at a time. A failed request is a status, not an
        error.
        """
        ...
