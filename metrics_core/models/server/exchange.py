"""One HTTP exchange under one wall clock, from the look-up of the server's address to the last byte of its answer."""

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
# No answer that fits a schema of ours comes near it.
MAX_ANSWER_BYTES = 1 << 20


class ServerUnreachable(Exception):
    """No whole answer came: no connection, silence, or an end in the middle."""


def send_request(
    stream: Callable[..., AbstractContextManager[httpx2.Response]],
    request: Mapping[str, Any],
    timeout_s: float,
    read: Callable[[httpx2.Response, bytes], Result],
    max_bytes: int = MAX_ANSWER_BYTES,
) -> Result:
    """Send a request, and return what `read` makes of the answer and its whole body.

    stream: method of a client that keeps no connection. request: the arguments of `stream`. left_s: seconds after which
    this returns, whatever the server does and wherever the exchange is; then the connection is closed. The time between
    two pieces of an answer is the client's to bound. most_bytes: of an answer. Raises Unreachable, and the client's
    errors.
    """
    line = _Connection()

    def send(_: None) -> Result:
        with stream(**request, extensions={"trace": line.keep_socket}) as response:
            return read(response, _read_body(response, max_bytes))

    try:
        # A thread of its own is left behind where the clock runs out, even while the name of a host is looked up.
        return run_in_threads(send, [None], 1, timeout_s=timeout_s)[0]
    except TimeoutError:
        raise ServerUnreachable("the answer was not whole at the deadline") from None
    finally:
        line.close()


def _read_body(response: httpx2.Response, max_bytes: int) -> bytes:
    pieces, size = [], 0
    for piece in response.iter_bytes():
        pieces.append(piece)
        size += len(piece)
        if size > max_bytes:
            raise ServerUnreachable(f"the answer is longer than {max_bytes} bytes")
    return b"".join(pieces)


class _Connection:
    """The connection of an exchange, which another thread can cut while one waits at it."""

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []
        self._is_cut = False
        self._lock = threading.Lock()

    def keep_socket(self, event: str, info: Mapping[str, Any]) -> None:
        """Keep the connection once there is one. The HTTP library calls this at every step."""
        if event.endswith("connect_tcp.complete"):
            with self._lock:
                # A twin stays the same connection when the library wraps its own in TLS.
                self._sockets.append(info["return_value"].get_extra_info("socket").dup())
                is_late = self._is_cut
            if is_late:
                self.close()

    def close(self) -> None:
        """Close the connection, and those still to be made. A thread that reads or writes it wakes up."""
        with self._lock:
            self._is_cut = True
            sockets, self._sockets = self._sockets, []
        for twin in sockets:
            # It may have been closed by either side, which is as good.
            with suppress(OSError):
                twin.shutdown(socket.SHUT_RDWR)
            twin.close()
