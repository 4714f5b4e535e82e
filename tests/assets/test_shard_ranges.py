"""Ranges of videos in tar files: what the exported file holds, and what the documented loaders read by it."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from torch.utils.data import DataLoader

from assets.media.tar_index import read_tar_index
from assets.selection.formats import shard_keys
from assets.selection.formats.shard_keys import write_shard_keys
from db.selection.exports import ExportColumn
from tests.assets.exporting import read_documented
from tests.assets.init_sources import shard
from tests.assets.media_servers import BUCKET, S3Bucket, s3_store

COLUMNS = [ExportColumn(name, "text", "") for name in ("rank", "media", "text")]
N_TARS, N_CLIPS = 4, 60


@pytest.fixture(scope="module")
def tars(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tar files of clips of 8 to 60 KB, each with its caption and its fields."""
    folder, draw = tmp_path_factory.mktemp("tars"), random.Random(3)
    for number in range(N_TARS):
        members: list[tuple[str, bytes | str]] = []
        for clip in range(N_CLIPS):
            text = f"Clip {clip}."
            video = draw.randbytes(draw.randint(8_000, 60_000))
            members += [(f"a.b/{clip:03}.MP4", video), (f"a.b/{clip:03}.json", "{}"), (f"a.b/{clip:03}.txt", text)]
        shard(folder / f"{number}.tar", members)
    return folder


@pytest.fixture(scope="module")
def bucket(tars: Path, tmp_path_factory: pytest.TempPathFactory) -> Generator[S3Bucket, None, None]:
    s3fs = pytest.importorskip("s3fs", reason="the extra `s3` is not installed")
    s3fs.S3FileSystem.clear_instance_cache()
    with s3_store(tmp_path_factory.mktemp("cache")) as bucket:
        for tar in tars.iterdir():
            bucket.put(tar.name, tar.read_bytes())
        yield bucket
    s3fs.S3FileSystem.clear_instance_cache()


def list_videos(folder: Path) -> list[tuple[str, int, int]]:
    """Tar file and member, offset and size of every video, in the order of bytes."""
    found = []
    for tar in sorted(folder.glob("*.tar")):
        with tar.open("rb") as file:
            members = read_tar_index(file, tar.stat().st_size).members
        found += [(f"{tar.name}#{name}", *place) for name, place in members.items() if name.lower().endswith(".mp4")]
    return found


def write_ranges(path: Path, videos: Sequence[tuple[str, int, int]], begin: str = "") -> list[dict[str, Any]]:
    """Write the ranges of videos in random order of rank, and return what the file holds."""
    ranked = random.Random(5).sample(videos, len(videos))
    rows = [(rank, f"tar://{begin}{name}", f"Text {name}", *place) for rank, (name, *place) in enumerate(ranked, 1)]
    with path.open("wb") as file:
        write_shard_keys(io.BytesIO(), file, COLUMNS, [rows[:20], rows[20:]], load_media=lambda _: [])
    return pq.read_table(path).to_pylist()


def test_a_row_group_holds_whole_tar_files_in_order(
    tars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_keys, "ROWS_OF_A_GROUP", N_CLIPS + 1)
    videos = list_videos(tars)
    videos.remove(videos[-1])
    rows = write_ranges(tmp_path / "r", videos)
    assert [(f"{row['tar']}#{row['member']}", row["offset"], row["size"]) for row in rows] == videos
    assert all(row["key"] == row["member"][:-4] and row["text"] == f"Text {row['tar']}#{row['member']}" for row in rows)
    file = pq.ParquetFile(tmp_path / "r")
    groups = [set(file.read_row_group(n)["tar"].to_pylist()) for n in range(file.num_row_groups)]
    assert groups == [{"0.tar", "1.tar"}, {"2.tar", "3.tar"}]


