"""A chat model that answers by a rule, and a small video for it to see."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import fastjsonschema

from metrics_core.models.chat.protocol import ChatReply, ChatRequest, ImagePart
from metrics_core.protocols import ModelIdentity
from metrics_core.qeva.records import JpegFrame, VideoAsFrames

Rule = Callable[[ChatRequest], Mapping[str, Any] | ChatReply]


class RuleChat:
    """A ChatModel that answers each request by a rule and keeps every batch. Answers must fit their schemas."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.batches: list[list[ChatRequest]] = []

    @property
    def identity(self) -> ModelIdentity:
        return ModelIdentity("rule", "1", {"temperature": 0.0})

    def chat(self, requests: Sequence[ChatRequest]) -> list[ChatReply]:
        self.batches.append(list(requests))
        return [self._reply(request) for request in requests]

    def _reply(self, request: ChatRequest) -> ChatReply:
        said = self.rule(request)
        if isinstance(said, ChatReply):
            return said
        checked(json.dumps(request.schema))(dict(said))
        return ChatReply("ok", said)


@lru_cache
def checked(schema: str) -> Callable[[Any], Any]:
    """Raises where data does not fit a schema."""
    check: Callable[[Any], Any] = fastjsonschema.compile(json.loads(schema))
    return check


def question_of(request: ChatRequest) -> str:
    """The last part of a request: what is asked."""
    part = request.parts[-1]
    assert not isinstance(part, ImagePart)
    return part.text


def seen_in(request: ChatRequest) -> str:
    """All texts before the last part, and the images as their bytes in latin-1."""
    return "\n".join(
        part.jpeg.decode("latin-1") if isinstance(part, ImagePart) else part.text for part in request.parts[:-1]
    )


def video_of(*events: str) -> VideoAsFrames:
    """A video with a frame for each event, whose "image" is the event in words."""
    frames = tuple(JpegFrame(event.encode("latin-1"), 2.5 * place, 8, 8) for place, event in enumerate(events))
    return VideoAsFrames(frames, {"sampling": "one for each event"})
