"""`reelsieve init` on hostile folders: a fault costs what it is in, and no file of the user is lost or changed."""

from __future__ import annotations

import gzip
import io
import json
import os
import socket
import subprocess
import tarfile
import unicodedata
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assets.ingest.rejects import CODES
from assets.new_manifest.columns import ColumnNames
from assets.new_manifest.extract import VideoExtractor
from assets.new_manifest.findings import KEPT_FOR_FACTS, CaptionedVideo, Findings, NoManifest
from assets.new_manifest.folder import SourceFolder
from assets.new_manifest.make import create_manifest
from assets.new_manifest.source import Source
from assets.new_manifest.tar_shards import find_shards
from assets.new_manifest.videos import PathNaming, VideoRegistry
from tests.assets.exporting import files_of_at_most
from tests.assets.init_sources import left_out, put, read_video, rows, shard, texts

REFUSED = "a file that ingest would refuse"
A, B = b"first video", b"other video"


def paths(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def content_of(folder: Path, made: Any) -> dict[str, bytes]:
    """The content of every caption's video, by the caption."""
    by_id = {row["video_id"]: read_video(folder, row["path"]) for row in rows(made, "videos")}
    return {row["text"]: by_id[row["video_id"]] for row in rows(made, "captions")}


def listening_socket(path: Path) -> None:
    with closing(socket.socket(socket.AF_UNIX)) as server:
        server.bind(str(path))


def linked_pipe(path: Path) -> None:
    os.mkfifo(path.with_name("pipe"))
    path.symlink_to("pipe")


@pytest.mark.parametrize("make", [os.mkfifo, listening_socket, linked_pipe, lambda path: path.symlink_to("/dev/zero")])
@pytest.mark.parametrize("name", ["b.txt", "b.mp4", "t.csv", "t.jsonl", "t.parquet", "t.arrow", "s.tar", "s.tgz"])
def test_only_regular_files_are_opened(
    tmp_path: Path, name: str, make: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, {"a.mp4": A, "a.txt": "A ball."})
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    make(Path(name))
    made = create_manifest(tmp_path)
    assert list(texts(made).values()) == ["A ball."]
    assert sum(n for why, n in left_out(made).items() if why.startswith(REFUSED)) >= 1
    for alone in (tmp_path / name, *tmp_path.glob("pipe")):
        with pytest.raises(ValueError, match=r"(a pipe or a device|cannot be read)"):
            create_manifest(alone, tmp_path / "other")


def test_nothing_is_read_through_a_link_out_of_the_folder(tmp_path: Path) -> None:
    outside = put(tmp_path / "outside", {"secret.txt": "root:x:0:0", "t.csv": "video,caption\na,root\n"})
    shard(outside / "s.tar", [("0.mp4", A), ("0.txt", "root")])
    folder = put(tmp_path / "in", {"a.mp4": A, "deep/b.txt": "A box.", "b.mp4": B})
    for link, to in [("a.txt", "secret.txt"), ("t.csv", "t.csv"), ("s.tar", "s.tar"), ("gone.txt", "none")]:
        (folder / link).symlink_to(outside / to)
    (folder / "b.txt").symlink_to("deep/b.txt")
    (folder / "loop.txt").symlink_to("loop.txt")
    made = create_manifest(folder)
    assert texts(made) == {"b__captions": "A box."}
    assert left_out(made) == {
        f"a link that leads out of the folder: give the folder above, {tmp_path}": 3,
        f"{REFUSED} (path_escape): {CODES['path_escape']}": 1,  # a link to nothing outside leads out too
        f"{REFUSED} (file_missing): {CODES['file_missing']}": 1,
        "a caption file without a video": 1,
    }


def test_a_video_without_caption_is_kept_and_takes_no_file_of_the_user_with_it(tmp_path: Path) -> None:
    put(tmp_path, {"videos/s/1.mp4": B})
    members = [("0.mp4", A), ("0.txt", "A ball."), ("1.mp4", B), ("0.mp4", A), ("2.mp4", A)]
    path = shard(tmp_path / "s.tgz", members, compressed=True)
    made = create_manifest(path)
    assert content_of(tmp_path, made) == {"A ball.": A}
    assert (tmp_path / "videos/s/1.mp4").read_bytes() == B
    assert KEPT_FOR_FACTS in made.findings.guesses
    assert left_out(made) == {}
    assert paths(tmp_path / "videos") == {"s", "s/0.mp4", "s/1.mp4", "s/2.mp4"}
    assert [row["video_id"] for row in rows(made, "videos")] == ["s/0", "s/1", "s/2"]


@pytest.mark.parametrize("is_trial", [False, True])
def test_a_key_that_stands_twice_gets_an_id_for_each_content(tmp_path: Path, is_trial: bool) -> None:
    members = [("0.mp4", A), ("0.txt", "One."), ("1.mp4", A), ("1.txt", "Two."), ("0.mp4", B), ("0.txt", "Three.")]
    members += [("0.mp4", A), ("0.txt", "Four.")]
    made = create_manifest(shard(tmp_path / "s.tgz", members, compressed=True), is_trial=is_trial)
    assert (made.holdings.videos, made.extractor.n_videos, made.extractor.size_bytes) == (3, 3, 3 * len(A))
    assert "videos with the same name and different content get a number, as in NAME_2" in made.findings.guesses
    if not is_trial:
        assert content_of(tmp_path, made) == {"One.": A, "Two.": A, "Three.": B, "Four.": A}
        assert [row["video_id"] for row in rows(made, "videos")] == ["s/0", "s/1", "s/0_2"]


def test_a_name_that_two_members_of_a_plain_shard_have_means_neither(tmp_path: Path) -> None:
    members = [("0.mp4", A), ("0.txt", "One."), ("1.mp4", B), ("1.txt", "Two."), ("0.mp4", B), ("0.txt", "Three.")]
    made = create_manifest(shard(tmp_path / "s.tar", members))
    assert content_of(tmp_path, made) == {"Two.": B}
    twice = "the tar file has several members of this name: pack it again with a name for each file"
    assert left_out(made) == {twice: 2}


def test_a_replaced_shard_of_equal_names_and_sizes_is_read(tmp_path: Path) -> None:
    create_manifest(shard(tmp_path / "s.tgz", [("0.mp4", A), ("0.txt", "One.")], compressed=True))
    for table in ("videos", "captions"):
        (tmp_path / f"{table}.jsonl").unlink()
    # Others may read a video as they may any new file.
    assert (tmp_path / "videos/s/0.mp4").stat().st_mode == (tmp_path / "s.tgz").stat().st_mode
    made = create_manifest(shard(tmp_path / "s.tgz", [("0.mp4", B), ("0.txt", "Two.")], compressed=True))
    assert content_of(tmp_path, made) == {"Two.": B}


def test_a_video_in_a_table_has_the_captions_of_its_content(tmp_path: Path) -> None:
    media = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    videos = [{"bytes": content, "path": "v.mp4"} for content in (A, B, A)]
    pq.write_table(pa.table({"video": pa.array(videos, media), "caption": ["1", "2", "3"]}), tmp_path / "t.parquet")
    assert content_of(tmp_path, create_manifest(tmp_path)) == {"1": A, "2": B, "3": A}


def test_two_videos_of_one_id_are_told_apart_or_left_out(tmp_path: Path) -> None:
    lines = [
        {"video_id": "one", "path": "a.mp4", "caption": "Of a."},
        {"video_id": "one", "path": "b.mp4", "caption": "Of b."},
        {"video_id": "one", "path": "a.mp4", "caption": "Of a again."},
        {"path": "one.mp4", "caption": "Of one."},
        {"path": "c.mp4", "caption": "Of c."},
    ]
    files = dict.fromkeys(("a.mp4", "b.mp4", "c.mp4", "one.mp4"), A)
    made = create_manifest(put(tmp_path, {**files, "t.jsonl": "".join(json.dumps(line) + "\n" for line in lines)}))
    assert {row["video_id"]: row["path"] for row in rows(made, "videos")} == {
        "one": "a.mp4", "one.mp4": "one.mp4", "c": "c.mp4"
    }  # fmt: skip
    assert left_out(made) == {"a row with the video_id of another video": 1}


def test_names_without_files_stay_apart(tmp_path: Path) -> None:
    made = create_manifest(put(tmp_path, {"t.csv": "video,caption\na.mp4,One.\na.mov,Two.\n./a.mp4,Three.\n"}))
    by_id = {row["text"]: row["video_id"] for row in rows(made, "captions")}
    assert by_id == {"One.": "a", "Two.": "a.mov", "Three.": "a"}


def test_captions_of_videos_of_one_name_are_said(tmp_path: Path) -> None:
    made = create_manifest(put(tmp_path, {"a.mp4": A, "a.mkv": B, "a.txt": "A ball."}))
    assert [row["video_id"] for row in rows(made, "videos")] == ["a", "a.mp4"]
    assert made.findings.guesses == [
        "videos whose names differ only in the suffix all get the captions of their shared caption files"
    ]


def test_names_of_files_that_cannot_be_used_are_no_texts(tmp_path: Path) -> None:
    put(tmp_path, {"in/t.csv": "video,caption\na.mp4,One.\nb,Two.\nc.mp4,Three.\n", "out/a.mp4": A})
    (tmp_path / "in" / "a.mp4").symlink_to(tmp_path / "out" / "a.mp4")
    os.mkfifo(tmp_path / "in" / "b.mp4")
    with pytest.raises(NoManifest) as refused:
        create_manifest(tmp_path / "in")
    for reason, row in [
        (
            f"a row whose video is a link that leads out of the folder: give the folder above, {tmp_path}",
            "t.csv:2: a.mp4",
        ),
        (f"a row whose video is {REFUSED} (not_a_file): {CODES['not_a_file']}", "t.csv:3: b"),
        ("a row whose video file is not in the folder", "t.csv:4: c.mp4"),
    ]:
        assert f"{reason} (1, such as {row})" in str(refused.value)


def test_accents_are_recognised_however_they_are_written(tmp_path: Path) -> None:
    name = "caf\u00e9.mp4"
    put(tmp_path, {unicodedata.normalize("NFD", name): A, "t.csv": f"video,caption\n{name},A cup.\n"})
    assert content_of(tmp_path, create_manifest(tmp_path)) == {"A cup.": A}


def test_a_sample_of_several_videos_costs_nothing(tmp_path: Path) -> None:
    members = [
        ("0.left.mp4", A),
        ("0.right.mp4", B),
        ("0.txt", "Both."),
        ("0.left.txt", "Left."),
        ("1.mp4", A),
        ("1.txt", "1"),
    ]
    made = create_manifest(shard(tmp_path / "s.tar", members))
    by_video = {(row["video_id"], row["text"]) for row in rows(made, "captions")}
    assert by_video == {("s/0.left", "Both."), ("s/0.left", "Left."), ("s/0.right", "Both."), ("s/1", "1")}
    assert any("several videos" in guess for guess in made.findings.guesses)
    kinds = create_manifest(shard(tmp_path / "t" / "t.tar", [("0.mp4", A), ("0.webm", B), ("0.txt", "Same.")]))
    assert [row["video_id"] for row in rows(kinds, "videos")] == ["t/0", "t/0.webm"]
    assert {row["text"] for row in rows(kinds, "captions")} == {"Same."}


def test_shards_of_one_name_keep_their_samples_apart(tmp_path: Path) -> None:
    shard(tmp_path / "a.tar", [("0.mp4", A), ("0.txt", "Plain.")])
    shard(tmp_path / "a.tar.gz", [("0.mp4", B), ("0.txt", "Packed.")], compressed=True)
    made = create_manifest(tmp_path)
    assert content_of(tmp_path, made) == {"Plain.": A, "Packed.": B}
    assert {row["video_id"] for row in rows(made, "videos")} == {"a.tar/0", "a.tar.gz/0"}


def test_a_broken_shard_or_table_costs_itself(tmp_path: Path) -> None:
    shards = tmp_path / "shards"
    shard(shards / "a.tar", [("0.mp4", A), ("0.txt", "A ball.")])
    put(
        shards,
        {"b.tar": b"no tar" * 200, "c.tgz": b"\x1f\x8b" + b"no gzip" * 200, "d.tar": b"", "t.csv": "x", "r.md": ""},
    )
    made = create_manifest(shards)
    assert list(texts(made).values()) == ["A ball."]
    assert sum(n for why, n in left_out(made).items() if "damaged shard" in why) == 3
    assert (
        left_out(made)["a table that was not read, since the tar shards are used: to use it instead, give its path"]
        == 1
    )
    tables = put(tmp_path / "tables", {"a.csv": "video,caption\nv,A ball.\n", "c.parquet": b"PAR1"})
    put(tables, {"b.csv": "video,caption,caption\n1,2,3\n", "d.jsonl": line("A box.") + line("\ud800")})
    made = create_manifest(tables)
    assert list(texts(made).values()) == ["A ball.", "A box."]
    assert sum(n for why, n in left_out(made).items() if why.startswith("a table that cannot be read: ")) == 2
    assert any("lone_surrogate" in why for why in left_out(made))


def line(caption: str) -> str:
    return json.dumps({"video": "w", "caption": caption}) + "\n"


def test_a_table_that_breaks_off_keeps_its_rows(tmp_path: Path) -> None:
    table = pa.table({"video": [f"v{n}" for n in range(64)], "caption": ["A ball."] * 64})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=32, compression="none", use_dictionary=False)
    content = bytearray((tmp_path / "t.parquet").read_bytes())
    second = content.index(b"v32") - 40
    content[second : second + 36] = b"\xff" * 36
    (tmp_path / "t.parquet").write_bytes(content)
    made = create_manifest(tmp_path)
    assert 0 < made.holdings.captions < 64
    assert any(why.startswith("the rest of a table that cannot be read: ") for why in left_out(made))


