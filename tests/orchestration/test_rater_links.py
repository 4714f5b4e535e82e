"""Raters who rate by a link on a phone, behind a proxy that has another name: the proxy and a browser are real."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import sqlalchemy as sa

uvicorn = pytest.importorskip("uvicorn", reason="the extra `ui` is not installed")
from db.schema import rating  # noqa: E402  # after the skip, like those below
from orchestration.look.app import make_look_app  # noqa: E402
from orchestration.web.access import AccessGuard, PageKeys, RaterLink, format_sitting  # noqa: E402
from orchestration.web.guard import PublicAddress, RequestGuard  # noqa: E402
from tests.browser import lent, only_page  # noqa: E402
from tests.orchestration.looking import TOO_WIDE, WINDOWS, Shown, shown  # noqa: E402

__all__ = ["shown"]
pytestmark = pytest.mark.browser
KEYS = PageKeys(b"of the test")
# What a proxy passes on and back as it is.
_OWN = {"connection", "transfer-encoding", "content-length", "keep-alive"}


class _Proxy(BaseHTTPRequestHandler):
    """Passes requests on to a port with the browser's header Host, and with headers that say who asked."""

    protocol_version = "HTTP/1.1"
    port = 0

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        said = {name: value for name, value in self.headers.items() if name.lower() not in _OWN}
        connection.request(self.command, self.path, body, {**said, "X-Forwarded-For": "203.0.113.9"})
        answer = connection.getresponse()
        content = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in _OWN:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        connection.close()

    do_GET = do_POST = _pass_on  # names of http.server

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@contextmanager
def proxied(shown: Shown) -> Iterator[str]:
    """The address at which a proxy serves the guarded pages, until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        proxy = ThreadingHTTPServer(("127.0.0.1", 0), type("Proxy", (_Proxy,), {"port": port}))
        # Browsers look for this name on their own machine.
        public = PublicAddress(f"http://rate.localhost:{proxy.server_port}")
        look = make_look_app(shown.engine, dict, has_lineage=False)
        app = RequestGuard(AccessGuard(look, KEYS, public), port, public)
        server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_level="warning", proxy_headers=False))
        threads = [
            threading.Thread(target=server.run, args=([listener],)),
            threading.Thread(target=proxy.serve_forever, args=(0.05,)),
        ]
        for thread in threads:
            thread.start()
        try:
            assert public.url is not None
            yield public.url
        finally:
            proxy.shutdown()
            proxy.server_close()
            server.should_exit = True
            for thread in threads:
                thread.join()


@pytest.fixture
def address(shown: Shown) -> Generator[str, None, None]:
    with proxied(shown) as url:
        yield url


def test_a_rater_answers_by_a_link_on_a_phone_behind_a_proxy(shown: Shown, address: str) -> None:
    sitting = format_sitting({"rater": "rater-1", "aspect": "linked", "scale": "1-5", "seed": "0"})
    token = KEYS.sign(RaterLink("clips", "rate", sitting, int(time.time()) + 600))
    stored = sa.select(rating.c.rater, rating.c.value).where(rating.c.aspect == "linked")
    with only_page() as page, lent(page, *WINDOWS["phone"]) as (asked, errors):
        assert page.goto(f"{address}/look/clips/rate?{sitting}").status == 403  # type: ignore[union-attr]  # it answers
        page.goto(f"{address}/look/clips/rate?{sitting}&token={token}")
        assert "token" not in page.url
        assert page.locator("header a, details.progress").count() == 0
        assert page.evaluate(TOO_WIDE) == []
        seen = 0
        for n in (1, 2, 3):
            page.keyboard.press("4")
            page.get_by_text(f"rater-1: {n} of").wait_for()
            if page.locator("video").count():
                page.wait_for_function(
                    "document.querySelector('video')?.readyState >= 2 || !document.querySelector('video')"
                )
                seen += page.locator("video").count()
        with shown.engine.connect() as connection:
            assert [tuple(row) for row in connection.execute(stored)] == [("rater-1", 4.0)] * 3
        page.keyboard.press("u")
        page.get_by_text("rater-1: 2 of").wait_for()
        with shown.engine.connect() as connection:
            assert len(connection.execute(stored).all()) == 2
        assert seen, "no question had a video that plays"
        for path in ("/look", "/look/clips", f"/look/clips/rate?{sitting.replace('rater-1', 'rater-2')}"):
            answer = page.goto(f"{address}{path}")
            assert answer is not None
            assert (answer.status, answer.text()) == (
                403,
                "this page needs the link that you were sent: open that link again\n",
            )
        assert {url for url in asked if not url.startswith(address)} == set()
        assert errors == []
