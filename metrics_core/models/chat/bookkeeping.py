"""The hash of a request, by which valid answers are kept, and the store that keeps them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from metrics_core.models.chat.json_answers import check_json_schema, dump_canonical_json, dump_ordered_json
from metrics_core.models.chat.protocol import ChatRequest, MessagePart, TextPart
from metrics_core.protocols import ModelIdentity

# Increased when the text sent for a request changes: the schema's instruction, or how parts become messages.
_FORM = 1


class ReplyCache(Protocol):
    """A store of answers by the hash of their request. Several threads call it at once."""

    def load(self, keys: Sequence[bytes]) -> Mapping[bytes, Mapping[str, Any]]:
        """Return the stored answers by key, as mappings with `outcome`, `data` and `reason`; a key without an answer is
        left out. `outcome` is "ok" and `data` the parsed JSON object, or `reason` says why an imported answer is no
        valid one.
        """
        ...

    def store(self, replies: Sequence[Mapping[str, Any]]) -> None:
        """Store these answers durably; a newer answer to the same request replaces an older one. An answer has its
        `request_sha256`, the identity of the `model` as plain data, `purpose`, `outcome`, `data`, `reason`, and the
        `calls`, `tokens_in`, `tokens_out` and `money` of all attempts.
        """
        ...


def compute_request_keys(identity: ModelIdentity, request: ChatRequest, n_attempts: int) -> list[bytes]:
    """Return the cache keys of a request, 32 bytes, one per content attempt (a repetition after an answer without valid
    JSON). A key is the SHA-256 of all that decides the answer: the model, the request except its purpose, and the
    number of the attempt.

    The seed of the request is hashed with the number of the attempt: attempt 1 at seed 0 and attempt 0 at seed 1 send
    the same, but a caller who asks with two seeds wants two independent answers.
    """
    content = {
        "form": _FORM,
        "model": identity.as_dict(),
        "system": request.system,
        "parts": [_hash_part(part) for part in request.parts],
        # As text: the order of its members is the order in which a model writes them.
        "schema": dump_ordered_json(request.schema),
        "max_tokens": request.max_tokens,
        "temperature": float(request.temperature),
        "prompt_version": request.prompt_version,
        "seed": request.seed,
    }
    if request.expected:
        content["expected"] = request.expected
    texts = [dump_canonical_json(content | {"attempt": attempt}) for attempt in range(n_attempts)]
    return [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts]


def _hash_part(part: MessagePart) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"text": part.text}
    return {"jpeg_sha256": hashlib.sha256(part.jpeg).hexdigest(), "recipe": dict(part.preparation)}


def check_request(request: ChatRequest) -> None:
    """Raise ValueError for a request whose schema is not a JSON schema, or whose max_tokens is below 1."""
    check_json_schema(request.schema)
    if request.max_tokens < 1:
        raise ValueError(f"{request.purpose}: max_tokens is {request.max_tokens}: give 1 or more")
