"""Servers of chat models by name: where they listen and what they understand to begin with; and a model behind one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from metrics_core.models.chat.bookkeeping import ReplyCache
from metrics_core.models.chat.client import HttpChatModel
from metrics_core.models.chat.wire import Dialect
from metrics_core.models.server.address import Server, ServerUnusable
from metrics_core.models.server.endpoint import Endpoint, TimeSource
from metrics_core.models.server.ledger import CacheMode, Ledger
from metrics_core.models.server.retries import RetryPolicy
from metrics_core.models.server.spending import Prices, SpendingLimit


@dataclass(frozen=True, slots=True)
class Preset:
    """url: where the server listens on this machine by default; None for a hosted one, whose address the user gives.

    dialect: what is tried first; the client goes down from there by itself. images: what images need, for `doctor`.
    """

    url: str | None
    image_needs: str
    dialect: Dialect = field(default_factory=Dialect)


PRESETS = {
    "vllm": Preset("http://127.0.0.1:8000/v1", "a vision model; --limit-mm-per-prompt bounds the frames of a request"),
    "sglang": Preset("http://127.0.0.1:30000/v1", "a vision model"),
    "ollama": Preset("http://127.0.0.1:11434/v1", "a vision model; its num_ctx must hold all frames"),
    "llama.cpp": Preset("http://127.0.0.1:8080/v1", "--mmproj with the projector of the model"),
    # Its type of the field knows json_object alone, with a schema beside it.
    "llama-cpp-python": Preset(
        "http://127.0.0.1:8000/v1", "a chat handler with a projector", Dialect("json_object_schema")
    ),
    # No field for the form of an answer at all.
    "transformers": Preset("http://127.0.0.1:8000/v1", "a vision model", Dialect("prompt")),
    "hosted": Preset(None, "a vision model; the frames leave this machine"),
}


def build_server(model: str, address: str | None, key_variable: str | None) -> Server:
    """The server of a model at an address. Raises ServerUnusable for none, and for one that cannot be used."""
    if address is None:
        raise ServerUnusable(f"model {model} needs a server: give its address, which ends in /v1, or a preset")
    return Server(address, key_variable)


def make_chat_model(
    model: str,
    *,
    url: str | None = None,
    preset: str | None = None,
    key_variable: str | None = None,
    revision: str = "as served",
    takes_images: bool = True,
    concurrency: int = 8,
    timeout_s: float = 180.0,
    deadline_s: float = 600.0,
    prices: Prices | None = None,
    spending: SpendingLimit | None = None,
    cache: ReplyCache | None = None,
    mode: CacheMode = "normal",
    ledger: Ledger | None = None,
    time: TimeSource | None = None,
) -> HttpChatModel:
    """Build a chat model from plain values: an address, a preset, or a preset at another address.

    key_variable: the environment variable that holds the key; it is read when a request is sent. Raises ServerUnusable
    for an address, preset or key variable that cannot be used, ValueError for a number that makes no sense.

    >>> make_chat_model("qwen2.5vl:7b", preset="ollama").endpoint.server.url
    'http://127.0.0.1:11434/v1'
    """
    if preset is not None and preset not in PRESETS:
        raise ServerUnusable(f"there is no preset {preset!r}: name one of {', '.join(PRESETS)}, or give an address")
    known = PRESETS[preset] if preset else Preset(None, "a vision model")
    endpoint = Endpoint(
        model=model,
        server=build_server(model, url or known.url, key_variable),
        revision=revision,
        concurrency=concurrency,
        policy=replace(RetryPolicy(), timeout_s=timeout_s, deadline_s=deadline_s),
        prices=prices,
        spending=spending,
        mode=mode,
        ledger=ledger,
        time=time or TimeSource(),
    )
    return HttpChatModel(endpoint, takes_images, known.dialect, cache)
