"""Chat models against a real server: `python -m benchmarks.chat_server --python PYTHON_OF_THE_SERVER`, a minute.

The server is llama.cpp's, out of its Python package, in an environment of its own (packages llama-cpp-python[server]
and gguf; REELSIEVE_CHAT_SERVER_PYTHON names its Python too). It serves a tiny llama with random weights that
`benchmarks/chat_checkpoint.py` writes. Its grammar lets even random weights write JSON that fits a schema, so that
whatever asks a chat model runs from end to end: `with llama_server(python) as url: ..`.

With `--transformers PYTHON`, the same for `transformers serve` (packages transformers[serving] and torch) and a tiny
Qwen2.5-VL that takes images. That server ignores the form that is asked for, so random weights end as `malformed`: the
run shows that requests with images pass, and that nonsense becomes a status.
"""

from __future__ import annotations

import argparse
import io
import os
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from benchmarks.measure import RESULTS, save
from metrics_core.models.chat.client import HttpChatModel
from metrics_core.models.chat.presets import make_chat_model
from metrics_core.models.chat.protocol import ChatReply, ChatRequest, ImagePart, TextPart
from metrics_core.models.errors import ModelUnusable
from metrics_core.models.served_encoder import ServedTextEncoder
from metrics_core.models.server.address import Server
from metrics_core.models.server.endpoint import Endpoint
from metrics_core.models.server.spending import Prices

VARIABLE = "REELSIEVE_CHAT_SERVER_PYTHON"
START_S = 120.0
SCHEMA = {
    "type": "object",
    "properties": {
        "questions": {
            "type": "array",
            "items": {"type": "string", "minLength": 1, "maxLength": 40},
            "minItems": 2,
            "maxItems": 3,
        },
        "verdict": {"enum": ["yes", "no", "cannot tell"]},
    },
    "required": ["questions", "verdict"],
    "additionalProperties": False,
}


@contextmanager
def llama_server(python: str, *, vectors: bool = False) -> Iterator[str]:
    """Run llama.cpp's server with a tiny checkpoint named "tiny"; yields its address, which ends in /v1.

    vectors: whether it gives vectors of texts, and answers no chat.
    """
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Path(folder) / "tiny.gguf"
        writer = Path(__file__).with_name("chat_checkpoint.py")
        subprocess.run([python, str(writer), str(checkpoint)], check=True)
        port = _unused_port()
        options = ["--model_alias", "tiny", "--n_ctx", "8192", "--n_threads", "1", "--verbose", "false"]
        options += ["--embedding", str(vectors).lower()]
        address = ["--host", "127.0.0.1", "--port", str(port)]
        with _running([python, "-m", "llama_cpp.server", "--model", str(checkpoint), *options, *address], port) as url:
            yield url


@contextmanager
def transformers_server(python: str, model: Path) -> Iterator[str]:
    """Run `transformers serve` for the model in this folder; yields its address, which ends in /v1."""
    port = _unused_port()
    command = [python, "-m", "transformers.cli.transformers", "serve", str(model), "--device", "cpu"]
    with _running([*command, "--host", "127.0.0.1", "--port", str(port)], port) as url:
        yield url


@contextmanager
def _running(command: Sequence[str], port: int) -> Iterator[str]:
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            _wait_until_it_answers(server, port, log)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.terminate()
            server.wait()


def _wait_until_it_answers(server: subprocess.Popen[bytes], port: int, log: io.BufferedRandom) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end and server.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=5).close()
            return
        except urllib.error.HTTPError:
            # It answers, which is enough.
            return
        except OSError:
            time.sleep(0.2)
    log.seek(0)
    raise SystemExit(f"the server did not start:\n{log.read().decode(errors='replace')[-2000:]}")


def _unused_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@dataclass
class Memory:
    """Cache and ledger in memory."""

    replies: dict[bytes, Mapping[str, Any]] = field(default_factory=dict)
    calls: list[Mapping[str, Any]] = field(default_factory=list)

    def load(self, keys: Sequence[bytes]) -> Mapping[bytes, Mapping[str, Any]]:
        """Stored answers by key."""
        return {key: self.replies[key] for key in keys if key in self.replies}

    def store(self, replies: Sequence[Mapping[str, Any]]) -> None:
        """Keep valid answers."""
        self.replies |= {reply["request_sha256"]: reply["data"] for reply in replies}

    def record(self, call: Mapping[str, Any]) -> None:
        """Keep an attempt."""
        self.calls.append(call)


def requests(n: int, images: Sequence[bytes] = (), **changes: Any) -> list[ChatRequest]:
    """Requests for questions about n short stories, and about the same images."""
    given = {"purpose": "questions", "system": "You examine.", "prompt_version": "1", "max_tokens": 400}
    fields = {**given, "schema": SCHEMA, **changes}
    shown = tuple(ImagePart(image) for image in images)
    stories = [TextPart(f"A dog runs after ball {i}. Ask about it.") for i in range(n)]
    return [ChatRequest(parts=(*shown, story), **fields) for story in stories]


