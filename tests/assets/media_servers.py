"""Servers on loopback that give video files: moto's of S3, gcp-storage-emulator's of Google's storage, a web server.

What the web server answers, a test writes.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal, Protocol
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest

from assets.media import store

LOOPBACK = '["127.0.0.0/8"]'
BUCKET = "clips"


class Bucket(Protocol):
    """The bucket `clips` of a store, as its owner changes it. `scheme` begins the addresses of its objects."""

    scheme: str

    def put(self, key: str, body: bytes) -> None: ...

    def get(self, key: str) -> bytes: ...

    def delete(self, key: str) -> None: ...


@dataclass(frozen=True)
class S3Bucket:
    """Through boto3's client."""

    client: Any
    scheme: str = "s3"

    def put(self, key: str, body: bytes) -> None:
        self.client.put_object(Bucket=BUCKET, Key=key, Body=body)

    def get(self, key: str) -> bytes:
        body: bytes = self.client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
        return body

    def delete(self, key: str) -> None:
        self.client.delete_object(Bucket=BUCKET, Key=key)

    def put_in_parts(self, key: str, body: bytes) -> None:
        """As an upload in parts, whose etag is not that of the same bytes put at once."""
        upload = self.client.create_multipart_upload(Bucket=BUCKET, Key=key)["UploadId"]
        part = self.client.upload_part(Bucket=BUCKET, Key=key, UploadId=upload, PartNumber=1, Body=body)
        self.client.complete_multipart_upload(
            Bucket=BUCKET,
            Key=key,
            UploadId=upload,
            MultipartUpload={"Parts": [{"ETag": part["ETag"], "PartNumber": 1}]},
        )


@dataclass(frozen=True)
class GoogleBucket:
    """Through the JSON API."""

    url: str
    scheme: str = "gs"

    def put(self, key: str, body: bytes) -> None:
        named = f"uploadType=media&name={quote(key, safe='')}"
        self._ask("POST", f"/upload/storage/v1/b/{BUCKET}/o?{named}", body)

    def get(self, key: str) -> bytes:
        return self._ask("GET", f"/download/storage/v1/b/{BUCKET}/o/{quote(key, safe='')}?alt=media")

    def delete(self, key: str) -> None:
        self._ask("DELETE", f"/storage/v1/b/{BUCKET}/o/{quote(key, safe='')}")

    def _ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        with urlopen(Request(self.url + path, data=body, method=method)) as answer:
            read: bytes = answer.read()
            return read


@contextmanager
def s3_store(folder: Path) -> Generator[S3Bucket, None, None]:
    """An S3 server with one empty bucket; this process's environment leads to it and keeps copies in `folder`."""
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
    }
    with _environment(folder, variables):
        client = boto3.client("s3")
        client.create_bucket(Bucket=BUCKET)
        try:
            yield S3Bucket(client)
        finally:
            server.stop()


@contextmanager
def google_store(folder: Path) -> Generator[GoogleBucket, None, None]:
    """The same with a server of Google's storage, which lets everybody in."""
    emulator = pytest.importorskip("gcp_storage_emulator.server", reason="gcp-storage-emulator is not installed")
    server = emulator.create_server("127.0.0.1", 0, in_memory=True, default_bucket=BUCKET)
    server.start()
    url = f"http://127.0.0.1:{server._api._httpd.server_port}"
    with _environment(folder, {"STORAGE_EMULATOR_HOST": url, "NO_GCE_CHECK": "true"}):
        try:
            yield GoogleBucket(url)
        finally:
            server.stop()


@contextmanager
def _environment(folder: Path, variables: Mapping[str, str]) -> Generator[None, None, None]:
    # This process may have a client of another test's server, which is gone.
    store._make_file_system.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REELSIEVE_MEDIA_PRIVATE_NETWORKS", LOOPBACK)
        patch.setenv("REELSIEVE_MEDIA_CACHE", str(folder))
        for name, value in variables.items():
            patch.setenv(name, value)
        yield


@dataclass(frozen=True)
class Page:
    """An answer: its body, status and headers. `announced` is the length that its header states. A request for a range
    gets the whole body ("ignored"), the range, another range ("shifted"), or the beginning of the range ("short").
    """

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    announced: int | None = None
    ranges: Literal["ignored", "honest", "shifted", "short"] = "ignored"

    def answer(self, asked: str | None) -> Page:
        """The answer to a request with this header `Range`."""
        if asked is None or self.ranges == "ignored":
            return self
        first, last = map(int, asked.removeprefix("bytes=").split("-"))
        shift = 1 if self.ranges == "shifted" else 0
        body = self.body[first + shift : last + 1 + shift]
        stated = {"Content-Range": f"bytes {first + shift}-{last + shift}/{len(self.body)}"}
        return Page(body[: len(body) // 2] if self.ranges == "short" else body, 206, {**self.headers, **stated})


@dataclass
class WebServer:
    """Pages by path, the requests that came, as `METHOD PATH`, their headers `Range`, and what they said to sign in."""

    url: str
    pages: dict[str, Page] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    ranges: list[str | None] = field(default_factory=list)
    signed_in_by: set[str | None] = field(default_factory=set)


@contextmanager
def web_server() -> Generator[WebServer, None, None]:
    """A web server on 127.0.0.1."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            served.asked.append(f"{self.command} {self.path}")
            served.ranges.append(self.headers["Range"])
            served.signed_in_by.add(self.headers["Authorization"])
            page = served.pages.get(self.path, Page(status=404)).answer(self.headers["Range"])
            self.send_response(page.status)
            for name, value in page.headers.items():
                self.send_header(name, value)
            length = len(page.body) if page.announced is None else page.announced
            self.send_header("Content-Length", str(length))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(page.body)
            # What a request brings along is not read, and must not be taken for the next one.
            self.close_connection = length != len(page.body) or self.command == "POST"

        do_HEAD = do_POST = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: the tests ask `asked`."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    served = WebServer(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