def test_names_that_no_manifest_can_hold(tmp_path: Path) -> None:
    for name in (os.fsdecode(b"\xff"), "bell\x07", "esc\x1b", "C:", "~a"):
        put(tmp_path, {f"{name}.mp4": A, f"{name}.txt": "A ball."})
    put(tmp_path, {"a.mp4": A, "a.txt": "A box."})
    made = create_manifest(tmp_path)
    assert list(texts(made).values()) == ["A box."]
    assert left_out(made) == {
        "a file whose name is not valid UTF-8, or has control characters": 6,
        f"{REFUSED} (path_absolute): {CODES['path_absolute']}": 4,
    }


def test_folders_deeper_than_python_recurses(tmp_path: Path) -> None:
    put(tmp_path, {"a.mp4": A, "a.txt": "A ball."})
    where = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=where)
        where, above = os.open("d", os.O_RDONLY, dir_fd=where), where
        os.close(above)
    for name in ("b.mp4", "b.txt"):
        with open(os.open(name, os.O_WRONLY | os.O_CREAT, dir_fd=where), "w") as file:
            file.write("A box.")
    os.close(where)
    made = create_manifest(tmp_path)
    subprocess.run(["rm", "-r", tmp_path / "d"], check=True)  # deeper than Python can remove
    assert list(texts(made).values()) == ["A ball.", "A box."]
    assert all(len(row["video_id"].encode()) <= 512 for row in rows(made, "videos"))
    assert all(len(row["caption_id"].encode()) <= 512 for row in rows(made, "captions"))


