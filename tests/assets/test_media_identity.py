"""Videos recognised by etag and size: the same facts from fewer bytes, and every change is noticed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.ingest.rejects import Reject
from assets.ingest.rows import VideoRow
from assets.ingest.run import ingest_folder
from assets.ingest.video_columns import inspect_video
from assets.media.errors import MediaUnavailable
from assets.media.files import hold_ingested_file
from assets.media.members import read_range
from assets.selection.export import export_selection
from assets.selection.export_target import ExportFormat
from db.manifest.removal import delete_dataset
from db.selection.recipes import SelectionError, parse_recipe
from metrics_core.frames.headers import find_index_end
from tests.assets.init_sources import shard
from tests.assets.manifests import candidate, write_clip, write_manifest
from tests.assets.media_servers import BUCKET, Page, S3Bucket, s3_store, web_server
from tests.assets.verifying import dataset_of
from tests.db.builders import set_scores
from tests.db.freezing import freeze_recipe

FACTS = ("size_bytes", "duration_s", "fps", "n_frames", "width", "height", "codec", "status", "error")


def draw(path: Path, codec: str = "mpeg4", flags: str = "faststart") -> bytes:
    """A clip of 40 frames, with B-frames where the codec has them."""
    import av

    noise = np.random.default_rng(0)
    with av.open(str(path), "w", options={"movflags": flags}) as container:
        stream = container.add_stream(codec, rate=Fraction(24))
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for _ in range(40):
            pixels = noise.integers(0, 255, (48, 64, 3), dtype=np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode(None))
    return path.read_bytes()


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, bytes]:
    folder = tmp_path_factory.mktemp("clips")
    made = {codec: draw(folder / f"{codec}.mp4", codec) for codec in ("libx264", "mpeg4", "libvpx-vp9")}
    made["index last"] = draw(folder / "last.mp4", flags="disable_chpl")
    made["fragments"] = draw(folder / "fragments.mp4", flags="frag_keyframe+empty_moov")
    return made | {"avi": write_clip(folder / "a.avi").read_bytes()}


@pytest.fixture
def by_etag(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The setting; and the numbers of bytes that are read of headers."""
    read = list[int]()

    def count(holder: Any, part: Any, *rest: Any, **named: Any) -> None:
        read.append(part.size_bytes)
        read_range(holder, part, *rest, **named)

    monkeypatch.setattr("assets.media.headers.read_range", count)
    monkeypatch.setattr("assets.media.headers.FIRST_BYTES", 600)
    monkeypatch.setenv("REELSIEVE_IDENTITY", "etag")
    return read


def look(folder: Path, path: str, stored: SimpleNamespace | None = None) -> SimpleNamespace:
    columns = inspect_video(folder, VideoRow(video_id="v", path=path), stored)
    assert not isinstance(columns, Reject), columns
    return SimpleNamespace(key="v", **columns)


def content(video: SimpleNamespace) -> bytes:
    with hold_ingested_file(video) as held:
        return held.path.read_bytes()


def hashed(monkeypatch: pytest.MonkeyPatch, folder: Path, path: str) -> SimpleNamespace:
    with monkeypatch.context() as patched:
        patched.setenv("REELSIEVE_IDENTITY", "sha256")
        return look(folder, path)


@pytest.mark.parametrize("name", ["libx264", "mpeg4", "libvpx-vp9", "index last", "fragments", "avi"])
@pytest.mark.parametrize("is_member", [False, True])
def test_facts_from_a_header_are_those_of_the_whole_file(
    by_etag: list[int],
    clips: Mapping[str, bytes],
    name: str,
    is_member: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "v.mp4").write_bytes(clips[name])
    shard(tmp_path / "s.tar", [("a.txt", "A."), ("v.mp4", clips[name])])
    path = "tar://s.tar#v.mp4" if is_member else "v.mp4"
    video, expected = look(tmp_path, path), hashed(monkeypatch, tmp_path, path)
    assert [getattr(video, fact) for fact in FACTS] == [getattr(expected, fact) for fact in FACTS]
    assert (video.identity, expected.identity, video.status) == ("etag", "sha256", "ok")
    assert video.content_sha256 != expected.content_sha256
    if name.startswith(("lib", "mpeg4")):
        assert sum(by_etag) < len(clips[name]) / 2
    assert content(video) == clips[name]


