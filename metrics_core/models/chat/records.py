"""What outlives a run: valid answers by the hash of their request, and every attempt. Protocols, not storage."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from metrics_core.models.chat.protocol import ChatRequest, Part, TextPart, Usage
from metrics_core.models.chat.structured import canonical_json, ordered_json
from metrics_core.protocols import ModelIdentity

CacheMode: TypeAlias = Literal["normal", "refresh", "offline"]
"""normal: stored answers first. refresh: ask again and replace them. offline: stored answers only, nothing is sent."""

Outcome: TypeAlias = Literal["ok", "malformed", "truncated", "refused", "unreachable", "rejected", "wrong_model"]
"""What became of one attempt. rejected: the server answered with an error that no repetition mends."""

# Raised when what is sent for the same request changes: the schema's instruction, or how parts become messages.
_FORM = 1


@dataclass(frozen=True, slots=True)
class ValidReply:
    """An answer that fits its schema. key: SHA-256 of its request; model: the model's identity as plain data."""

    key: bytes
    model: Mapping[str, Any]
    purpose: str
    data: Mapping[str, Any]
    usage: Usage


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One attempt at a request. attempt: from 0, transport retries included. duration_s: seconds it took."""

    key: bytes
    model: Mapping[str, Any]
    purpose: str
    attempt: int
    outcome: Outcome
    error: str | None
    http_status: int | None
    usage: Usage
    duration_s: float


class ReplyCache(Protocol):
    """Stores valid answers. Several threads call it at once."""

    def load(self, keys: Sequence[bytes]) -> Mapping[bytes, Mapping[str, Any]]:
        """Stored answers by key; a key without an answer is left out."""
        ...

    def store(self, replies: Sequence[ValidReply]) -> None:
        """Store these answers durably; the newest answer to a request stays."""
        ...


class Ledger(Protocol):
    """Stores attempts. Several threads call it at once."""

    def record(self, call: CallRecord) -> None:
        """Store this attempt durably."""
        ...


def request_keys(identity: ModelIdentity, request: ChatRequest, attempts: int) -> list[bytes]:
    """SHA-256 of all that decides the answer to each attempt at a request.

    The seed of the request is hashed beside the number of the attempt: attempt 1 at seed 0 and attempt 0 at seed 1
    send the same, but whoever asks with two seeds wants two independent answers.
    """
    asked = {
        "form": _FORM,
        "model": identity.as_dict(),
        "system": request.system,
        "parts": [_hashed(part) for part in request.parts],
        # As text: the order of its members is the order in which a model writes them.
        "schema": ordered_json(request.schema),
        "max_tokens": request.max_tokens,
        "temperature": float(request.temperature),
        "prompt_version": request.prompt_version,
        "seed": request.seed,
    }
    texts = [canonical_json(asked | {"attempt": attempt}) for attempt in range(attempts)]
    return [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts]


def _hashed(part: Part) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"text": part.text}
    return {"jpeg_sha256": hashlib.sha256(part.jpeg).hexdigest(), "recipe": dict(part.recipe)}