@pytest.mark.parametrize("value", ["1e999", "[1]", "true", '{"a": 1}', '"bell\\u0007"', '"\\ud800"', f'"{"x" * 513}"'])
@pytest.mark.parametrize("field", ["video_id", "caption_id", "system", "path"])
def test_ids_that_are_none_are_said(tmp_path: Path, field: str, value: str) -> None:
    line = {"video_id": "v", "path": "a.mp4", "caption_id": "c", "system": "s", "caption": "Spoilt."}
    spoilt = json.dumps({**line, field: "VALUE"}).replace('"VALUE"', value)
    good = json.dumps({"video_id": 5.0, "path": "a.mp4", "caption": "Good."})
    made = create_manifest(put(tmp_path, {"a.mp4": A, "t.jsonl": f"{spoilt}\n{good}\n"}))
    assert sum(left_out(made).values()) == 1
    assert "5__captions" in texts(made)


def test_holes_and_bombs_fill_no_disk(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "holes.tar", "w", format=tarfile.PAX_FORMAT) as tar:
        hole = tarfile.TarInfo("0.mp4")
        hole.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": str(10**13)}
        block = b"1\n0\n0\n".ljust(512, b"\0")
        hole.size = len(block)
        tar.addfile(hole, io.BytesIO(block))
    shard(tmp_path / "holes2.tar", [("0.txt", "A ball.")])
    bomb = tmp_path / "bomb.tgz"
    with tarfile.open(bomb, "w:gz") as tar:
        zeros = tarfile.TarInfo("0.mp4")
        zeros.size = 100 * 2**20
        tar.addfile(zeros, io.BytesIO(bytes(zeros.size)))
    shard(tmp_path / "good.tar", [("0.mp4", A), ("0.txt", "A box.")])
    with tarfile.open(tmp_path / "liar.tar", "w") as tar:
        lie = tarfile.TarInfo("0.mp4")
        lie.size = 10**13
        tar.fileobj.write(lie.tobuf() + bytes(2048))  # type: ignore[union-attr]
    made = create_manifest(tmp_path)
    assert list(texts(made).values()) == ["A box."]
    assert not (tmp_path / "videos").exists()
    assert sum(n for why, n in left_out(made).items() if "sparse" in why) == 1
    assert sum(n for why, n in left_out(made).items() if "unpacks to more than 100 times its size" in why) == 1
    assert sum(n for why, n in left_out(made).items() if "ends in the middle of the member" in why) == 1


