"""Requests, time, storage and models for the tests of chat models."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from PIL import Image

from metrics_core.models.chat.bookkeeping import ReplyCache
from metrics_core.models.chat.client import HttpChatModel
from metrics_core.models.chat.protocol import ChatRequest, ImagePart, MessagePart, TextPart
from metrics_core.models.server.address import Server
from metrics_core.models.server.endpoint import Endpoint

SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "string", "maxLength": 40}},
    "required": ["answer"],
    "additionalProperties": False,
}


def jpeg(width: int = 56, height: int = 28, colour: str = "red") -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width, height), colour).save(file, "JPEG")
    return file.getvalue()


def ask(question: str = "Who runs?", *images: bytes, **changes: Any) -> ChatRequest:
    """A request with this question after these images."""
    parts: tuple[MessagePart, ...] = (*(ImagePart(image, {"time_s": 0.5}) for image in images), TextPart(question))
    given = {"purpose": "answers", "system": "Answer.", "prompt_version": "1", "max_tokens": 50, "schema": SCHEMA}
    return ChatRequest(parts=parts, **{**given, **changes})


@contextmanager
def no_waits() -> Iterator[list[float]]:
    """Let the waits between attempts take no time in the block, and list their seconds."""
    waits: list[float] = []

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    with patch("anyio.sleep", wait):
        yield waits


class MemoryCache:
    """A ReplyCache in memory."""

    def __init__(self) -> None:
        self.replies: dict[bytes, Mapping[str, Any]] = {}

    def load(self, keys: Sequence[bytes]) -> Mapping[bytes, Mapping[str, Any]]:
        return {key: self.replies[key] for key in keys if key in self.replies}

    def store(self, replies: Sequence[Mapping[str, Any]]) -> None:
        self.replies |= {reply["request_sha256"]: reply for reply in replies}


class MemoryLedger:
    """A Ledger in memory."""

    def __init__(self) -> None:
        self.calls: list[Mapping[str, Any]] = []

    def record(self, call: Mapping[str, Any]) -> None:
        self.calls.append(call)

    @property
    def outcomes(self) -> list[str]:
        return [call["outcome"] for call in self.calls]


def model_at(url: str, key_variable: str = "", cache: ReplyCache | None = None, **changes: Any) -> HttpChatModel:
    """A model named tiny at this address, which asks one request at a time."""
    endpoint = Endpoint("tiny", Server(url, key_variable), **{"concurrency": 1, **changes})
    return HttpChatModel(endpoint, cache=cache)
