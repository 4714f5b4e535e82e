"""A TCP server on 127.0.0.1 that sends what a test tells it, byte by byte if need be, and sees when its client goes."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

# Longer than any test lasts: what ends such a wait is the client.
WHOLE_TEST_S = 60.0


class Line:
    """A connection from the server's side. gone: set once the client has closed it."""

    def __init__(self, connection: socket.socket, over: threading.Event) -> None:
        self.gone = threading.Event()
        self._connection = connection
        self._over = over
        connection.settimeout(WHOLE_TEST_S)

    def request(self) -> bytes:
        """Read one request with its body. Raises ConnectionError where the client goes in the middle."""
        read = b""
        while b"\r\n\r\n" not in read:
            read += self._read()
        head, _, body = read.partition(b"\r\n\r\n")
        sizes = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        pieces, left = [read], int(sizes[0]) - len(body) if sizes else 0
        while left > 0:
            pieces.append(self._read())
            left -= len(pieces[-1])
        return b"".join(pieces)

    def body(self) -> Any:
        """Read one request and parse the JSON of its body."""
        return json.loads(self.request().partition(b"\r\n\r\n")[2])

    def send(self, content: bytes) -> None:
        """Send it at once."""
        self._connection.sendall(content)

    def drip(self, pieces: Iterable[bytes], every_s: float = 0.01) -> None:
        """Send a piece every so many seconds, over and over, until the client or the test ends."""
        for piece in cycle(pieces):
            self._connection.sendall(piece)
            if self._over.wait(every_s):
                return

    def wait(self) -> None:
        """Do nothing until the client or the test ends."""
        self._connection.settimeout(0.01)
        while not self._over.is_set():
            with suppress(TimeoutError):
                if not self._connection.recv(1 << 16):
                    return

    def _read(self) -> bytes:
        piece = self._connection.recv(1 << 16)
        if not piece:
            raise ConnectionAbortedError("the client is gone")
        return piece

    def reset(self) -> None:
        """End the connection at once, with an RST."""
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._connection.close()


Behaviour = Callable[[Line], None]
"""What the server does with a connection, from its first byte; then it is closed."""


@dataclass
class RawServer:
    """port: where it listens. lines: its connections so far. over: set at the end of the test. changed: when there
    is another connection."""

    port: int
    lines: list[Line] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def has_lines(self, n: int, within_s: float) -> bool:
        """Wait until so many connections have been made; whether they were in time."""
        with self.changed:
            return self.changed.wait_for(lambda: len(self.lines) >= n, within_s)

    def url(self, scheme: str = "http") -> str:
        """Its address, as a chat model takes it."""
        return f"{scheme}://127.0.0.1:{self.port}/v1"


@contextmanager
def raw_server(behave: Behaviour) -> Generator[RawServer, None, None]:
    """Run a server that behaves so with every connection, until the end of the block."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listening:
        server = RawServer(listening.getsockname()[1])

        def serve(connection: socket.socket, line: Line) -> None:
            with connection:
                # Whatever the client does to the connection is its right.
                with suppress(OSError):
                    behave(line)
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_WR)
                    line.wait()
            line.gone.set()

        def accept() -> None:
            # Ends when the socket is closed.
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    line = Line(connection, server.over)
                    with server.changed:
                        server.lines.append(line)
                        server.changed.notify_all()
                    threading.Thread(target=serve, args=(connection, line), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield server
        finally:
            server.over.set()
            listening.shutdown(socket.SHUT_RDWR)


def head(status: str = "200 OK", *headers: str) -> bytes:
    """A status line and header lines, without the empty line behind them."""
    return "".join(f"{line}\r\n" for line in (f"HTTP/1.1 {status}", *headers)).encode("utf-8", "surrogateescape")


def chunked(*headers: str) -> bytes:
    """The whole head of an answer that comes in chunks."""
    return head("200 OK", "content-type: application/json", "transfer-encoding: chunked", *headers) + b"\r\n"
