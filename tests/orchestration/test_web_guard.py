"""The guard of the web interface, on a real server before an application that tells what reached it."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Generator
from http.client import HTTPConnection, HTTPResponse
from typing import Any, NamedTuple

import pytest

uvicorn = pytest.importorskip("uvicorn", reason="the extra `ui` is not installed")
from orchestration.web.guard import NO_PROXY, PublicAddress, RequestGuard  # noqa: E402  # imports what the extra brings

JSON = {"Content-Type": "application/json"}
HANDSHAKE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
}
FOREIGN_HOSTS = [
    "evil.example",
    "evil.example:{port}",
    "127.0.0.1.evil.example:{port}",
    "evil.example@127.0.0.1:{port}",
    "127.0.0.1",
    "localhost",
    "127.0.0.1:1",
    "0.0.0.0:{port}",
    "",
]
FOREIGN_ORIGINS = [
    "http://evil.example",
    "http://evil.example:{port}",
    "http://127.0.0.1.evil.example:{port}",
    "http://127.0.0.1:1",
    "http://localhost",
    "https://127.0.0.1:{port}",
    "null",
    "",
]


class Served(NamedTuple):
    """A guarded server and what it let through, as (method or "websocket", path)."""

    port: int
    reached: list[tuple[str, str]]

    def ask(self, method: str, path: str, headers: dict[str, str]) -> HTTPResponse:
        """The answer to a request with these headers and no others; {port} in them is the server's."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in {"Host": "127.0.0.1:{port}", **headers}.items():
            connection.putheader(name, value.format(port=self.port))
        connection.endheaders()
        answer = connection.getresponse()
        connection.close()
        return answer


@pytest.fixture(scope="module")
def guarded() -> Generator[Served, None, None]:
    """A server on a free port of loopback."""
    reached: list[tuple[str, str]] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        reached.append((scope.get("method", scope["type"]), scope["path"]))
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
        else:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"reached"})

    # A connection waits in the queue of the socket until the server is there to take it.
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        server = uvicorn.Server(uvicorn.Config(RequestGuard(application, port), lifespan="off", log_level="warning"))
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        yield Served(port, reached)
        server.should_exit = True
        thread.join()


@pytest.fixture
def served(guarded: Served) -> Served:
    """That server with nothing reached yet."""
    guarded.reached.clear()
    return guarded


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("GET", "/", {}),
        ("HEAD", "/", {}),
        ("GET", "/runs", {"Host": "LocalHost:{port}"}),
        ("GET", "/logs/run/compute_logs/step/out", {}),
        ("GET", "/", {"Origin": "http://127.0.0.1:{port}"}),
        ("POST", "/graphql", JSON),
        ("POST", "/graphql", {"Content-Type": "Application/JSON; charset=utf-8", "Origin": "http://localhost:{port}"}),
        ("GET", "/graphql", {"Accept": "text/html,application/xhtml+xml,*/*"}),
    ],
)
def test_what_our_own_pages_and_programs_send_passes(
    served: Served, method: str, path: str, headers: dict[str, str]
) -> None:
    answer = served.ask(method, path, headers)
    assert answer.status == 200
    assert served.reached == [(method, path)]
    assert answer.getheader("X-Frame-Options") == "SAMEORIGIN"


@pytest.mark.parametrize(
    "path",
    ["/logs/..%2f", "/logs/a", "/logs/", "/logs//a/out", "/logs/a/..%2f..%2fsecret/out", "/logs/%00/out", "/a/../b"],
)
def test_a_path_that_names_nothing_is_not_looked_up(served: Served, path: str) -> None:
    """Dagster answers status 500 to them."""
    assert served.ask("GET", path, {}).status == 404
    assert served.reached == []


@pytest.mark.parametrize("host", FOREIGN_HOSTS)
@pytest.mark.parametrize(("method", "headers"), [("GET", {}), ("POST", JSON)])
def test_another_host_name_is_refused(served: Served, method: str, headers: dict[str, str], host: str) -> None:
    assert served.ask(method, "/graphql", {"Accept": "text/html", **headers, "Host": host}).status == 421
    assert served.reached == []


