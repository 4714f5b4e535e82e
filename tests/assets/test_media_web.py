"""Videos from web servers, and the machines that a manifest must not reach."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Generator
from ipaddress import ip_network
from pathlib import Path
from types import SimpleNamespace

import pytest

from assets.ingest.rejects import Reject
from assets.ingest.rows import VideoRow
from assets.ingest.video_columns import inspect_video
from assets.media.errors import MediaUnavailable
from assets.media.files import hold_ingested_file
from assets.media.private_networks import is_allowed_address
from tests.assets.manifests import write_clip
from tests.assets.media_servers import LOOPBACK, Page, WebServer, web_server

pytest.importorskip("aiohttp", reason="the extra `http` is not installed")


@pytest.fixture
def server() -> Generator[WebServer, None, None]:
    with web_server() as server:
        yield server


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REELSIEVE_MEDIA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("REELSIEVE_MEDIA_PRIVATE_NETWORKS", LOOPBACK)


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("clip") / "clip.avi"
    write_clip(path, n_frames=5)
    return path.read_bytes()


def look(path: str, stored: SimpleNamespace | None = None) -> SimpleNamespace | Reject:
    columns = inspect_video(Path("/nowhere"), VideoRow(video_id="v", path=path), stored)
    return columns if isinstance(columns, Reject) else SimpleNamespace(key="v", **columns)


def ingested(path: str, stored: SimpleNamespace | None = None) -> SimpleNamespace:
    video = look(path, stored)
    assert isinstance(video, SimpleNamespace), video
    return video


def refused(path: str) -> Reject:
    reject = look(path)
    assert isinstance(reject, Reject), reject
    return reject


def content(video: SimpleNamespace) -> bytes:
    with hold_ingested_file(video) as held:
        return held.path.read_bytes()


def test_a_video_of_a_web_server(server: WebServer, clip: bytes) -> None:
    server.pages["/a.avi"] = Page(clip, headers={"ETag": '"one"'})
    video = ingested(f"{server.url}/a.avi")
    assert (video.status, video.n_frames, video.etag) == ("ok", 5, '"one"')
    assert video.content_sha256 == hashlib.sha256(clip).digest()
    asked = len(server.asked)
    assert ingested(video.uri, video) == video
    assert content(video) == clip
    assert server.asked[asked:] == ["HEAD /a.avi"] * 2, "neither fetched what the etag says is there"


def test_without_an_etag_the_content_decides(server: WebServer, clip: bytes) -> None:
    """A time alone, or an etag that says itself that it is weak, tells nothing."""
    for headers in ({"Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"}, {"ETag": 'W/"one"'}):
        server.pages["/a.avi"] = Page(clip, headers=headers)
        video = ingested(f"{server.url}/a.avi")
        assert video.etag is None
        assert content(video) == clip
        server.pages["/a.avi"] = Page(clip[::-1], headers=headers)
        with pytest.raises(MediaUnavailable, match="has changed since it was ingested: put the file back or ingest"):
            content(video)


def test_a_redirect_is_followed(server: WebServer, clip: bytes) -> None:
    server.pages["/a.avi"] = Page(status=302, headers={"Location": "/b.avi?X-Amz-Signature=hunter2"})
    server.pages["/b.avi?X-Amz-Signature=hunter2"] = Page(clip, headers={"ETag": '"one"'})
    video = ingested(f"{server.url}/a.avi")
    assert content(video) == clip
    assert "hunter2" not in str(vars(video))


@pytest.mark.parametrize(
    ("page", "code", "reason"),
    [
        (Page(status=404), "file_missing", "there is no such object"),
        (Page(status=410), "file_missing", "there is no such object"),
        (Page(status=403), "media_unavailable", "no permission to read it"),
        (Page(status=500), "media_unavailable", "the server answers with status 500"),
        (Page(b"part", status=206), "media_unavailable", "the server answers with status 206"),
        (Page(b"short", announced=500), "media_unavailable", "the store cannot be reached"),
        (Page(b"no video"), "not_a_video", "clip"),
        (Page(status=302, headers={"Location": "/a.avi"}), "media_unavailable", "an address that cannot be read"),
        (Page(status=302, headers={"Location": "file:///etc/passwd"}), "media_unavailable", "cannot be read"),
        (Page(status=302, headers={"Location": "http://127.0.0.1:1/"}), "media_unavailable", "cannot be reached"),
    ],
)
def test_an_error_is_one_sentence(server: WebServer, page: Page, code: str, reason: str) -> None:
    server.pages["/a.avi"] = page
    reject = refused(f"{server.url}/a.avi")
    assert reject.code == code
    assert reason in reject.reason or code == "not_a_video"
    assert f"field 'path' is '{server.url}/a.avi'" in reject.reason
    assert "\n" not in reject.reason


@pytest.mark.parametrize(
    ("module", "address", "remedy"),
    [
        ("s3fs", "s3://clips/a.mp4", "pip install 'reelsieve[s3]'"),
        ("gcsfs", "gs://clips/a.mp4", "pip install 'reelsieve[gs]'"),
        ("aiohttp", "https://127.0.0.1:1/a.mp4", "pip install 'reelsieve[http]'"),
    ],
)
def test_a_missing_driver_is_named_with_what_brings_it(module: str, address: str, remedy: str) -> None:
    program = f"""
