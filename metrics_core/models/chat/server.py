"""A server of models: its address, its key, cut out of all it says, and one call under one clock."""

from __future__ import annotations

import base64
import html
import ipaddress
import json
import logging
import os
import re
import socket
import threading
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from http.cookiejar import CookieJar
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from metrics_core.models.chat.structured import texts_in

if TYPE_CHECKING:
    import httpx2


# Runs a function on many items in threads that never keep a process from ending.

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_threads(
    function: Callable[[Item], Result], items: Sequence[Item], n_threads: int, timeout_s: float | None = None
) -> list[Result]:
    """Results in the order of the items. The first error is raised at once; calls under way end on their own.

    timeout_s: seconds after which TimeoutError is raised likewise; None for no limit.

    An executor of the standard library would hold up the end of the process until the last call is answered, and so a
    Ctrl-C too.
    """
    results: dict[int, Result] = {}
    errors: list[BaseException] = []
    waiting = iter(range(len(items)))
    lock, ended = threading.Lock(), threading.Event()

    def work() -> None:
        while not errors:
            with lock:
                index = next(waiting, None)
            if index is None:
                return
            try:
                result = function(items[index])
            except BaseException as error:
                errors.append(error)
                ended.set()
                return
            with lock:
                results[index] = result
                if len(results) == len(items):
                    ended.set()

    for _ in range(min(n_threads, len(items))):
        threading.Thread(target=work, daemon=True).start()
    try:
        if items and not ended.wait(None if timeout_s is None else min(timeout_s, threading.TIMEOUT_MAX)):
            raise TimeoutError(f"not done in {timeout_s:g} s")
    except BaseException as interrupt:
        errors.append(interrupt)
        raise
    if errors:
        raise errors[0]
    return [results[index] for index in range(len(items))]


# The key of a server, found and cut out of all that the server says, however it is written there.

CUT = "[key]"
WITHHELD = "[withheld: it holds the key of the server]"
# A piece of the key counts from this length on; a shorter one, such as a word, may stand in any text by chance.
SHORTEST_PIECE = 8
# Nobody writes a text in more encodings, one within the other.
_MOST_LEVELS = 5
# JSON that is nested deeper is no answer that anybody asked for, and ends what walks through it.
_DEEPEST = 100
_ESCAPE = re.compile(
    r"\\+(?:u(?:0000)?([0-9a-f]{4})|u\{([0-9a-f]{1,4})\}|x([0-9a-f]{2})|([0-3][0-7]{2})|[nrtbf])"
    r"|[%=]([0-9a-f]{2})|%u([0-9a-f]{4})|<[^<>]{0,200}>",
    re.IGNORECASE,
)
_OCTAL = 4
_NOT_BARE = re.compile("[^a-z0-9]+")


class Secret:
    """What must be in nothing that is stored or shown. A key of None: there is no secret, and every text passes."""

    def __init__(self, key: str | None) -> None:
        self._key = key
        self._pieces = frozenset(piece for form in _forms(key) for piece in _pieces(form)) if key else frozenset()

    def cleaned(self, value: Any) -> Any:
        """Parsed JSON with `without` for each of its texts and names. Raises ValueError where it is nested too deep."""
        return self._cleaned(value, _DEEPEST)

    def _cleaned(self, value: Any, levels: int) -> Any:
        if not levels:
            raise ValueError(f"it is nested deeper than {_DEEPEST} levels")
        if isinstance(value, str):
            return self.without(value)
        if isinstance(value, Mapping):
            return {self.without(name): self._cleaned(member, levels - 1) for name, member in value.items()}
        return [self._cleaned(member, levels - 1) for member in value] if isinstance(value, list) else value

    def without(self, text: str) -> str:
        """The text with the key cut out; nothing of a text that holds it in another way than plainly.

        >>> Secret("sk-12/345678").without("wrong key: sk-12/345678")
        'wrong key: [key]'
        >>> Secret("sk-12/345678").without("wrong key: sk-12%2F345678")
        '[withheld: it holds the key of the server]'
        """
        if not self._key:
            return text
        cut = text.replace(self._key, CUT)
        return WITHHELD if self.stands_in(cut) else cut

    def stands_in(self, value: Any) -> bool:
        """Whether a reader could take the key, or half of it, out of a text or out of the texts of parsed JSON.

        It may be escaped, in base64 or in hexadecimal digits, in capitals, or in pieces with other signs in between.
        """
        if not self._key:
            return False
        text = "\n".join(texts_in(value))
        for _ in range(_MOST_LEVELS):
            bare = _bare(text)
            if self._key in text or any(piece in bare for piece in self._pieces):
                return True
            plain = unicodedata.normalize("NFKC", html.unescape(_ESCAPE.sub(_unescaped, text)))
            if plain == text:
                return False
            text = plain
        # There is no telling what is in it.
        return True


def _forms(key: str) -> Iterator[str]:
    """The key, and what becomes of it in base64 at each place that it may have in a longer text, and in hexadecimal."""
    yield key
    for n_before in range(3):
        coded = base64.b64encode(b"\0" * n_before + key.encode()).decode()
        # The first and the last signs depend on what stands beside the key.
        yield coded[(0, 2, 3)[n_before] : len(coded) - (0, 3, 2)[(n_before + len(key)) % 3]]
    yield key.encode().hex()


