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


@pytest.fixture
def video(tmp_path: Path) -> dict[str, Any]:
    """The row of a video that lies after another one."""
    clip = write_clip(tmp_path / "clip.avi").read_bytes()
    shard(tmp_path / "s.tar", [("0.avi", "first"), ("1.avi", clip)])
    columns = inspect_video(tmp_path, VideoRow(video_id="v", path="tar://s.tar#1.avi"), None)
    assert isinstance(columns, dict)
    return {"video": "v", **columns}


def ask(video: dict[str, Any], **headers: str) -> Any:
    return TestClient(VideoFileResponse(video, {})).get("/", headers=headers)


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
        VideoFileResponse(video, {})
