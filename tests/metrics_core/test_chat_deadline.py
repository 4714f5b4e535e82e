"""The deadline of a request holds wherever its server dawdles, and the connection is closed then."""

from __future__ import annotations

import gzip
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest

from metrics_core.models.chat.protocol import ChatReply
from tests.conftest import PROJECT
from tests.metrics_core.chat_fakes import MemoryLedger, ask, model_at, no_waits
from tests.metrics_core.raw_server import WHOLE_TEST_S, Behaviour, Line, chunked, head, raw_server

DEADLINE_S = 0.3
# The deadline, and what a busy machine may add to it.
BOUND_S = 10.0
EMPTY_BLOCK = b"\0\0\0\xff\xff"
# A record of TLS that is to hold 16 KiB of the server's part of the handshake.
HANDSHAKE = b"\x16\x03\x03\x40\x00"


def reply_within_bound(url: str, question: str = "Who runs?", **changes: Any) -> ChatReply:
    """The reply of the server at this address, whose time is real."""
    began = time.monotonic()
    (reply,) = model_at(url, **{"deadline_s": DEADLINE_S, **changes}).chat([ask(question)])
    assert time.monotonic() - began < BOUND_S
    return reply


def slow_status_line(line: Line) -> None:
    line.request()
    line.send(b"HTTP/1.1 200 ")
    line.drip([b"O"])


def slow_header_lines(line: Line) -> None:
    line.request()
    line.send(head())
    line.drip([b"x-one: 1\r\n"])


def endless_early_hints(line: Line) -> None:
    line.request()
    line.drip([head("103 Early Hints", "link: </style.css>; rel=preload") + b"\r\n"])


def endless_chunk_extension(line: Line) -> None:
    line.request()
    line.send(chunked() + b"5")
    line.drip([b";", b"a", b"=", b"b"])


def empty_gzip_blocks(line: Line) -> None:
    line.request()
    line.send(chunked("content-encoding: gzip") + b"a\r\n" + gzip.compress(b"")[:10] + b"\r\n")
    line.drip([b"5\r\n" + EMPTY_BLOCK + b"\r\n"])


def slow_body(line: Line) -> None:
    line.request()
    line.send(head("200 OK", "content-length: 100000") + b"\r\n")
    line.drip([b" "])


def slow_trailers(line: Line) -> None:
    line.request()
    line.send(chunked() + b"2\r\n{}\r\n0\r\n")
    line.drip([b"x-one: 1\r\n"])


def slow_error(line: Line) -> None:
    line.request()
    line.send(head("503 Later") + b"\r\n")
    line.drip([b"wait "])


def slow_handshake(line: Line) -> None:
    line.send(HANDSHAKE)
    line.drip([b"\2"])


def silent(line: Line) -> None:
    line.request()
    line.wait()


DAWDLING = [
    slow_status_line,
    slow_header_lines,
    endless_early_hints,
    endless_chunk_extension,
    empty_gzip_blocks,
    slow_body,
    slow_trailers,
    slow_error,
    silent,
]


@pytest.mark.parametrize("behave", DAWDLING, ids=lambda behave: behave.__name__)
def test_the_deadline_holds_and_closes_the_connection(behave: Behaviour) -> None:
    ledger = MemoryLedger()
    with raw_server(behave) as server:
        reply = reply_within_bound(server.url(), ledger=ledger)
        assert all(line.gone.wait(BOUND_S) for line in server.lines)
        assert len(server.lines) == 1
    assert reply.status == "error"
    assert "not complete at the deadline" in str(reply.reason)
    assert ledger.outcomes == ["unreachable"]


def test_it_holds_while_tls_is_agreed_on() -> None:
    with raw_server(slow_handshake) as server:
        reply = reply_within_bound(server.url("https"))
        assert all(line.gone.wait(BOUND_S) for line in server.lines)
    assert reply.status == "error"
    assert "deadline" in str(reply.reason)


def test_it_holds_while_nobody_reads_the_request() -> None:
    def deaf(line: Line) -> None:
        server.over.wait(BOUND_S)

    with raw_server(deaf) as server:
        reply = reply_within_bound(server.url(), "Who? " * 4_000_000)
        assert "deadline" in str(reply.reason)


@contextmanager
def full_house() -> Generator[str, None, None]:
    """The address of a server whose queue of connections is full, so that it answers no new one."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listening, socket.socket() as first:
        first.connect(listening.getsockname())
        with socket.socket() as second:
            second.setblocking(False)
            second.connect_ex(listening.getsockname())
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"


def test_it_holds_while_nobody_accepts_the_connection() -> None:
    with full_house() as url:
        assert "deadline" in str(reply_within_bound(url).reason)


def test_several_dawdlers_at_once_take_no_longer() -> None:
    with raw_server(endless_early_hints) as server:
        model = model_at(server.url(), deadline_s=DEADLINE_S, concurrency=4)
        began = time.monotonic()
        replies = model.chat([ask(str(number)) for number in range(20)])
        assert time.monotonic() - began < BOUND_S
        assert all(line.gone.wait(BOUND_S) for line in server.lines)
    assert {reply.status for reply in replies} == {"error"}
    assert "got no answer" in str(replies[-1].reason)


def test_a_deadline_without_end_is_none() -> None:
    with raw_server(lambda line: (line.request(), line.reset())[1]) as server, no_waits():
        reply = reply_within_bound(server.url(), deadline_s=float("inf"))
    assert reply.status == "error"


def test_an_interrupt_ends_the_process_while_servers_dawdle() -> None:
    program = (
        # A shell that starts the tests in the background lets its children ignore SIGINT.
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from tests.metrics_core.chat_fakes import ask, model_at; "
        "model_at(sys.argv[1], concurrency=8).chat([ask(str(number)) for number in range(9)])"
    )
    with raw_server(endless_early_hints) as server:
        process = subprocess.Popen([sys.executable, "-c", program, server.url()], cwd=PROJECT, stderr=subprocess.PIPE)
        assert server.has_lines(8, WHOLE_TEST_S)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=WHOLE_TEST_S)
        assert process.returncode == -signal.SIGINT
        assert said.rstrip().endswith(b"KeyboardInterrupt")
        assert all(line.gone.wait(BOUND_S) for line in server.lines)
