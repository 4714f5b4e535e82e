"""Requests, time, storage and models for the tests of chat models."""

from __future__ import annotations

import io
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from PIL import Image

from metrics_core.models.chat.client import HttpChatModel
from metrics_core.models.chat.presets import make_chat_model
from metrics_core.models.chat.protocol import ChatRequest, ImagePart, MessagePart, TextPart
from metrics_core.models.server.endpoint import TimeSource

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


class FakeTime:
    """A clock that only sleeping moves. Chance always draws the same number."""

    def __init__(self, drawn: float = 0.5) -> None:
        self.now = 0.0
        self.slept: list[float] = []
        self._drawn = drawn
        self._lock = threading.Lock()

    def sleep(self, seconds: float) -> None:
        with self._lock:
            self.slept.append(seconds)
            self.now += seconds

    def as_time(self) -> TimeSource:
        return TimeSource(lambda: self.now, self.sleep, lambda: self._drawn)


class MemoryCache:
    """A ReplyCache in memory."""

    def __init__(self) -> None:
        self.replies: dict[bytes, Mapping[str, Any]] = {}

    def load(self, keys: Sequence[bytes]) -> Mapping[bytes, Mapping[str, Any]]:
        return {key: self.replies[key]["data"] for key in keys if key in self.replies}

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


def model_at(url: str, time: FakeTime | None = None, **changes: Any) -> HttpChatModel:
    """A model named tiny at this address, which asks one request at a time."""
    given = {"concurrency": 1, "time": (time or FakeTime()).as_time()}
    return make_chat_model("tiny", url=url, **{**given, **changes})