import sys
from pathlib import Path
sys.modules["{module}"] = None  # importing it now raises ImportError
from assets.ingest.video_columns import inspect_video
from assets.ingest.rows import VideoRow
print(inspect_video(Path("/nowhere"), VideoRow(video_id="v", path="{address}"), None))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "media_unavailable" in done.stdout
    assert f"no driver for {address.partition('/')[0]}// is installed: {remedy}" in done.stdout


def test_private_machines_are_refused(server: WebServer, clip: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REELSIEVE_MEDIA_PRIVATE_NETWORKS")
    server.pages["/a.avi"] = Page(clip)
    port = server.url.rpartition(":")[2]
    for host in ("127.0.0.1", "localhost", "0x7f.1", "[::ffff:127.0.0.1]", "[::1]"):
        reject = refused(f"http://{host}:{port}/a.avi")
        assert reject.code == "media_unavailable", host
        assert "in a private network" in reject.reason
        assert "REELSIEVE_MEDIA_PRIVATE_NETWORKS" in reject.reason
    assert "169.254.169.254 in a private" in getattr(look("http://169.254.169.254/latest/meta-data"), "reason", "")
    assert server.asked == []


def test_redirects_to_private_machines_are_refused(
    server: WebServer, clip: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REELSIEVE_MEDIA_PRIVATE_NETWORKS", '["127.0.0.1/32"]')
    for other in ("127.0.0.2", "10.0.0.1", "169.254.169.254", "[fe80::1]"):
        server.pages["/a.avi"] = Page(status=302, headers={"Location": f"http://{other}/a.avi"})
        reject = refused(f"{server.url}/a.avi")
        assert f"{other.strip('[]')} in a private network" in reject.reason


def test_an_s3_server_in_a_private_network_is_refused_too(server: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("s3fs", reason="the extra `s3` is not installed")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(name, "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    monkeypatch.setenv("REELSIEVE_MEDIA_PRIVATE_NETWORKS", '["10.1.0.0/16"]')
    assert "127.0.0.1 in a private network" in refused("s3://clips/a.mp4").reason
    assert server.asked == []
    monkeypatch.setenv("REELSIEVE_MEDIA_PRIVATE_NETWORKS", '["127.0.0.1/32"]')
    server.pages["/clips/a.mp4"] = Page(status=403)
    assert "no permission to read it: set AWS_ACCESS_KEY_ID" in refused("s3://clips/a.mp4").reason


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1:248:1893:25c8:1946", True),
        ("127.0.0.1", False),
        ("0.0.0.0", False),
        ("10.0.0.1", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("100.64.0.1", False),
        ("169.254.169.254", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("::1", False),
        ("::", False),
        ("fe80::1%eth0", False),
        ("fd00:ec2::254", False),
        ("::ffff:10.0.0.1", False),
        ("64:ff9b::a9fe:a9fe", False),
        ("2002:7f00:1::", False),
    ],
)
def test_what_is_private(address: str, allowed: bool) -> None:
    assert is_allowed_address(address, ()) == allowed
    assert is_allowed_address(address, (ip_network("0.0.0.0/0"), ip_network("::/0")))


def test_only_the_named_networks_are_allowed() -> None:
    assert is_allowed_address("10.2.3.4", (ip_network("10.2.0.0/16"),))
    assert not is_allowed_address("10.3.3.4", (ip_network("10.2.0.0/16"),))
    assert is_allowed_address("::ffff:10.2.3.4", (ip_network("10.2.0.0/16"),))


@pytest.fixture
def root(tmp_path: Path, clip: bytes, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    (root / "a.avi").write_bytes(clip)
    (tmp_path / "secret.avi").write_bytes(clip)
    monkeypatch.setenv("REELSIEVE_MEDIA_ROOTS", json.dumps({"clips": str(root)}))
    return root


def test_a_video_below_a_root(root: Path, tmp_path: Path, clip: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    video = ingested("root://clips/a.avi")
    assert (video.uri, video.status) == ("root://clips/a.avi", "ok")
    assert content(video) == clip
    # Another machine has it elsewhere, with other times.
    root.rename(tmp_path / "elsewhere")
    monkeypatch.setenv("REELSIEVE_MEDIA_ROOTS", json.dumps({"clips": str(tmp_path / "elsewhere")}))
    os.utime(tmp_path / "elsewhere" / "a.avi", (1, 1))
    assert content(video) == clip
    (tmp_path / "elsewhere" / "a.avi").write_bytes(clip[::-1])
    with pytest.raises(MediaUnavailable, match="has changed since it was ingested"):
        content(video)
    (tmp_path / "elsewhere" / "a.avi").unlink()
    with pytest.raises(MediaUnavailable, match="no such file below the media root: put the file back or ingest"):
        content(video)
    monkeypatch.delenv("REELSIEVE_MEDIA_ROOTS")
    with pytest.raises(MediaUnavailable, match=r"no media root .*REELSIEVE_MEDIA_ROOTS$"):
        content(video)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("root://clips/none.avi", "file_missing"),
        ("root://clips/../secret.avi", "path_escape"),
        ("root://clips//etc/passwd", "path_escape"),
        ("root://clips/link.avi", "path_escape"),
        ("root://other/a.avi", "media_unavailable"),
    ],
)
def test_nothing_leads_out_of_a_root(root: Path, path: str, code: str) -> None:
    (root / "link.avi").symlink_to(root.parent / "secret.avi")
    assert refused(path).code == code


def test_nothing_leads_out_of_a_root_in_a_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REELSIEVE_MEDIA_ROOTS", '{"clips": "https://clips.example/public"}')
    assert refused("root://clips/../private/a.mp4").code == "path_escape"
