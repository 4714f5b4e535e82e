"""Videos of Google's storage: who may be asked, how to sign in, and what is said where that fails."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from assets.ingest.rejects import Reject
from assets.ingest.rows import VideoRow
from assets.ingest.video_columns import inspect_video
from assets.media import store
from assets.media.files import hold_ingested_file
from tests.assets.manifests import write_clip
from tests.assets.media_servers import LOOPBACK, Page, WebServer, google_store, web_server

pytest.importorskip("gcsfs", reason="the extra `gs` is not installed")

OBJECT = "/storage/v1/b/clips/o/a.avi"
CONTENT = "/download/storage/v1/b/clips/o/a.avi?alt=media"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Generator[WebServer, None, None]:
    """A web server in the place of Google's. The environment knows no account."""
    monkeypatch.setenv("REELSIEVE_MEDIA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("REELSIEVE_MEDIA_PRIVATE_NETWORKS", LOOPBACK)
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    store._make_file_system.cache_clear()
    with web_server() as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        yield server


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("clip") / "clip.avi"
    write_clip(path, n_frames=5)
    return path.read_bytes()


def look(path: str = "gs://clips/a.avi", stored: SimpleNamespace | None = None) -> dict[str, Any] | Reject:
    return inspect_video(Path("/nowhere"), VideoRow(video_id="v", path=path), stored)


def refused(path: str = "gs://clips/a.avi") -> Reject:
    reject = look(path)
    assert isinstance(reject, Reject), reject
    return reject


def described(body: bytes, **more: str) -> Page:
    """What the store says of an object."""
    told = {"kind": "storage#object", "bucket": "clips", "name": "a.avi", "size": str(len(body)), **more}
    return Page(json.dumps(told).encode(), headers={"Content-Type": "application/json"})


def test_a_store_in_a_private_network_is_not_asked(server: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REELSIEVE_MEDIA_PRIVATE_NETWORKS", '["10.1.0.0/16"]')
    assert "127.0.0.1 in a private network" in refused().reason
    assert server.asked == []


def test_a_redirect_to_a_private_machine_is_refused(
    server: WebServer, clip: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REELSIEVE_MEDIA_PRIVATE_NETWORKS", '["127.0.0.1/32"]')
    server.pages[OBJECT] = described(clip, etag="one")
    server.pages[CONTENT] = Page(status=302, headers={"Location": "http://169.254.169.254/latest"})
    assert "169.254.169.254 in a private network" in refused().reason


@pytest.mark.parametrize(
    ("page", "code", "reason"),
    [
        (Page(status=404), "file_missing", "there is no such object"),
        (Page(b'{"error": {"code": 401, "message": "Anonymous caller"}}', 401), "media_unavailable", "no permission"),
        (Page(b'{"error": {"code": 403, "message": "has no access"}}', 403), "media_unavailable", "no permission"),
        (Page(b'{"error": {"code": 503, "message": "busy"}}', 503), "media_unavailable", "answers with status 503"),
    ],
)
def test_an_error_is_one_sentence(
    server: WebServer, page: Page, code: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    for path in (OBJECT, f"{OBJECT.removesuffix('/a.avi')}?delimiter=/&prefix=a.avi/&maxResults=1"):
        server.pages[path] = page
    reject = refused()
    assert reject.code == code
    assert reason in reject.reason
    assert "\n" not in reject.reason
    assert caplog.text == "", "the client's own traceback"
    if page.status in (401, 403):
        assert "set GOOGLE_APPLICATION_CREDENTIALS to an account that may read it" in reject.reason


def test_a_bucket_that_is_not_there(tmp_path: Path) -> None:
    with google_store(tmp_path):
        reject = refused("gs://no-such-bucket/a.avi")
    assert (reject.code, reject.reason) == (
        "file_missing",
        "field 'path' is 'gs://no-such-bucket/a.avi': there is no such object",
    )


def test_the_account_of_the_environment_signs_in_and_is_not_kept(
    server: WebServer, clip: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = service_account(f"{server.url}/token")
    (tmp_path / "account.json").write_text(json.dumps(account))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "account.json"))
    token = {"access_token": "never-stored", "expires_in": 3600, "token_type": "Bearer"}
    server.pages["/token"] = Page(json.dumps(token).encode(), headers={"Content-Type": "application/json"})
    server.pages[OBJECT], server.pages[CONTENT] = described(clip, md5Hash="one"), Page(clip)
    columns = look()
    assert isinstance(columns, dict), columns
    assert columns["status"] == "ok"
    assert "POST /token" in server.asked
    assert server.signed_in_by == {None, "Bearer never-stored"}, "None asked for the token itself"
    for secret in ("never-stored", account["private_key"], "robot"):
        assert secret not in str(columns)


def test_what_is_only_said_of_an_object_changes_nothing(server: WebServer, clip: bytes) -> None:
    """Google's etag changes with labels and the class of storage too; the MD5 of the bytes does not."""
    server.pages[OBJECT], server.pages[CONTENT] = described(clip, md5Hash="one", etag="first"), Page(clip)
    columns = look()
    assert isinstance(columns, dict), columns
    video = SimpleNamespace(key="v", **columns)
    server.pages[OBJECT] = described(clip, md5Hash="one", etag="second")
    asked = len(server.asked)
    assert look(stored=video) == columns
    assert not [each for each in server.asked[asked:] if "/download/" in each]
    with hold_ingested_file(video) as held:
        assert held.path.read_bytes() == clip


def service_account(token_uri: str) -> dict[str, str]:
    """A service account as Google hands it out, whose tokens come from `token_uri`."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    return {
        "type": "service_account",
        "project_id": "clips",
        "private_key_id": "1",
        "private_key": text,
        "client_email": "robot@clips.example",
        "token_uri": token_uri,
    }
