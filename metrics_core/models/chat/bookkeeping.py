"""Keep valid answers by the hash of their request, record every attempt, and look for stored answers before asking."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

from metrics_core.models.chat.json_answers import check_json_schema, dump_canonical_json, dump_ordered_json
from metrics_core.models.chat.protocol import ChatReply, ChatRequest, ImagePart, MessagePart, TextPart
from metrics_core.models.server.ledger import AttemptOutcome, CacheMode, Ledger, build_attempt_record
from metrics_core.models.server.spending import Usage
from metrics_core.protocols import ModelIdentity

# Increased when the text sent for a request changes: the schema's instruction, or how parts become messages.
_FORM = 1


class ReplyCache(Protocol):
    """A store of valid answers by the hash of their request. Several threads call it at once."""

    def load(self, keys: Sequence[bytes]) -> Mapping[bytes, Mapping[str, Any]]:
        """Return the stored answers (parsed JSON objects) by key; a key without an answer is left out."""
        ...

    def store(self, replies: Sequence[Mapping[str, Any]]) -> None:
        """Store these answers durably; a newer answer to the same request replaces an older one. An answer has its
        `request_sha256`, the identity of the `model` as plain data, `purpose`, `data`, and the `calls`, `tokens_in`,
        `tokens_out` and `money` of all attempts.
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


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """A request without a stored answer. keys: its cache keys, one per content attempt."""

    request: ChatRequest
    keys: list[bytes]


@dataclass(frozen=True, slots=True)
class Bookkeeping:
    """One chat model's cache and ledger: finds stored replies, removes repeated requests, stores answers and attempts.
    n_attempts: the most content attempts at a request. takes_images: whether the model takes images. cache, ledger:
    None for none. mode: whether stored answers count, see `CacheMode`.
    """

    identity: ModelIdentity
    n_attempts: int
    takes_images: bool
    cache: ReplyCache | None
    mode: CacheMode
    ledger: Ledger | None

    def collect_replies(
        self, requests: Sequence[ChatRequest], ask: Callable[[list[PendingRequest]], Sequence[ChatReply]]
    ) -> list[ChatReply]:
        """Return one reply per request, in their order: from the cache, or else from `ask`. ask: gets the distinct
        requests without a stored answer, and returns their replies in order. Offline, and for images that the model
        does not take, the reply is an error. Raises ValueError for a request whose schema is not a JSON schema or whose
        max_tokens is below 1.
        """
        for request in requests:
            check_request(request)
        keys = [compute_request_keys(self.identity, request, self.n_attempts) for request in requests]
        known = self._load_stored(keys)
        replies: dict[bytes, ChatReply] = {}
        pending: dict[bytes, PendingRequest] = {}
        for request, request_keys in zip(requests, keys, strict=True):
            reply = self._find_reply(request, request_keys, known)
            if reply is None:
                pending[request_keys[0]] = PendingRequest(request, request_keys)
            else:
                replies[request_keys[0]] = reply
        replies |= dict(zip(pending, ask(list(pending.values())) if pending else [], strict=True))
        return _sort_replies(replies, [request_keys[0] for request_keys in keys])

    def record_attempt(
        self,
        pending: PendingRequest,
        content_attempt: int,
        outcome: AttemptOutcome,
        error: str | None,
        usage: Usage,
        duration_s: float,
        *,
        attempt: int,
        http_status: int | None = None,
    ) -> None:
        """Store one attempt at a request in the ledger, if there is one; see `Ledger.record`. content_attempt, attempt:
        its number from 0, without and with repetitions after a failed transport. error: None for "ok". usage: of this
        attempt only. http_status: None where no answer came.
        """
        if self.ledger is not None:
            record = build_attempt_record(attempt, outcome, error, usage, duration_s, http_status)
            self.ledger.record({**self._describe_request(pending, content_attempt), **record})

    def store_answer(
        self, pending: PendingRequest, content_attempt: int, data: Mapping[str, Any], usage: Usage
    ) -> None:
        """Store a valid answer in the cache, if there is one. content_attempt: the number of the attempt, from 0, whose
        key it is stored under. usage: of all attempts at the request.
        """
        if self.cache is not None:
            self.cache.store([{**self._describe_request(pending, content_attempt), "data": data, **asdict(usage)}])

    def _describe_request(self, pending: PendingRequest, content_attempt: int) -> dict[str, Any]:
        key = pending.keys[content_attempt]
        return {"request_sha256": key, "model": self.identity.as_dict(), "purpose": pending.request.purpose}

    def _load_stored(self, keys: Sequence[Sequence[bytes]]) -> Mapping[bytes, Mapping[str, Any]]:
        if self.cache is None or self.mode == "refresh":
            return {}
        return self.cache.load(list(dict.fromkeys(key for request_keys in keys for key in request_keys)))

    def _find_reply(
        self, request: ChatRequest, keys: Sequence[bytes], known: Mapping[bytes, Mapping[str, Any]]
    ) -> ChatReply | None:
        for key in keys:
            if key in known:
                return ChatReply("ok", known[key], is_cached=True)
        name = self.identity.model_id
        if self.mode == "offline":
            remedy = "run once without offline"
            return ChatReply("error", reason=f"{request.purpose}: {name} has no stored answer: {remedy}")
        if not self.takes_images and any(isinstance(part, ImagePart) for part in request.parts):
            return ChatReply("error", reason=f"{request.purpose}: {name} takes no images: name a video model")
        return None


def check_request(request: ChatRequest) -> None:
    """Raise ValueError for a request whose schema is not a JSON schema, or whose max_tokens is below 1."""
    check_json_schema(request.schema)
    if request.max_tokens < 1:
        raise ValueError(f"{request.purpose}: max_tokens is {request.max_tokens}: give 1 or more")


def _sort_replies(replies: Mapping[bytes, ChatReply], keys: Sequence[bytes]) -> list[ChatReply]:
    """Return the reply to every key, in order. A repeated request's reply has no usage, since it cost nothing more."""
    ordered, seen = [], set()
    for key in keys:
        reply = replies[key]
        ordered.append(replace(reply, usage=Usage(), is_cached=reply.status == "ok") if key in seen else reply)
        seen.add(key)
    return ordered
