"""Send one HTTP request under one time limit, from looking up the server's address to the last byte of its answer."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from metrics_core.models.server.threads import run_in_threads

if TYPE_CHECKING:
    import httpx2

Result = TypeVar("Result")
# No answer that fits one of our schemas is nearly as long.
MAX_ANSWER_BYTES = 1 << 20


class ServerUnreachable(Exception):
    """Raised when no whole answer came: no connection, silence, an end in the middle, or an answer that is too long."""


def send_request(
    stream: Callable[..., AbstractContextManager[httpx2.Response]],
    request: Mapping[str, Any],
    timeout_s: float,
    read: Callable[[httpx2.Response, bytes], Result],
    max_bytes: int = MAX_ANSWER_BYTES,
) -> Result:
    """Send a request, and return the result of `read` for the response and its whole body. stream: method of a client
    that keeps no connection. request: the arguments of `stream`. Raises ServerUnreachable where the body is not whole
    after `timeout_s` seconds or longer than `max_bytes`, and the client's own errors.

    When time runs out, this returns in every state of server and exchange, and the connection is closed. The client
    limits the time between two pieces of an answer.
    """
    connection = _Connection()

    def send(_: None) -> Result:
        with stream(**request, extensions={"trace": connection.keep_socket}) as response:
            return read(response, _read_body(response, max_bytes))

    try:
        # When time runs out its thread is left behind, even while the name of a host is looked up.
        return run_in_threads(send, [None], 1, timeout_s=timeout_s)[0]
    except TimeoutError:
        raise ServerUnreachable("the server's answer was not complete at the deadline") from None
    finally:
        connection.close()


def _read_body(response: httpx2.Response, max_bytes: int) -> bytes:
    pieces, size = [], 0
    for piece in response.iter_bytes():
        pieces.append(piece)
        size += len(piece)
        if size > max_bytes:
            raise ServerUnreachable(f"the answer is longer than {max_bytes} bytes")
    return b"".join(pieces)


class _Connection:
    """The connection of an exchange, which another thread can close while one waits for it."""

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []
        self._is_closed = False
        self._lock = threading.Lock()

    def keep_socket(self, event: str, info: Mapping[str, Any]) -> None:
        """Keep the connection's socket once it is made. The HTTP library calls this at every step."""
        if event.endswith("connect_tcp.complete"):
            with self._lock:
                # A duplicate stays the same connection when the library wraps its own socket in TLS.
                self._sockets.append(info["return_value"].get_extra_info("socket").dup())
                is_late = self._is_closed
            if is_late:
                self.close()

    def close(self) -> None:
        """Close the connection, and any that is made later. A thread that reads or writes it wakes up."""
        with self._lock:
            self._is_closed = True
            sockets, self._sockets = self._sockets, []
        for duplicate in sockets:
            # Either side may have closed it, which is as good.
            with suppress(OSError):
                duplicate.shutdown(socket.SHUT_RDWR)
            duplicate.close()