def _pieces(form: str) -> Iterator[str]:
    """Stretches of it such that every half holds one whole: of a form that is cut in two, one piece does."""
    bare = _bare(form)
    half = max(SHORTEST_PIECE, (len(bare) + 1) // 2)
    size = max(SHORTEST_PIECE, len(bare) // 4)
    last = len(bare) - size
    return (bare[start : start + size] for start in {*range(0, last + 1, half - size + 1), last} if start >= 0)


def _bare(text: str) -> str:
    """Letters and digits alone: what stands between two pieces of a text in JSON, code or prose falls away."""
    return _NOT_BARE.sub("", text.lower())


def _unescaped(found: re.Match[str]) -> str:
    digits = found.group(found.lastindex) if found.lastindex else None
    return chr(int(digits, 8 if found.lastindex == _OCTAL else 16)) if digits else ""


# One HTTP exchange under one wall clock, from the look-up of the server's address to the last byte of its answer.

# No answer that fits a schema of ours is near it.
MOST_BYTES = 1 << 20


class Unreachable(Exception):
    """No whole answer came: no connection, silence, or an end in the middle."""


def exchange(
    stream: Callable[..., AbstractContextManager[httpx2.Response]],
    request: Mapping[str, Any],
    left_s: float,
    understood: Callable[[httpx2.Response, bytes], Result],
    most_bytes: int = MOST_BYTES,
) -> Result:
    """Send a request, and return what `understood` makes of the answer and its whole body.

    stream: method of a client that keeps no connection. request: what it takes. left_s: seconds after which this
    returns, whatever the server does and wherever the exchange stands; then the connection is closed. The time between
    two pieces of an answer is the client's to bound. most_bytes: of an answer. Raises Unreachable, and the client's
    errors.
    """
    line = _Line()

    def exchanged(_: None) -> Result:
        with stream(**request, extensions={"trace": line.follow}) as response:
            return understood(response, _body(response, most_bytes))

    try:
        # The thread of its own is left behind where the clock runs out, while the name of a host is looked up too.
        return in_threads(exchanged, [None], 1, timeout_s=left_s)[0]
    except TimeoutError:
        raise Unreachable("the answer was not whole at the deadline") from None
    finally:
        line.cut()


def _body(response: httpx2.Response, most_bytes: int) -> bytes:
    pieces, size = [], 0
    for piece in response.iter_bytes():
        pieces.append(piece)
        size += len(piece)
        if size > most_bytes:
            raise Unreachable(f"the answer is longer than {most_bytes} bytes")
    return b"".join(pieces)


class _Line:
    """The connection of an exchange, for whoever wants to cut it while another thread waits at it."""

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []
        self._is_cut = False
        self._lock = threading.Lock()

    def follow(self, event: str, info: Mapping[str, Any]) -> None:
        """Told of every step by the HTTP library: keep the connection once there is one."""
        if event.endswith("connect_tcp.complete"):
            with self._lock:
                # A twin stays the same connection when the library wraps its own in TLS.
                self._sockets.append(info["return_value"].get_extra_info("socket").dup())
                is_late = self._is_cut
            if is_late:
                self.cut()

    def cut(self) -> None:
        """Close the connection, and each that is still made; whoever reads or writes it is woken."""
        with self._lock:
            self._is_cut = True
            sockets, self._sockets = self._sockets, []
        for twin in sockets:
            # It may have been closed by either side, which is as good.
            with suppress(OSError):
                twin.shutdown(socket.SHUT_RDWR)
            twin.close()


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
    *,
    path: str = "chat/completions",
    most_bytes: int = MOST_BYTES,
) -> HttpAnswer:
    """Send one request and read its answer in so many seconds. All that the server says comes through here, cleaned.

    stream: method of a client of `open_client`. path: behind the server's address. most_bytes: of the answer. Raises
    Unreachable, and ServerUnusable without a key.
    """
    import httpx2

    key = server.key()
    secret = Secret(key)
    request = {
        "method": "POST",
        "url": f"{server.url.rstrip('/')}/{path}",
        # ASCII only: a lone surrogate in a text is then no error.
        "content": json.dumps(body, allow_nan=False).encode(),
        "headers": {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {}),
    }

    def understood(response: httpx2.Response, content: bytes) -> HttpAnswer:
        text = content.decode("utf-8", "replace")
        headers = secret.cleaned({name.lower(): value for name, value in response.headers.items()})
        return HttpAnswer(response.status_code, headers, secret.without(text), _parsed(text, secret), secret)

    try:
        return exchange(stream, request, left_s, understood, most_bytes)
    except httpx2.RequestError as error:
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise Unreachable(shown(secret.without(said))) from None


def shown(text: str, most: int = 500) -> str:
    """The beginning of a server's text, on one line and without characters that no database stores."""
    return "".join(letter if letter.isprintable() else " " for letter in text.strip()[:most]).strip()


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