def asked(name: str, model: HttpChatModel, batch: Sequence[ChatRequest]) -> dict[str, Any]:
    """Ask these requests, print what came of them, and return it."""
    memory = model.ledger
    assert isinstance(memory, Memory)
    before, started = len(memory.calls), time.monotonic()
    replies = model.chat(batch)
    calls = memory.calls[before:]
    row = {
        "statuses": dict(Counter(reply.status for reply in replies)),
        "cached": sum(reply.is_cached for reply in replies),
        "outcomes": dict(Counter(call["outcome"] for call in calls)),
        "tokens_in": sum(call["tokens_in"] for call in calls),
        "tokens_out": sum(call["tokens_out"] for call in calls),
        "seconds": round(time.monotonic() - started, 2),
        "first": _shown(replies[0]),
    }
    print(f"{name}: " + ", ".join(f"{key} {value}" for key, value in row.items()))
    return row


def _shown(reply: ChatReply) -> str:
    return (repr(dict(reply.data)) if reply.data is not None else str(reply.reason))[:160]


def with_llama(python: str) -> dict[str, Any]:
    """Text through llama.cpp's server: from either rung, from the cache, too long, cut, and after its end."""
    rows, memory = {}, Memory()
    given: dict[str, Any] = {"cache": memory, "ledger": memory, "timeout_s": 60.0, "concurrency": 4}
    with llama_server(python) as url:
        top = make_chat_model("tiny", url=url, **given)
        rows["from the top rung"] = asked("from the top rung", top, requests(20))
        model = make_chat_model("tiny", url=url, preset="llama-cpp-python", **given)
        rows["by preset"] = asked("by preset", model, requests(20, prompt_version="2"))
        rows["again"] = asked("again", model, requests(20, prompt_version="2"))
        rows["cut"] = asked("cut", model, requests(1, max_tokens=8))
        rows["too long"] = asked("too long", model, requests(1, system="word " * 9000))
    rows["server gone"] = asked("server gone", model, requests(1, prompt_version="3"))
    with llama_server(python, vectors=True) as url:
        rows["vectors"] = embedded(url)
    offline = make_chat_model("tiny", url=url, mode="offline", **given)
    rows["offline"] = asked("offline", offline, requests(20, prompt_version="2"))
    return rows


def embedded(url: str, n: int = 200) -> dict[str, Any]:
    """Vectors of n texts in batches and one by one, of a text that is too long, and of another model."""
    memory, texts = Memory(), [f"A dog runs after ball {i}{', and again' * (i % 7)}." for i in range(n)]
    encoder = ServedTextEncoder(Endpoint("tiny", Server(url), prices=Prices(1.0, 0.0), ledger=memory, concurrency=2))
    started = time.monotonic()
    vectors = encoder.encode(texts)
    seconds = time.monotonic() - started
    alone = replace(encoder, batch_size=1, ledger=None).encode(texts[:20])
    row: dict[str, Any] = {
        "shape": list(vectors.shape),
        "seconds": round(seconds, 2),
        "outcomes": dict(Counter(call["outcome"] for call in memory.calls)),
        "tokens_in": sum(call["tokens_in"] for call in memory.calls),
        "greatest difference to one by one": float(abs(vectors[:20] - alone).max()),
        "least difference between two texts": float(min(abs(a - b).max() for a, b in combinations(vectors[:50], 2))),
    }
    for name, other, text in (
        ("too long", encoder, "word " * 9000),
        ("another model", replace(encoder, endpoint=replace(encoder.endpoint, model="big")), "a"),
    ):
        try:
            row[name] = list(other.encode([text]).shape)
        except ModelUnusable as error:
            row[name] = str(error).replace(url, "URL")
    print(f"vectors: {row}")
    return row


def with_transformers(python: str) -> dict[str, Any]:
    """Text and images through `transformers serve`."""
    from benchmarks.tiny_chat_model import write_video_model
    from tests.metrics_core.chat_fakes import jpeg

    rows, memory = {}, Memory()
    with tempfile.TemporaryDirectory() as folder:
        model_folder = write_video_model(Path(folder) / "tiny-vl")
        with transformers_server(python, model_folder) as url:
            given: dict[str, Any] = {"ledger": memory, "timeout_s": 120.0, "concurrency": 1}
            model = make_chat_model(str(model_folder), url=url, **given)
            rows["text"] = asked("text", model, requests(2, max_tokens=40))
            images = [jpeg(84, 56, colour) for colour in ("red", "blue")]
            rows["images"] = asked("images", model, requests(2, images, max_tokens=40))
    return rows


def main() -> None:
    """Ask the servers that are given, and keep the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=os.environ.get(VARIABLE), help="Python with llama-cpp-python[server], gguf")
    parser.add_argument("--transformers", help="Python with transformers[serving] and torch")
    given = parser.parse_args()
    if not given.python and not given.transformers:
        parser.error(f"give --python or set {VARIABLE}")
    results: dict[str, Any] = {}
    if given.python:
        results["llama-cpp-python " + version(given.python, "llama-cpp-python")] = with_llama(given.python)
    if given.transformers:
        results["transformers " + version(given.transformers, "transformers")] = with_transformers(given.transformers)
    save(RESULTS / "chat_server.json", results)


def version(python: str, package: str) -> str:
    """Version of a package in another environment."""
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    main()