@pytest.mark.parametrize("place", ["disk", "named root", "s3"])
def test_an_eighth_of_the_clips_costs_few_other_bytes(
    tars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, request: pytest.FixtureRequest
) -> None:
    media_root = str(tars) if place == "disk" else ""
    begin = {"disk": "", "named root": "root://mine/", "s3": f"s3://{BUCKET}/"}[place]
    if place == "s3":
        request.getfixturevalue("bucket")
    monkeypatch.setenv("REELSIEVE_MEDIA_ROOTS", json.dumps({"mine": str(tars)}))
    videos = list_videos(tars)
    chosen = random.Random(7).sample(videos, len(videos) // 8)
    rows = write_ranges(tmp_path / "r", chosen, begin)
    documented = read_documented("Ranges of shards")
    read, n_read, n_requests = documented["read_bytes"], 0, 0

    def count(*asked: Any) -> bytes:
        nonlocal n_read, n_requests
        data: bytes = read(*asked)
        n_read, n_requests = n_read + len(data), n_requests + 1
        return data

    documented["read_bytes"] = count
    samples = list(documented["load_ranges"](str(tmp_path / "r"), media_root))
    assert [(sample["__key__"], sample["__url__"], sample["txt"].decode()) for sample in samples] == [
        (row["key"], row["tar"], row["text"]) for row in rows
    ]
    for sample, (name, offset, size) in zip(samples, sorted(chosen), strict=True):
        assert sample["mp4"] == (tars / name.partition("#")[0]).read_bytes()[offset : offset + size]
    assert 1 < n_read / sum(size for _, _, size in chosen) < 1.15
    assert n_requests < len(chosen), "neighbours are read at once"


def test_workers_of_a_loader_share_the_tar_files(tars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_keys, "ROWS_OF_A_GROUP", 1)
    rows = write_ranges(tmp_path / "r", list_videos(tars)[::8])
    dataset = read_documented("Ranges of shards")["SelectedVideos"](str(tmp_path / "r"), str(tars))
    loaded = list(DataLoader(dataset, batch_size=None, num_workers=2, multiprocessing_context="fork"))
    assert sorted(sample["txt"].decode() for sample in loaded) == sorted(row["text"] for row in rows)


JOINED: Mapping[str, tuple[list[tuple[str, int, int]], list[int]]] = {
    "a gap of a tenth": ([("0.tar", 1000, 5000), ("0.tar", 6500, 5000)], [2]),
    "a longer gap": ([("0.tar", 1000, 5000), ("0.tar", 6501, 5000)], [1, 1]),
    "another tar file": ([("0.tar", 1000, 5000), ("1.tar", 6500, 5000)], [1, 1]),
    "too long together": ([("0.tar", 1000, 9 << 20), ("0.tar", 1000 + (9 << 20), 9 << 20)], [1, 1]),
    "one long video twice": ([("0.tar", 1000, 20 << 20), ("0.tar", 1000, 20 << 20)], [2]),
}


@pytest.mark.parametrize("case", JOINED)
def test_neighbours_are_joined(case: str) -> None:
    places, expected = JOINED[case]
    rows = [dict(zip(("tar", "offset", "size"), place, strict=True)) for place in places]
    assert [len(joined) for joined in read_documented("Ranges of shards")["join_neighbours"](rows)] == expected


def test_a_tar_file_written_anew_and_videos_of_one_key(tmp_path: Path) -> None:
    members = [("22.05.mp4", b"a" * 900), ("22.06.mp4", b"b" * 800)]
    shard(tmp_path / "0.tar", members)
    write_ranges(tmp_path / "r", list_videos(tmp_path))
    load_ranges = read_documented("Ranges of shards")["load_ranges"]
    samples = [
        {name: value for name, value in sample.items() if name not in ("__url__", "txt")}
        for sample in load_ranges(str(tmp_path / "r"), str(tmp_path))
    ]
    assert samples == [
        {"__key__": "22", "05.mp4": b"a" * 900},
        {"__key__": "22", "06.mp4": b"b" * 800},
    ]
    whole = (tmp_path / "0.tar").read_bytes()
    longer = shard(tmp_path / "1.tar", [("22.05.mp4", b"a" * 901), members[1]]).read_bytes()
    for changed in (whole[:1500], whole[:2500], b"x" * len(whole), longer):
        (tmp_path / "0.tar").write_bytes(changed)
        with pytest.raises(ValueError, match=r"0\.tar has changed: ingest it again"):
            list(load_ranges(str(tmp_path / "r"), str(tmp_path)))
