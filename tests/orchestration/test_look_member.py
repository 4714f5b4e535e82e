"""A video inside a tar file or a Lance table in the browser: ranges of its bytes, by which a player may go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from starlette.testclient import TestClient

from assets.ingest.rows import VideoRow
from assets.ingest.video_columns import inspect_video
from orchestration.look.media import NoPicture, VideoFileResponse, render_frame_sheet
from tests.assets.init_sources import shard
from tests.assets.manifests import write_clip
from tests.assets.media_servers import LOOPBACK, Page, web_server


@pytest.fixture
def video(tmp_path: Path) -> dict[str, Any]:
    """The row of a video that lies after another one."""
    clip = write_clip(tmp_path / "clip.avi").read_bytes()
    shard(tmp_path / "s.tar", [("0.avi", "first"), ("1.avi", clip)])
    columns = inspect_video(tmp_path, VideoRow(video_id="v", path="tar://s.tar#1.avi"), None)
    assert isinstance(columns, dict)
    return {"video": "v", **columns}


def ask(video: dict[str, Any], **headers: str) -> Any:
    small = {name.lower().replace("_", "-"): value for name, value in headers.items()}
    return TestClient(VideoFileResponse(video, {}, small)).get("/", headers=headers)


def test_ranges_of_a_member_are_those_of_its_file(video: dict[str, Any], tmp_path: Path) -> None:
    clip = (tmp_path / "clip.avi").read_bytes()
    whole, part = ask(video), ask(video, Range="bytes=100-199")
    assert (whole.content, whole.headers["content-type"]) == (clip, "video/x-msvideo")
    assert (part.status_code, part.content) == (206, clip[100:200])
    assert part.headers["content-range"] == f"bytes 100-199/{len(clip)}"
    # A player that goes on tells which file it had; each request reads the member into another file in memory.
    more = ask(video, **{"Range": "bytes=200-", "If-Range": whole.headers["etag"]})
    assert (more.status_code, more.content) == (206, clip[200:])
    assert ask(video, **{"Range": "bytes=200-", "If-Range": '"another"'}).content == clip


def test_ranges_of_a_row_are_those_of_its_file(tmp_path: Path) -> None:
    lance = pytest.importorskip("lance", reason="the extra `lance` is not installed")
    clip = write_clip(tmp_path / "clip.avi").read_bytes()
    table = pa.table([lance.blob_array([b"first", clip])], schema=pa.schema([lance.blob_field("video")]))
    lance.write_dataset(table, str(tmp_path / "t.lance"))
    columns = inspect_video(tmp_path, VideoRow(video_id="v", path="lance://t.lance#video/1"), None)
    assert isinstance(columns, dict)
    row = {"video": "v", **columns}
    whole, part = ask(row), ask(row, Range="bytes=100-199")
    assert (whole.content, whole.headers["content-type"]) == (clip, "video/mp4")
    assert (part.status_code, part.content) == (206, clip[100:200])
    assert render_frame_sheet(row).startswith(b"\xff\xd8")


def test_a_member_that_changed_is_not_shown(video: dict[str, Any], tmp_path: Path) -> None:
    assert render_frame_sheet(video).startswith(b"\xff\xd8")
    shard(tmp_path / "s.tar", [("1.avi", "another")])
    with pytest.raises(NoPicture, match="the file has changed since it was ingested"):
        VideoFileResponse(video, {}, {"range": "bytes=0-9"})


@pytest.mark.parametrize("asked", ["bytes=9-3", "bytes=0-1,5-6", "bytes=-10", "bytes=99999999-", "lines=1-2"])
def test_other_ranges_are_answered_as_for_a_file(video: dict[str, Any], asked: str, tmp_path: Path) -> None:
    file = VideoRow(video_id="v", path="clip.avi")
    columns = inspect_video(tmp_path, file, None)
    assert isinstance(columns, dict)
    of_member, of_file = ask(video, Range=asked), ask({"video": "v", **columns}, Range=asked)
    assert of_member.status_code == of_file.status_code
    if "," not in asked:  # the boundary between several ranges is drawn
        assert of_member.content == of_file.content


def test_of_a_large_member_a_part_is_sent_which_a_player_goes_on_from(video: dict[str, Any], tmp_path: Path) -> None:
    clip = (tmp_path / "clip.avi").read_bytes() + bytes(6 << 20)
    shard(tmp_path / "large.tar", [("0.avi", clip)])
    columns = inspect_video(tmp_path, VideoRow(video_id="v", path="tar://large.tar#0.avi"), None)
    large = {"video": "v", **columns}  # type: ignore[dict-item]  # a refusal would fail below
    content = b""
    while len(content) < len(clip):
        part = ask(large, Range=f"bytes={len(content)}-")
        assert (part.status_code, len(part.content) <= 4 << 20) == (206, True)
        content += part.content
    assert content == clip


def test_only_the_range_is_read_of_a_tar_file_elsewhere(
    video: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REELSIEVE_MEDIA_PRIVATE_NETWORKS", LOOPBACK)
    packed, clip = (tmp_path / "s.tar").read_bytes(), (tmp_path / "clip.avi").read_bytes()
    with web_server() as server:
        server.pages["/s.tar"] = Page(packed, headers={"ETag": '"one"'}, ranges="honest")
        columns = inspect_video(tmp_path, VideoRow(video_id="v", path=f"tar://{server.url}/s.tar#1.avi"), None)
        assert isinstance(columns, dict)
        remote, at = {"video": "v", **columns}, columns["member_offset"]
        server.ranges.clear()
        assert ask(remote, Range="bytes=100-199").content == clip[100:200]
        assert [asked for asked in server.ranges if asked] == [f"bytes={at + 100}-{at + 199}"]
        # Another content at this address: no byte of it is sent.
        server.pages["/s.tar"] = Page(packed.replace(clip, clip[::-1]), headers={"ETag": '"two"'}, ranges="honest")
        with pytest.raises(NoPicture, match="the file has changed since it was ingested"):
            ask(remote, Range="bytes=100-199")
