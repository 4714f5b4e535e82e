"""Send requests to model servers with the openai client: many at once, within bounds, with every attempt judged."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from http.cookiejar import CookieJar
from typing import Any, TypeVar

import anyio
import anyio.from_thread
import httpx2
import openai

from metrics_core.models.server.address import ServerUnusable
from metrics_core.models.server.answers import Exchange, hide_key
from metrics_core.models.server.endpoint import Endpoint

Item = TypeVar("Item")
Result = TypeVar("Result")
# No answer that fits one of our schemas is nearly as long.
_MAX_ANSWER_BYTES = 1 << 20
# The longest time to connect.
_CONNECT_S = 10.0
# They log headers and status lines, and a server may echo the key there.
_LOGGERS = ("openai", "httpx2", "httpcore2")
# The openai client takes the last two for errors of the transport as well.
_TRANSPORT_ERRORS = (httpx2.RequestError, ssl.SSLError, anyio.EndOfStream)


class SpendingStopped(Exception):
    """Raised in place of sending a request where the spending limit is reached."""


class _AnswerTooLong(httpx2.RequestError):
    """Raised while an answer is read that is longer than it may be."""


def ask_all(
    endpoint: Endpoint, ask: Callable[[openai.AsyncOpenAI, Item], Awaitable[Result]], items: Sequence[Item]
) -> list[Result]:
    """Call the coroutine function `ask` with a client of the endpoint's server and every item, at most
    `endpoint.most_at_once` at a time, and return the results in the order of the items. At the first error, which is
    raised, and at Ctrl-C, calls under way are cancelled, and no others begin.

    They run in an event loop of their own, in another thread, since the caller's thread may run one already. Raises
    ServerUnusable where the environment names a proxy or certificates that cannot be used.
    """

    async def ask_in_turn(client: openai.AsyncOpenAI) -> list[Result]:
        todo, asked = deque(items), list[asyncio.Future[Result]]()
        under_way = set[asyncio.Future[Result]]()
        try:
            while todo or under_way:
                # Their number may change with every answer.
                while todo and len(under_way) < endpoint.most_at_once:
                    asked.append(asyncio.ensure_future(ask(client, todo.popleft())))
                    under_way.add(asked[-1])
                done, under_way = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
                for one in done:
                    one.result()
        finally:
            for one in under_way:
                one.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)
        return [one.result() for one in asked]

    async def run() -> list[Result]:
        for name in _LOGGERS:
            logging.getLogger(name).setLevel(logging.WARNING)
        async with openai.AsyncOpenAI(
            # Never its own environment variables: the key of another server would be sent. `_Client` adds the key.
            api_key="none",
            base_url=endpoint.server.url,
            max_retries=endpoint.transport_retries,
            timeout=httpx2.Timeout(endpoint.timeout_s, connect=_CONNECT_S),
            http_client=_make_client(endpoint),
        ) as client:
            return await ask_in_turn(client)

    with anyio.from_thread.start_blocking_portal() as portal:
        return portal.call(run)


async def post(
    client: openai.AsyncOpenAI,
    endpoint: Endpoint,
    path: str,
    body: Mapping[str, Any],
    deadline: float,
    judge: Callable[[Exchange], bool],
    max_bytes: int = _MAX_ANSWER_BYTES,
) -> None:
    """Send a request with a JSON body to `path` under the server's address, and again after failures that may pass.
    client: from `ask_all`. judge: takes each attempt as it ends, and returns whether to try again. deadline: a time of
    `time.monotonic` for all attempts. An answer longer than `max_bytes` counts as none.

    The openai client decides how long to wait and when to give up; an attempt without an answer is always tried again.
    Reads the key from the environment. Raises ServerUnusable where it is missing, and SpendingStopped.
    """
    call = _Call(endpoint, judge, max_bytes, endpoint.server.read_key())
    _CALL.set(call)
    # ASCII only: a lone surrogate in a text is then no error.
    content = json.dumps(body, allow_nan=False).encode()
    sent = client.post(path, content=content, cast_to=httpx2.Response)
    try:
        # What the library raises has been judged already.
        with suppress(openai.APIError):
            await asyncio.wait_for(sent, deadline - time.monotonic())
    except asyncio.TimeoutError:
        if call.connection is not None:
            # The library leaves it open where it is stopped during a handshake.
            await call.connection.aclose()
        if call.began is not None:
            call.note_failure("the server's answer was not complete at the deadline")


@dataclass(slots=True)
class _Call:
    """A call of `post`. began: when the attempt under way began; None between two. connection: of the last attempt."""

    endpoint: Endpoint
    judge: Callable[[Exchange], bool]
    max_bytes: int
    key: str | None
    began: float | None = field(default_factory=time.monotonic)
    connection: Any = None

    async def keep_connection(self, event: str, info: Mapping[str, Any]) -> None:
        """Keep the connection once it is made. The HTTP library calls this at every step."""
        if event.endswith("connect_tcp.complete"):
            self.connection = info["return_value"]

    def note_failure(self, error: str) -> None:
        """Have the attempt under way judged, which got no whole answer."""
        self.note(None, error=f"no answer ({error})")

    def note(self, status: int | None, **answer: Any) -> bool:
        """Have the attempt under way judged; returns whether to try again."""
        seconds, self.began = time.monotonic() - (self.began or 0.0), None
        return self.judge(Exchange(status, key=self.key, seconds=seconds, **answer))


# The call of the task that sends: the library hands nothing of ours on to its HTTP client.
_CALL: ContextVar[_Call] = ContextVar("call")


class _Client(httpx2.AsyncClient):
    """The HTTP client below the library. It follows no redirect, which could carry the key elsewhere, and keeps no
    cookie and no connection.
    """

    def __init__(self, *, is_local: bool) -> None:
        super().__init__(
            verify=_make_ssl_context(),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0),
            cookies=_NoCookies(),
            # A proxy from the environment would be used even for a server on this machine.
            trust_env=not is_local,
        )

    async def send(self, request: httpx2.Request, **_: Any) -> httpx2.Response:
        """Send one attempt, have it judged, and return what the library needs to know of its answer: the status,
        whether to try again, and after how long.
        """
        call = _CALL.get()
        if call.endpoint.stop_reason:
            raise SpendingStopped
        # Made anew: the library would also send what this machine runs, and headers that its own environment variables
        # name.
        request = self.build_request(
            request.method,
            request.url,
            content=request.content,
            headers={"accept": "application/json", "content-type": "application/json"},
            extensions={**request.extensions, "trace": call.keep_connection},
        )
        if call.key:
            request.headers["authorization"] = f"Bearer {call.key}"
        call.began = time.monotonic()
        try:
            response = await super().send(request, stream=True)
            content = await _read_body(response, call.max_bytes)
        except _TRANSPORT_ERRORS as error:
            # Other errors may quote text that the server sent.
            is_quoted = isinstance(error, httpx2.ConnectError | _AnswerTooLong)
            call.note_failure(f"{type(error).__name__.strip('_')}: {error}" if is_quoted else type(error).__name__)
            raise
        is_again = call.note(response.status_code, body=_parse_body(content, call.key), n_bytes=len(content))
        wait = response.headers.get("retry-after", "")
        headers = {"x-should-retry": "true" if is_again else "false"}
        # No other time could be sent on as a header, which is ASCII.
        headers |= {"retry-after": wait} if wait and wait.isascii() else {}
        return httpx2.Response(response.status_code, headers=headers, request=request)


def _make_client(endpoint: Endpoint) -> _Client:
    try:
        return _Client(is_local=endpoint.server.is_local)
    except (ImportError, ValueError, OSError):
        # Not quoted: the address of a proxy may hold its password.
        raise ServerUnusable(
            f"{endpoint.server.url} was not asked: the environment names a proxy other than an http proxy, or "
            "certificates that cannot be read: change or unset ALL_PROXY, HTTPS_PROXY, HTTP_PROXY and SSL_CERT_FILE"
        ) from None


async def _read_body(response: httpx2.Response, max_bytes: int) -> bytes:
    content = bytearray()
    try:
        async for piece in response.aiter_bytes():
            content += piece
            if len(content) > max_bytes:
                raise _AnswerTooLong(f"more than {max_bytes} bytes")
    finally:
        await response.aclose()
    return bytes(content)


class _NoCookies(CookieJar):
    """A cookie jar that reads no cookie: none is wanted, and reading prints a traceback for a bad one."""

    def extract_cookies(self, response: object, request: object) -> None:
        """Do nothing."""


@lru_cache(maxsize=1)
def _make_ssl_context() -> ssl.SSLContext:
    """Return the context of all connections: reading the certificates takes longer than the rest of a client."""
    return httpx2.create_ssl_context()


def _parse_body(content: bytes, key: str | None) -> Any:
    try:
        return hide_key(json.loads(content.decode("utf-8", "replace")), key)
    except (ValueError, RecursionError):
        return None