@pytest.mark.parametrize(
    ("head", "end"),
    [
        ("00000010667479700000000000000000" + "000001006d6f6f76", 0x110),
        ("00000010667479700000000000000000" + "000000016d6f6f760000000100000000", 0x10 + (1 << 32)),
        ("00000010667479700000000000000000" + "00000008667265650000000800000000" + "000001006d6f6f76", 0x120),
        ("00000010667479700000000000000000" + "000000106d6461740000000000000000" + "000001006d6f6f76", None),
        ("00000010667479700000000000000000" + "000000016d6f6f760000000000000000", None),
        ("00000010667479700000000000000000" + "000000006d6f6f76", None),
        ("000001006d6f6f76" + "00" * 16, 0x100),
        ("00000010736b69700000000000000000" + "000001006d6f6f76", None),
        ("1a45dfa3" + "00" * 30, None),
        ("", None),
    ],
)
def test_the_end_of_an_index(head: str, end: int | None) -> None:
    assert find_index_end(bytes.fromhex(head)) == end


def copied(path: Path) -> None:
    """As by a copy that keeps the times: another inode, another time of change."""
    state, data = path.stat(), path.read_bytes()
    path.unlink()
    path.write_bytes(data)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def touched(path: Path) -> None:
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))


@pytest.mark.parametrize(("change", "is_same"), [(copied, True), (touched, False)])
@pytest.mark.parametrize("path", ["v.mp4", "tar://s.tar#v.mp4"])
def test_size_and_time_decide_on_a_disk(
    by_etag: list[int],
    clips: Mapping[str, bytes],
    change: Callable[[Path], None],
    is_same: bool,
    path: str,
    tmp_path: Path,
) -> None:
    file = tmp_path / ("s.tar" if path.startswith("tar") else "v.mp4")
    (tmp_path / "v.mp4").write_bytes(clips["mpeg4"])
    shard(tmp_path / "s.tar", [("v.mp4", clips["mpeg4"])])
    video = look(tmp_path, path)
    change(file)
    again = look(tmp_path, path, stored=video)
    assert (again.content_sha256 == video.content_sha256) is is_same
    assert content(again) == clips["mpeg4"]
    if is_same:
        assert content(video) == clips["mpeg4"]
    else:
        with pytest.raises(MediaUnavailable, match="the file has changed since it was ingested"):
            content(video)


def test_a_video_keeps_the_way_in_which_it_is_recognised(
    by_etag: list[int], clips: Mapping[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "v.mp4").write_bytes(clips["mpeg4"])
    first, etag = hashed(monkeypatch, tmp_path, "v.mp4"), look(tmp_path, "v.mp4")
    touched(tmp_path / "v.mp4")
    kept = look(tmp_path, "v.mp4", stored=first)
    assert (kept.identity, kept.content_sha256) == ("sha256", first.content_sha256)
    monkeypatch.setenv("REELSIEVE_IDENTITY", "sha256")
    assert look(tmp_path, "v.mp4", stored=etag).identity == "etag"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Bucket]:
    with s3_store(tmp_path_factory.mktemp("store") / "media") as bucket:
        yield bucket