@pytest.mark.parametrize("name", ["0.txt", "0.mp4"])
def test_a_packed_member_of_a_size_below_0_costs_what_comes_after_it(tmp_path: Path, name: str) -> None:
    bad = tarfile.TarInfo(name)
    bad.size = -1
    whole = shard(tmp_path / "s.tar", [("a.mp4", A), ("a.txt", "A ball.")]).read_bytes()
    (tmp_path / "s.tgz").write_bytes(gzip.compress(whole[:2048] + bad.tobuf() + whole[:2048]))
    (tmp_path / "s.tar").unlink()
    made = create_manifest(tmp_path)
    assert content_of(tmp_path, made) == {"A ball.": A}
    assert left_out(made) == {"the rest of a damaged shard (the header at byte 2,048 states a size below 0)": 1}


@pytest.mark.parametrize("name", ["s.tar", "s.tar.gz"])
@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_SPARSE, tarfile.XHDTYPE])
def test_a_shard_that_ends_within_headers_keeps_its_members(tmp_path: Path, name: str, kind: bytes) -> None:
    whole = shard(tmp_path / "s.tar", [("a.mp4", A), ("a.txt", "A ball.")]).read_bytes()
    bad = tarfile.TarInfo("0.mp4")
    bad.type = kind
    header = bytearray(bad.tobuf(tarfile.GNU_FORMAT))
    header[482] = 1  # more of the map of a sparse file follows
    header[148:156] = b"%06o\0 " % (sum(header[:148]) + 8 * 32 + sum(header[156:]))
    content = whole[:2048] + bytes(header) * (1 if kind == tarfile.GNUTYPE_SPARSE else 5000)
    (tmp_path / "s.tar").unlink()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    made = create_manifest(tmp_path)
    assert content_of(tmp_path, made) == {"A ball.": A}
    assert sum(n for why, n in left_out(made).items() if why.startswith("the rest of a damaged shard (")) == 1