@pytest.mark.parametrize("origin", FOREIGN_ORIGINS)
@pytest.mark.parametrize(("method", "path", "headers"), [("GET", "/", {}), ("POST", "/graphql", JSON)])
def test_another_origin_is_refused(
    served: Served, method: str, path: str, headers: dict[str, str], origin: str
) -> None:
    assert served.ask(method, path, {**headers, "Origin": origin}).status == 403
    assert served.reached == []


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/graphql?query=mutation", {}, 405),
        ("GET", "/graphql?query=mutation", {"Accept": "application/json"}, 405),
        ("GET", "/%67raphql?query=mutation", {}, 405),
        ("HEAD", "/graphql?query=mutation", {}, 405),
        ("POST", "/graphql?query=mutation", {}, 415),
        ("POST", "/graphql", {"Content-Type": "text/plain"}, 415),
        ("POST", "/graphql", {"Content-Type": "text/plain; application/json"}, 415),
        ("POST", "/graphql", {"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ("POST", "/graphql", {"Content-Type": "application/graphql"}, 415),
        ("POST", "/report_asset_materialization/vcs_score", {}, 415),
        ("OPTIONS", "/graphql", {}, 415),
    ],
)
def test_what_any_link_or_form_can_send_changes_nothing(
    served: Served, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    assert served.ask(method, path, headers).status == status
    assert served.reached == []


@pytest.mark.parametrize("headers", [{}, {"Origin": "http://127.0.0.1:{port}"}])
def test_our_own_web_socket_passes(served: Served, headers: dict[str, str]) -> None:
    assert served.ask("GET", "/graphql", {**HANDSHAKE, **headers}).status == 101
    assert served.reached == [("websocket", "/graphql")]


@pytest.mark.parametrize(
    "headers", [*({"Host": host} for host in FOREIGN_HOSTS), *({"Origin": origin} for origin in FOREIGN_ORIGINS)]
)
def test_a_foreign_web_socket_is_refused(served: Served, headers: dict[str, str]) -> None:
    assert served.ask("GET", "/graphql", {**HANDSHAKE, **headers}).status == 403
    assert served.reached == []


@pytest.mark.parametrize(
    ("port", "headers", "status"),
    [
        (80, {"host": "localhost"}, 200),
        (80, {"host": "127.0.0.1:80"}, 200),
        (80, {"host": "localhost:3000"}, 421),
        (80, {"host": "evil.example"}, 421),
        (3001, {"host": "rate.lab.example"}, 200),
        (3001, {"host": "RATE.lab.example", "origin": "https://rate.lab.example"}, 200),
        (3001, {"host": "rater:8080", "origin": "https://rate.lab.example"}, 200),
        (3001, {"host": "127.0.0.1:3001", "origin": "http://127.0.0.1:3001"}, 200),
        (3001, {"host": "rate.lab.example:3001"}, 421),
        (3001, {"host": "rate.lab.example.evil.example"}, 421),
        (3001, {"host": "evil.example", "x-forwarded-host": "rate.lab.example"}, 421),
        (3001, {"host": "evil.example", "forwarded": "host=rate.lab.example"}, 421),
        (3001, {"host": "rate.lab.example", "origin": "http://rate.lab.example"}, 403),
        (3001, {"host": "rate.lab.example", "origin": "https://evil.example"}, 403),
    ],
)
def test_a_proxy_has_names_and_browsers_leave_out_port_80(port: int, headers: dict[str, str], status: int) -> None:
    sent: list[Any] = []

    async def application(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def keep(message: Any) -> None:
        sent.append(message)

    public = PublicAddress("https://rate.lab.example", ("rater:8080",)) if port == 3001 else NO_PROXY
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "GET", "path": "/", "headers": encoded}
    asyncio.run(RequestGuard(application, port, public)(scope, None, keep))  # type: ignore[arg-type]  # nothing is received
    assert sent[0]["status"] == status