@pytest.mark.parametrize("path", [f"s3://{BUCKET}/v.mp4", f"tar://s3://{BUCKET}/s.tar#v.mp4"])
def test_an_object_is_recognised_by_its_etag(
    store: S3Bucket,
    by_etag: list[int],
    clips: Mapping[str, bytes],
    path: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key = "s.tar" if path.startswith("tar") else "v.mp4"

    def put(data: bytes) -> None:
        store.put("v.mp4", data)
        store.put("s.tar", shard(tmp_path / "s.tar", [("v.mp4", data)]).read_bytes())

    put(clips["mpeg4"])
    video, expected = look(tmp_path, path), hashed(monkeypatch, tmp_path, path)
    assert [getattr(video, fact) for fact in FACTS] == [getattr(expected, fact) for fact in FACTS]
    assert sum(by_etag) < len(clips["mpeg4"]) / 2
    assert content(video) == content(video) == clips["mpeg4"]
    store.put_in_parts(key, store.get(key))
    assert look(tmp_path, path, stored=video).content_sha256 != video.content_sha256, "another etag is another video"
    with pytest.raises(MediaUnavailable, match="the file has changed since it was ingested"):
        content(video)
    assert content(look(tmp_path, path)) == clips["mpeg4"]


def test_a_server_without_etags_or_ranges_makes_hashes(by_etag: list[int], clips: Mapping[str, bytes]) -> None:
    clip = clips["mpeg4"]
    with web_server() as server:
        server.pages["/v.mp4"] = Page(clip)
        server.pages["/etag.mp4"] = Page(clip, headers={"ETag": '"one"'})
        for name, identity in (("v", "sha256"), ("etag", "etag")):
            video = look(Path("/"), f"{server.url}/{name}.mp4")
            assert (video.identity, video.status, content(video)) == (identity, "ok", clip)


def test_a_changed_etag_makes_scores_stale_and_selections_state_identities(
    by_etag: list[int], clips: Mapping[str, bytes], engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["v1", "v2", "v3"]
    for name in names:
        (tmp_path / f"{name}.mp4").write_bytes(clips["mpeg4"])
    videos = [{"video_id": name, "path": f"{name}.mp4"} for name in names] + [{"video_id": "text"}]
    captions = [candidate(name, name, f"Clip {name}.") for name in (*names, "text")]
    with monkeypatch.context() as patched:
        patched.setenv("REELSIEVE_IDENTITY", "sha256")
        ingest_folder(engine, write_manifest(tmp_path, videos[:1], captions=captions[:1]), "mine", n_shards=1)
    write_manifest(tmp_path, videos, captions=captions)
    ingest_folder(engine, tmp_path, "mine")
    with engine.connect() as connection:
        rows = connection.execute(sa.text("SELECT key, identity FROM video ORDER BY key")).all()
        ids = connection.execute(sa.text("SELECT key, sample_id FROM sample")).all()
    assert rows == [("text", None), ("v1", "sha256"), ("v2", "etag"), ("v3", "etag")]
    set_scores(engine, {sample_id: 0.5 for _, sample_id in ids})
    with engine.begin() as connection:
        recipe = parse_recipe({"by": "vcs", "keep": 1.0})
        selection = freeze_recipe(connection, dataset_of(engine, "mine"), recipe).selection_id
    export_selection(engine, selection, tmp_path / "rows.jsonl")
    passport = json.loads((tmp_path / "rows.jsonl.passport.json").read_text())
    assert passport["selection"]["identities"] == {"etag": 2, "sha256": 1}
    set_scores(engine, {sample_id: 0.5 for _, sample_id in ids}, metric="evqa")
    touched(tmp_path / "v1.mp4")
    touched(tmp_path / "v2.mp4")
    ingest_folder(engine, tmp_path, "mine")
    with engine.connect() as connection:
        stale = connection.execute(
            sa.text("SELECT key FROM sample JOIN score USING (sample_id) WHERE is_stale ORDER BY key")
        )
        assert list(stale.scalars()) == ["v2"]


def test_an_export_checks_videos_by_etag(
    by_etag: list[int], clips: Mapping[str, bytes], engine: Engine, tmp_path: Path
) -> None:
    tar = shard(tmp_path / "s.tar", [("v.mp4", clips["mpeg4"])])
    videos = [{"video_id": "v", "path": "tar://s.tar#v.mp4"}]
    ingest_folder(engine, write_manifest(tmp_path, videos, captions=[candidate("c", "v", "A.")]), "mine", n_shards=1)
    with engine.connect() as connection:
        set_scores(engine, dict.fromkeys(connection.execute(sa.text("SELECT sample_id FROM sample")).scalars(), 0.5))
    with engine.begin() as connection:
        recipe = parse_recipe({"by": "vcs", "keep": 1.0})
        selection = freeze_recipe(connection, dataset_of(engine, "mine"), recipe).selection_id
        delete_dataset(connection, dataset_of(engine, "mine"))
    export_selection(engine, selection, tmp_path / "wds", ExportFormat.WEB_DATASET)
    touched(tar)
    with pytest.raises(SelectionError, match="the file has changed since it was ingested"):
        export_selection(engine, selection, tmp_path / "again", ExportFormat.WEB_DATASET)
