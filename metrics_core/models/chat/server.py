"""A server of /v1/chat/completions: its address, its key, and one HTTP call to it. Nothing here knows a retry."""

from __future__ import annotations

import ipaddress
import json
import logging
import os
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import httpx2

# No answer that fits a schema of ours is near it.
MOST_BYTES = 1 << 24
# The key is cut out of answers. A shorter one, such as a placeholder, might be a word of theirs.
SHORTEST_KEY = 8


class ServerUnusable(ValueError):
    """A server's address or key that cannot be used; the message says how to mend it."""

    plain = True


class Unreachable(Exception):
    """No whole answer came: no connection, silence, or an end in the middle."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """Status, headers (in lower case) and text of an answer, and its parsed JSON or None."""

    status: int
    headers: Mapping[str, str]
    text: str
    body: Any = field(repr=False)


@dataclass(frozen=True, slots=True)
class Server:
    """Address up to and with /v1, and the name of the environment variable that holds the key, where one is needed.

    Raises ServerUnusable for an address that holds a secret, or that would send the key in the clear to another host.
    """

    url: str
    key_variable: str | None = None

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.username or parts.password or parts.query or parts.fragment:
            # The address is not quoted: it may hold the secret.
            raise ServerUnusable(
                "a server's address holds no password, query or fragment: name the environment variable of the key"
            )
        if parts.scheme not in {"http", "https"} or not parts.hostname or not _has_good_port(self.url):
            raise ServerUnusable(f"{self.url!r} is no address of a server: give one like http://127.0.0.1:8000/v1")
        if self.key_variable and parts.scheme == "http" and not self.is_local:
            raise ServerUnusable(
                f"{self.url} would send the key of {self.key_variable} unencrypted: use https, or name no key variable"
            )
        if self.key_variable and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", self.key_variable):
            # Not quoted either: it may be the key itself, given by mistake.
            raise ServerUnusable("the key variable is no name of an environment variable: give its name, not the key")

    @property
    def is_local(self) -> bool:
        """Whether the server is on this machine, by its address."""
        host = urlsplit(self.url).hostname or ""
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost" or host.endswith(".localhost")

    def key(self) -> str | None:
        """The key, read from the environment now; None where none is needed. Raises ServerUnusable without it."""
        if self.key_variable is None:
            return None
        key = os.environ.get(self.key_variable, "").strip()
        if not key:
            raise ServerUnusable(f"environment variable {self.key_variable} is not set: it must hold the server's key")
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise ServerUnusable(f"environment variable {self.key_variable} holds a character that no key has")
        if len(key) < SHORTEST_KEY:
            raise ServerUnusable(
                f"environment variable {self.key_variable} holds fewer than {SHORTEST_KEY} characters: give a longer "
                "key, or name no key variable where the server needs none"
            )
        return key


def open_client(server: Server, connect_s: float) -> httpx2.Client:
    """An HTTP client for one server. It follows no redirect, which could carry the key elsewhere."""
    import httpx2

    # They log the headers and the status line of answers, and a server may echo the key in them.
    for name in ("httpx2", "httpcore2"):
        logging.getLogger(name).setLevel(logging.WARNING)
    # A proxy of the environment would be asked even for a server on this machine.
    return httpx2.Client(timeout=connect_s, follow_redirects=False, trust_env=not server.is_local)


def post(
    stream: Callable[..., AbstractContextManager[httpx2.Response]],
    server: Server,
    body: Mapping[str, Any],
    *,
    timeout_s: tuple[float, float],
    remaining_s: Callable[[], float],
) -> HttpAnswer:
    """Send one request and read its answer, with the key cut out of every text of it.

    stream: method of a client. timeout_s: (to connect, of silence). remaining_s: seconds left to the request, asked at
    every piece of the answer, so that a server that trickles cannot outlast it. Raises Unreachable, and ServerUnusable
    without a key.
    """
    import httpx2

    key = server.key()
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
    # ASCII only: a lone surrogate in a text is then no error.
    content = json.dumps(body, allow_nan=False).encode()
    connect_s, silence_s = timeout_s
    # Some systems take a timeout of 0 for none.
    left_s = max(remaining_s(), 0.001)
    timeout = httpx2.Timeout(min(silence_s, left_s), connect=min(connect_s, left_s))
    url = f"{server.url.rstrip('/')}/chat/completions"
    try:
        with stream("POST", url, content=content, headers=headers, timeout=timeout) as response:
            text = _read(response, remaining_s)
    except httpx2.RequestError as error:
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise Unreachable(_without(key, said)) from None
    text = _without(key, text)
    safe = {name.lower(): _without(key, value) for name, value in response.headers.items()}
    return HttpAnswer(response.status_code, safe, text, _parsed(text))


def _read(response: httpx2.Response, remaining_s: Callable[[], float]) -> str:
    pieces, size = [], 0
    for piece in response.iter_bytes():
        pieces.append(piece)
        size += len(piece)
        if remaining_s() <= 0:
            raise Unreachable("the answer was not whole at the deadline")
        if size > MOST_BYTES:
            raise Unreachable(f"the answer is longer than {MOST_BYTES} bytes")
    return b"".join(pieces).decode("utf-8", "replace")


def _has_good_port(url: str) -> bool:
    try:
        return urlsplit(url).port != 0
    except ValueError:
        return False


def _without(key: str | None, text: str) -> str:
    return text.replace(key, "[key]") if key else text


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
