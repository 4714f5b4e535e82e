"""What every chat model does around asking: stored answers first, equal requests once, replies in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from metrics_core.models.chat.protocol import ChatReply, ChatRequest, ImagePart, Usage
from metrics_core.models.chat.records import CacheMode, ReplyCache, request_keys
from metrics_core.models.chat.structured import check_schema
from metrics_core.protocols import ModelIdentity


@dataclass(frozen=True, slots=True)
class Pending:
    """A request without a stored answer. keys: its cache keys, one for each content attempt."""

    request: ChatRequest
    keys: list[bytes]


@dataclass(frozen=True, slots=True)
class Bookkeeping:
    """Of one model. attempts: content attempts at a request. images: whether the model takes them."""

    identity: ModelIdentity
    attempts: int
    images: bool
    cache: ReplyCache | None
    mode: CacheMode

    def replies(
        self, requests: Sequence[ChatRequest], ask: Callable[[list[Pending]], Sequence[ChatReply]]
    ) -> list[ChatReply]:
        """One reply for each request, in their order; `ask` answers those that are not settled without the model.

        Raises ValueError for a request whose schema is none or whose max_tokens is below 1.
        """
        for request in requests:
            check_request(request)
        keys = [request_keys(self.identity, request, self.attempts) for request in requests]
        known = self._stored(keys)
        replies: dict[bytes, ChatReply] = {}
        pending: dict[bytes, Pending] = {}
        for request, its_keys in zip(requests, keys, strict=True):
            settled = self._settled(request, its_keys, known)
            if settled is None:
                pending[its_keys[0]] = Pending(request, its_keys)
            else:
                replies[its_keys[0]] = settled
        replies |= dict(zip(pending, ask(list(pending.values())) if pending else [], strict=True))
        return _in_order(replies, [its_keys[0] for its_keys in keys])

    def _stored(self, keys: Sequence[Sequence[bytes]]) -> Mapping[bytes, Mapping[str, Any]]:
        if self.cache is None or self.mode == "refresh":
            return {}
        return self.cache.load(list(dict.fromkeys(key for its_keys in keys for key in its_keys)))

    def _settled(
        self, request: ChatRequest, keys: Sequence[bytes], known: Mapping[bytes, Mapping[str, Any]]
    ) -> ChatReply | None:
        for key in keys:
            if key in known:
                return ChatReply("ok", known[key], cached=True)
        name = self.identity.model_id
        if self.mode == "offline":
            remedy = "run once without offline"
            return ChatReply("error", reason=f"{request.purpose}: no stored answer of {name}: {remedy}")
        if not self.images and any(isinstance(part, ImagePart) for part in request.parts):
            return ChatReply("error", reason=f"{request.purpose}: {name} takes no images: name a video model")
        return None


def check_request(request: ChatRequest) -> None:
    """Raise ValueError for a request that no model can be asked."""
    check_schema(request.schema)
    if request.max_tokens < 1:
        raise ValueError(f"{request.purpose}: max_tokens is {request.max_tokens}: give 1 or more")


def _in_order(replies: Mapping[bytes, ChatReply], keys: Sequence[bytes]) -> list[ChatReply]:
    """The reply of each key. An equal request later on has cost nothing more."""
    ordered, seen = [], set()
    for key in keys:
        reply = replies[key]
        ordered.append(replace(reply, usage=Usage(), cached=reply.status == "ok") if key in seen else reply)
        seen.add(key)
    return ordered
