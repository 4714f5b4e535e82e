"""What outlives a run: valid answers by the hash of their request, and every attempt. Protocols, not storage."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from metrics_core.models.chat.protocol import ChatRequest, Part, TextPart
from metrics_core.models.chat.structured import canonical_json, ordered_json
from metrics_core.protocols import ModelIdentity

CacheMode: TypeAlias = Literal["normal", "refresh", "offline"]
"""normal: stored answers first. refresh: ask again and replace them. offline: stored answers only, nothing is sent."""

Outcome: TypeAlias = Literal["ok", "malformed", "truncated", "refused", "unreachable", "rejected", "wrong_model"]
"""What became of one attempt. rejected: the server answered with an error that no repetition mends."""

# Raised when what is sent for the same request changes: the schema's instruction, or how parts become messages.
_FORM = 1


class ReplyCache(Protocol):
    """Stores valid answers. Several threads call it at once."""

    def load(self, keys: Sequence[bytes]) -> Mapping[bytes, Mapping[str, Any]]:
        """Stored answers by key; a key without an answer is left out."""
        ...

    def store(self, replies: Sequence[Mapping[str, Any]]) -> None:
        """Store these answers durably; the newest answer to a request stays.

        Each has its `request_sha256`, the identity of the `model` as plain data, `purpose`, `data`, and the `calls`,
        `tokens_in`, `tokens_out` and `money` of all attempts.
        """
        ...


class Ledger(Protocol):
    """Stores attempts. Several threads call it at once."""

    def record(self, call: Mapping[str, Any]) -> None:
        """Store this attempt durably.

        It has its `request_sha256`, the identity of the `model` as plain data, `purpose`, the number of the `attempt`
        from 0, transport retries included, `outcome`, `error` and `http_status` (None where there is none),
        `tokens_in`, `tokens_out`, `money` and `duration_s`.
        """
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