def test_shards_whose_members_no_address_can_name_are_unpacked(tmp_path: Path) -> None:
    folder = tmp_path / "x.tar#y"
    shard(folder / "blobs" / "abc", [("0.mp4", A), ("0.txt", "A ball.")])
    (folder / "link.tar").symlink_to("blobs/abc")
    shard(folder / "a.tar", [("0.mp4", B), ("0.txt", "A box.")])
    shard(folder / "b.tar#c.tar", [("0.mp4", A), ("0.txt", "A cup.")])
    made = create_manifest(folder)
    assert content_of(folder, made) == {"A ball.": A, "A box.": B, "A cup.": A}
    assert not any(row["path"].startswith("tar:") for row in rows(made, "videos"))
    folder.rename(tmp_path / "plain")
    for name in ("videos.jsonl", "captions.jsonl"):
        (tmp_path / "plain" / name).unlink()
    made = create_manifest(tmp_path / "plain", tmp_path / "other")
    assert sorted(row["path"] for row in rows(made, "videos") if row["path"].startswith("tar:")) == [
        "tar://root://plain/a.tar#0.mp4",
        "tar://root://plain/link.tar#0.mp4",
    ]


def read_shards(folder: Path, target: Path, free: int) -> list[CaptionedVideo]:
    findings = Findings()
    videos = VideoRegistry(SourceFolder.scan(folder, findings), PathNaming.choose(folder, target, {}), findings)
    target.mkdir()
    extractor = VideoExtractor(target, videos, findings, target, lambda _: free)
    found = find_shards(Source(videos, extractor, findings, ColumnNames(), target))
    assert found is not None
    return list(found.videos)


