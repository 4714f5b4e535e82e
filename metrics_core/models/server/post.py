"""Send one request to a server of models, and return its answer as parsed JSON without the server's key."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from http.cookiejar import CookieJar
from typing import TYPE_CHECKING, Any

from metrics_core.models.server.address import Server
from metrics_core.models.server.exchange import MAX_ANSWER_BYTES, ServerUnreachable, send_request

if TYPE_CHECKING:
    import httpx2

KEY_PLACEHOLDER = "[key]"
# JSON that is nested deeper fits no schema of ours, and recursion through it would fail.
_MAX_LEVELS = 100


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A server's answer to a request: HTTP status, headers by name in lower case, size in bytes, and body as parsed
    JSON, None for one that is not JSON. The server's key is replaced by "[key]" in headers and body. key: that key,
    None without one, to remove it from texts that are joined from the answer's pieces.

    Nothing else of an answer is kept.
    """

    status: int
    headers: Mapping[str, str]
    n_bytes: int
    body: Any = field(repr=False)
    key: str | None = field(repr=False)


def open_client(server: Server, connect_s: float, silence_s: float) -> httpx2.Client:
    """Open an HTTP client for one server; the caller closes it. connect_s: the longest time to connect. silence_s: the
    longest pause in an answer. The client follows no redirect, which could carry the key elsewhere, and keeps no
    cookie. The HTTP library's logs are limited to warnings for the whole process.

    Every request has a connection of its own, so that closing one disturbs no other.
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
        # A proxy from the environment would be used even for a server on this machine.
        trust_env=not server.is_local,
    )


def post_json(
    stream: Callable[..., AbstractContextManager[httpx2.Response]],
    server: Server,
    body: Mapping[str, Any],
    timeout_s: float,
    *,
    path: str = "chat/completions",
    max_bytes: int = MAX_ANSWER_BYTES,
) -> HttpAnswer:
    """Send one request with a JSON body, and return the server's answer within `timeout_s` seconds. stream: method of a
    client of `open_client`. path: comes after the server's address. Reads the key from the environment. Raises
    ServerUnreachable for no whole answer or one longer than `max_bytes`, ServerUnusable where the key is missing.
    """
    import httpx2

    key = server.read_key()
    request = {
        "method": "POST",
        "url": f"{server.url.rstrip('/')}/{path}",
        # ASCII only: a lone surrogate in a text is then no error.
        "content": json.dumps(body, allow_nan=False).encode(),
        "headers": {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {}),
    }

    def read(response: httpx2.Response, content: bytes) -> HttpAnswer:
        headers = hide_key({name.lower(): value for name, value in response.headers.items()}, key)
        return HttpAnswer(response.status_code, headers, len(content), _parse_body(content, key), key)

    try:
        return send_request(stream, request, timeout_s, read, max_bytes)
    except httpx2.RequestError as error:
        # Other errors may quote text that the server sent.
        why = f": {error}" if isinstance(error, httpx2.ConnectError) and str(error) else ""
        raise ServerUnreachable(f"{type(error).__name__}{why}") from None


def hide_key(value: Any, key: str | None, levels: int = _MAX_LEVELS) -> Any:
    """Return parsed JSON with "[key]" in place of the key in all its texts and names. Without a key, nothing changes.
    Raises ValueError where the JSON is nested deeper than 100 levels.

    >>> hide_key({"message": "wrong key: sk-12345678"}, "sk-12345678")
    {'message': 'wrong key: [key]'}
    """
    if not levels:
        raise ValueError(f"it is nested deeper than {_MAX_LEVELS} levels")
    if isinstance(value, str):
        return value.replace(key, KEY_PLACEHOLDER) if key else value
    if isinstance(value, Mapping):
        return {hide_key(name, key): hide_key(member, key, levels - 1) for name, member in value.items()}
    return [hide_key(member, key, levels - 1) for member in value] if isinstance(value, list) else value


def shorten_text(text: str, max_characters: int = 500) -> str:
    """Return the first `max_characters` of a server's text, on one line; characters that cannot be printed become
    spaces.
    """
    return "".join(letter if letter.isprintable() else " " for letter in text.strip()[:max_characters]).strip()


class _NoCookies(CookieJar):
    """A cookie jar that reads no cookie: none is wanted, and reading prints a traceback for a bad one."""

    def extract_cookies(self, response: object, request: object) -> None:
        """Do nothing."""


def _parse_body(content: bytes, key: str | None) -> Any:
    try:
        return hide_key(json.loads(content.decode("utf-8", "replace")), key)
    except (ValueError, RecursionError):
        return None
