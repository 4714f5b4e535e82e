"""A server of /v1/chat/completions on 127.0.0.1 that answers as a test tells it, and keeps what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# Longer than any test lasts: what ends such an answer is the client.
WHOLE_TEST_S = 30.0


@dataclass(frozen=True)
class Answer:
    """status, headers and body of an answer. cut: the body ends in the middle. hang: none comes."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False
    hang: bool = False


Script = Callable[[int, dict[str, Any]], Answer]
"""The answer to the request with this number, counted from 0, and this body."""


def completion(
    text: str | None,
    *,
    model: str = "tiny",
    tokens: tuple[int, int] | None = (100, 20),
    finish_reason: str = "stop",
    refusal: str | None = None,
) -> Answer:
    """A good answer whose message has this text."""
    body: dict[str, Any] = {
        "model": model,
        "choices": [{"message": {"content": text, "refusal": refusal}, "finish_reason": finish_reason}],
    }
    if tokens:
        body["usage"] = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]}
    return Answer(body=json.dumps(body).encode())


def said(answer: str, **changes: Any) -> Answer:
    """A valid answer to the schema of the tests."""
    return completion(json.dumps({"answer": answer}), **changes)


def complaint(status: int, message: str, *, code: str | None = None, **headers: str) -> Answer:
    """An error as servers send it."""
    body = {"error": {"message": message, "code": code}}
    return Answer(status, json.dumps(body).encode(), {name.replace("_", "-"): value for name, value in headers.items()})


class Loopback:
    """url: its address. asked: bodies of the requests, in the order of their arrival; headers: theirs."""

    def __init__(self, script: Script) -> None:
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.over = threading.Event()
        self._script = script
        self._lock = threading.Lock()
        self.url = ""

    def answer(self, body: dict[str, Any], headers: dict[str, str]) -> Answer:
        with self._lock:
            self.asked.append(body)
            self.headers.append(headers)
            return self._script(len(self.asked) - 1, body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # As many as may be in flight, as servers of models do; by default 5 wait, and further ones are lost for a second.
    request_queue_size = 1024


@contextmanager
def loopback(script: Script) -> Generator[Loopback, None, None]:
    """Run a server with this script until the end of the block."""
    served = Loopback(script)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Else each answer waits 40 ms for the acknowledgement of its headers.
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            _send(self, served.answer(body, dict(self.headers)), served.over)

        def log_message(self, *_: Any) -> None:
            pass

    server = _Server(("127.0.0.1", 0), Handler)
    served.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        served.over.set()
        server.shutdown()
        server.server_close()


def _send(handler: BaseHTTPRequestHandler, answer: Answer, over: threading.Event) -> None:
    if answer.hang:
        over.wait(WHOLE_TEST_S)
        handler.close_connection = True
        return
    handler.send_response(answer.status)
    for name, value in answer.headers.items():
        handler.send_header(name, value)
    handler.send_header("content-length", str(len(answer.body)))
    handler.end_headers()
    try:
        if answer.cut:
            handler.wfile.write(answer.body[: len(answer.body) // 2])
            handler.close_connection = True
        else:
            handler.wfile.write(answer.body)
    except (BrokenPipeError, ConnectionResetError):
        handler.close_connection = True
