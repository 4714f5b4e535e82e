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
from http.cookiejar import CookieJar
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from metrics_core.models.chat.exchange import Unreachable, exchange
from metrics_core.models.chat.secret import SHORTEST_PIECE, Secret
from metrics_core.models.chat.wire import shown

if TYPE_CHECKING:
    import httpx2

# The key is cut out of answers. A shorter one, such as a placeholder, might be a word of theirs.
SHORTEST_KEY = SHORTEST_PIECE


class ServerUnusable(ValueError):
    """A server's address or key that cannot be used; the message says how to mend it."""

    plain = True


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """Status, headers (in lower case) and text of an answer, and its parsed JSON or None; all without the key.

    secret: the key that was sent, to look for in what is made of the answer.
    """

    status: int
    headers: Mapping[str, str]
    text: str
    body: Any = field(repr=False)
    secret: Secret = field(repr=False)


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


def open_client(server: Server, connect_s: float, silence_s: float) -> httpx2.Client:
    """An HTTP client for one server. It follows no redirect, which could carry the key elsewhere, and keeps no cookie.

    Each request has a connection of its own, so that closing one disturbs no other.
    """
    import httpx2

    # They log the headers and the status line of answers, and a server may echo the key in them.
    for name in ("httpx2", "httpcore2"):
        logging.getLogger(name).setLevel(logging.WARNING)
    return httpx2.Client(
        timeout=httpx2.Timeout(silence_s, connect=connect_s),
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0),
        cookies=_NoCookies(),
        follow_redirects=False,
        # A proxy of the environment would be asked even for a server on this machine.
        trust_env=not server.is_local,
    )


def post(
    stream: Callable[..., AbstractContextManager[httpx2.Response]],
    server: Server,
    body: Mapping[str, Any],
    left_s: float,
) -> HttpAnswer:
    """Send one request and read its answer in so many seconds. All that the server says comes through here, cleaned.

    stream: method of a client of `open_client`. Raises Unreachable, and ServerUnusable without a key.
    """
    import httpx2

    key = server.key()
    secret = Secret(key)
    request = {
        "method": "POST",
        "url": f"{server.url.rstrip('/')}/chat/completions",
        # ASCII only: a lone surrogate in a text is then no error.
        "content": json.dumps(body, allow_nan=False).encode(),
        "headers": {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {}),
    }

    def understood(response: httpx2.Response, content: bytes) -> HttpAnswer:
        text = content.decode("utf-8", "replace")
        headers = secret.cleaned({name.lower(): value for name, value in response.headers.items()})
        return HttpAnswer(response.status_code, headers, secret.without(text), _parsed(text, secret), secret)

    try:
        return exchange(stream, request, left_s, understood)
    except httpx2.RequestError as error:
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise Unreachable(shown(secret.without(said))) from None


class _NoCookies(CookieJar):
    """Reads no cookie: none is wanted, and the reading prints a traceback for a bad one."""

    def extract_cookies(self, response: object, request: object) -> None:
        """Do nothing."""


def _has_good_port(url: str) -> bool:
    try:
        return urlsplit(url).port != 0
    except ValueError:
        return False


def _parsed(text: str, secret: Secret) -> Any:
    try:
        return secret.cleaned(json.loads(text))
    except (ValueError, RecursionError):
        return None
