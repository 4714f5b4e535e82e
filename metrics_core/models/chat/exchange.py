"""One HTTP exchange under one wall clock, from the look-up of the server's address to the last byte of its answer."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from metrics_core.models.chat.workers import in_threads

if TYPE_CHECKING:
    import httpx2

# No answer that fits a schema of ours is near it.
MOST_BYTES = 1 << 20
Result = TypeVar("Result")


class Unreachable(Exception):
    """No whole answer came: no connection, silence, or an end in the middle."""


def exchange(
    stream: Callable[..., AbstractContextManager[httpx2.Response]],
    request: Mapping[str, Any],
    left_s: float,
    understood: Callable[[httpx2.Response, bytes], Result],
) -> Result:
    """Send a request, and return what `understood` makes of the answer and its whole body.

    stream: method of a client that keeps no connection. request: what it takes. left_s: seconds after which this
    returns, whatever the server does and wherever the exchange stands; then the connection is closed. The time between
    two pieces of an answer is the client's to bound. Raises Unreachable, and the client's errors.
    """
    line = _Line()

    def exchanged(_: None) -> Result:
        with stream(**request, extensions={"trace": line.follow}) as response:
            return understood(response, _body(response))

    try:
        # The thread of its own is left behind where the clock runs out, while the name of a host is looked up too.
        return in_threads(exchanged, [None], 1, timeout_s=left_s)[0]
    except TimeoutError:
        raise Unreachable("the answer was not whole at the deadline") from None
    finally:
        line.cut()


def _body(response: httpx2.Response) -> bytes:
    pieces, size = [], 0
    for piece in response.iter_bytes():
        pieces.append(piece)
        size += len(piece)
        if size > MOST_BYTES:
            raise Unreachable(f"the answer is longer than {MOST_BYTES} bytes")
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