def test_videos_without_room_on_the_disk_are_not_begun(tmp_path: Path) -> None:
    content = os.urandom(2**17)
    path = shard(tmp_path / "in" / "s.tgz", [("0.mp4", content), ("0.txt", "A ball.")], compressed=True)
    with pytest.raises(NoManifest, match=r"its unpacked videos take up to 0.0 GB.* 0.0 GB free: make room"):
        read_shards(path.parent, tmp_path / "small", 2**16)
    with pytest.raises(NoManifest, match=r"s.tgz: 0.mp4 takes 0.0 GB, and 0.1 GB are free: make room, or give another"):
        read_shards(path.parent, tmp_path / "large", 2**26)
    assert list((tmp_path / "small").iterdir()) == list((tmp_path / "large").iterdir()) == []


def test_an_extraction_that_fails_leaves_no_folder(tmp_path: Path) -> None:
    path = shard(tmp_path / "in" / "s.tgz", [("0.mp4", os.urandom(2**17)), ("0.txt", "A ball.")], compressed=True)
    before = paths(tmp_path)
    with files_of_at_most(2**16), pytest.raises(NoManifest, match=r"cannot be written \(File too large\)"):
        create_manifest(path, tmp_path / "a" / "b")
    with pytest.raises(NoManifest, match="no video with a caption"):
        create_manifest(shard(path, [("0.txt", "A ball.")], compressed=True), tmp_path / "a" / "b")
    assert paths(tmp_path) == before


def test_a_target_that_is_in_the_way_is_said(tmp_path: Path) -> None:
    source = put(tmp_path / "in", {"a.mp4": A, "a.txt": "A ball."})
    put(tmp_path, {"file": ""})
    with pytest.raises(NoManifest, match="it is not a folder"):
        create_manifest(source, tmp_path / "file")
    with pytest.raises(NoManifest, match="cannot be written"):
        create_manifest(source, tmp_path / "file" / "below")
    (source / "captions.jsonl").symlink_to("nowhere")
    with pytest.raises(NoManifest, match=r"captions\.jsonl exists already and is never overwritten: rename it"):
        create_manifest(source)
    members = [("0.mp4", A), ("0.txt", "A ball."), ("1/0.mp4", A), ("1/0.txt", "A box.")]
    path = shard(tmp_path / "s" / "s.tgz", members, compressed=True)
    put(path.parent, {"videos/s/1": "mine"})
    made = create_manifest(path)
    assert list(texts(made).values()) == ["A ball."]
    assert left_out(made) == {"a video that cannot be written (Not a directory)": 1}
    assert (path.parent / "videos/s/1").read_text() == "mine"
    elsewhere = shard(tmp_path / "t" / "s.tgz", [("0.mp4", A), ("0.txt", "A ball.")], compressed=True)
    (elsewhere.parent / "videos").symlink_to(tmp_path)
    with pytest.raises(NoManifest, match=r"leads out of .* through a link"):
        create_manifest(elsewhere)
    assert not (tmp_path / "s" / "0.mp4").exists()


def test_a_damaged_arrow_file_is_left_out(tmp_path: Path) -> None:
    table = pa.table({"video": [f"v{n}" for n in range(20)], "caption": ["A ball."] * 20})
    with pa.ipc.new_file(str(tmp_path / "t.arrow"), table.schema) as writer:
        writer.write_table(table)
    content = bytearray((tmp_path / "t.arrow").read_bytes())
    offsets = content.index(b"".join((2 * n).to_bytes(4, "little") for n in range(5)))
    content[offsets + 40 : offsets + 44] = b"\xff\xff\xff\x7f"
    (tmp_path / "t.arrow").write_bytes(content)
    with pytest.raises(NoManifest, match=r"t\.arrow: cannot be read: .* out of bounds"):
        create_manifest(tmp_path)
