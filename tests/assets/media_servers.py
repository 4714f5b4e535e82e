"""Servers on loopback that give video files: moto's S3 server, and a plain web server whose answers a test writes."""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from assets.media import remote

LOOPBACK = '["127.0.0.0/8"]'
BUCKET = "clips"


@contextmanager
def object_store(folder: Path) -> Generator[Any, None, None]:
    """An S3 server with one empty bucket; this process's environment leads to it and keeps copies in `folder`.

    Gives boto3's client of the server, through which a test changes objects.
    """
    boto3 = pytest.importorskip("boto3", reason="moto is not installed")
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    variables = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "of-the-environment",
        "AWS_SECRET_ACCESS_KEY": "never-stored",
        "AWS_DEFAULT_REGION": "us-east-1",
        "REELSIEVE_MEDIA_PRIVATE_NETWORKS": LOOPBACK,
        "REELSIEVE_MEDIA_CACHE": str(folder),
    }
    # This process may have a client of another test's server, which is gone.
    remote._file_system.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        client = boto3.client("s3")
        client.create_bucket(Bucket=BUCKET)
        try:
            yield client
        finally:
            server.stop()


@dataclass(frozen=True)
class Page:
    """An answer: its body, status and headers. `announced` is the length that its header states."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    announced: int | None = None


@dataclass
class WebServer:
    """Pages by path, and the requests that came, as `METHOD PATH`."""

    url: str
    pages: dict[str, Page] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)


@contextmanager
def web_server() -> Generator[WebServer, None, None]:
    """A web server on 127.0.0.1."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            served.asked.append(f"{self.command} {self.path}")
            page = served.pages.get(self.path, Page(status=404))
            self.send_response(page.status)
            for name, value in page.headers.items():
                self.send_header(name, value)
            length = len(page.body) if page.announced is None else page.announced
            self.send_header("Content-Length", str(length))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(page.body)
            self.close_connection = length != len(page.body)

        do_HEAD = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: the tests ask `asked`."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    served = WebServer(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
