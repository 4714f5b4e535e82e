"""Presets of chat model servers by name, and a function that makes a chat model from plain values."""

from __future__ import annotations

from dataclasses import dataclass, field

from metrics_core.models.chat.bookkeeping import ReplyCache
from metrics_core.models.chat.client import HttpChatModel
from metrics_core.models.chat.wire import Dialect
from metrics_core.models.server.address import Server, ServerUnusable
from metrics_core.models.server.endpoint import Endpoint
from metrics_core.models.server.ledger import CacheMode, Ledger
from metrics_core.models.server.spending import Prices, SpendingLimit


@dataclass(frozen=True, slots=True)
class Preset:
    """Defaults for one make of server. url: its address on this machine; None for a hosted server, whose address the
    user gives. dialect: the request format to try first; where the server does not understand it, the client chooses a
    simpler one.
    """

    url: str | None
    dialect: Dialect = field(default_factory=Dialect)


PRESETS = {
    "vllm": Preset("http://127.0.0.1:8000/v1"),
    "sglang": Preset("http://127.0.0.1:30000/v1"),
    "ollama": Preset("http://127.0.0.1:11434/v1"),
    "llama.cpp": Preset("http://127.0.0.1:8080/v1"),
    # Its response_format takes only json_object, with a schema next to it.
    "llama-cpp-python": Preset("http://127.0.0.1:8000/v1", Dialect("json_object_schema")),
    # It has no field for the form of an answer.
    "transformers": Preset("http://127.0.0.1:8000/v1", Dialect("prompt")),
    "hosted": Preset(None),
}


def build_server(model: str, address: str | None, key_variable: str | None) -> Server:
    """Build the record of a server from its address and the name of the environment variable that holds its key, None
    without a key. The variable is not read yet. Raises ServerUnusable without an address, and for an address or
    variable that cannot be used. model: for the message.
    """
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
    concurrency: int = 8,
    timeout_s: float = 180.0,
    deadline_s: float = 600.0,
    prices: Prices | None = None,
    spending: SpendingLimit | None = None,
    cache: ReplyCache | None = None,
    mode: CacheMode = "normal",
    ledger: Ledger | None = None,
) -> HttpChatModel:
    """Make a chat model from plain values: an address, a name in `PRESETS`, or a preset at another address. Asks no
    server yet. model: the name that the server knows. key_variable: the environment variable that holds the key; it is
    read when a request is sent. Raises ServerUnusable for an address, preset or key variable that cannot be used,
    ValueError for a number that makes no sense.

    >>> make_chat_model("qwen2.5vl:7b", preset="ollama").endpoint.server.url
    'http://127.0.0.1:11434/v1'
    """
    if preset is not None and preset not in PRESETS:
        raise ServerUnusable(f"there is no preset {preset!r}: name one of {', '.join(PRESETS)}, or give an address")
    known = PRESETS[preset] if preset else Preset(None)
    endpoint = Endpoint(
        model=model,
        server=build_server(model, url or known.url, key_variable),
        revision=revision,
        concurrency=concurrency,
        deadline_s=deadline_s,
        timeout_s=timeout_s,
        prices=prices,
        spending=spending,
        mode=mode,
        ledger=ledger,
    )
    return HttpChatModel(endpoint, known.dialect, cache)
