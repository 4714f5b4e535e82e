"""`reelsieve init` on what people reported: pointers of Git LFS, other kinds of files, first lines of tables."""

from __future__ import annotations

import json
from io import DEFAULT_BUFFER_SIZE, BufferedReader, FileIO
from pathlib import Path

import pytest

from assets.ingest.files import open_table
from assets.ingest.rejects import CODES, ManifestError
from assets.new_manifest.columns import guess_columns
from assets.new_manifest.findings import Findings, NoManifest, Reason
from assets.new_manifest.make import create_manifest
from assets.new_manifest.table_files import TableFile
from metrics_core.frames import NotAVideo, get_shared_worker
from metrics_core.git_lfs import GIT_LFS_REMEDY
from tests.assets.init_sources import Files, left_out, put, rows, shard, texts

POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'6f' * 32}\nsize 12\n"


def test_a_pointer_of_git_lfs_is_no_file(tmp_path: Path) -> None:
    files: Files = {
        "a.mp4": "x",
        "a.txt": "A dog.",
        "b.mp4": "x",
        "b.txt": POINTER,
        "c.mp4": POINTER,
        "t.csv": POINTER,
        "x.tar": POINTER,
    }
    made = create_manifest(put(tmp_path, files))
    assert texts(made) == {"a__captions": "A dog."}
    assert left_out(made) == {GIT_LFS_REMEDY: 4}


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "s.tar", "rows.jsonl"])
def test_a_source_that_is_a_pointer_of_git_lfs_is_refused(tmp_path: Path, name: str) -> None:
    for source in (put(tmp_path, {name: POINTER}), tmp_path / name):
        with pytest.raises((NoManifest, ManifestError), match="Git LFS"):
            create_manifest(source)


def test_a_video_that_is_a_pointer_is_named_so(tmp_path: Path) -> None:
    with pytest.raises(NotAVideo, match="git lfs pull"):
        get_shared_worker().probe_video(put(tmp_path, {"a.mp4": POINTER}) / "a.mp4")


@pytest.mark.parametrize("suffix", [".ts", ".m2ts", ".MTS", ".gif", ".3g2", ".f4v", ".vob"])
def test_every_kind_of_file_that_pyav_reads_is_a_video(tmp_path: Path, suffix: str) -> None:
    put(tmp_path, {f"clip{suffix}": "x", "t.csv": f"video,caption\nclip{suffix},A dog.\n"})
    assert [row["path"] for row in rows(create_manifest(tmp_path), "videos")] == [f"clip{suffix}"]


def test_things_are_left_out_by_a_code_and_its_details() -> None:
    findings = Findings()
    for field in ("a", "b", "a"):
        findings.leave_out(Reason.LIST_OF_TOOL, f"t:{field}", field=field)
    findings.leave_out_refused("video", "nan", "t:4")
    assert [(reason, dict(details), things.n) for (reason, details), things in findings.left_out.items()] == [
        (Reason.LIST_OF_TOOL, {"field": "a"}, 2),
        (Reason.LIST_OF_TOOL, {"field": "b"}, 1),
        (Reason.REFUSED, {"kind": "video", "code": "nan"}, 1),
    ]
    first, _, last = findings.list_left_out()
    assert first == {"left out": "field 'a' of the tool, since it is a list", "n": 2, "first": "t:a"}
    assert last["left out"] == f"a video that ingest would refuse (nan): {CODES['nan']}"


def test_packed_files_are_to_be_unpacked(tmp_path: Path) -> None:
    clips = put(tmp_path / "clips", {"a.mp4": "x", "a.txt": "A dog.", "more.zip": "x", "t.csv.gz": "x"})
    assert left_out(create_manifest(clips)) == {"a packed file: unpack it": 2}
    packed = put(tmp_path / "packed", {"clips.zip": "x"})
    with pytest.raises(NoManifest, match=r"only packed files, such as clips\.zip: unpack them"):
        create_manifest(packed)
    with pytest.raises(NoManifest, match="it is a packed file: unpack it"):
        create_manifest(packed / "clips.zip")


@pytest.mark.parametrize(
    "content",
    [
        b"sep=;\r\nVideo;Beschreibung\r\na.mp4;A dog.\r\n",
        b'\xef\xbb\xbf"sep=|"\nvideo|caption\na.mp4|A dog.\n',
        "sep=;\r\nvideo;caption\r\na.mp4;A dog.\r\n".encode("utf-16"),
        b"# exported 2026, by me\n\n# again\nvideo,caption\na.mp4,A dog.\n",
        b"#video,caption\na.mp4,A dog.\n",
        b"video,caption\ra.mp4,A dog.\r",
    ],
)
def test_lines_before_the_header_are_no_header(tmp_path: Path, content: bytes) -> None:
    made = create_manifest(put(tmp_path, {"t.csv": content, "a.mp4": "x"}))
    assert texts(made) == {"a__captions": "A dog."}


def test_lines_keep_their_numbers_below_a_comment(tmp_path: Path) -> None:
    made = create_manifest(
        put(tmp_path, {"a.mp4": "x", "t.csv": "# mine\nvideo,caption\na.mp4,A dog.\nb.mp4,A, cat.\n"})
    )
    assert [row["first"] for row in made.findings.list_left_out()] == ["t.csv:4"]


@pytest.mark.parametrize("row", ["a.mp4,A dog.", "A dog.,a", "https://example.org/a.mp4,A dog."])
def test_a_table_without_a_header_is_refused(tmp_path: Path, row: str) -> None:
    with pytest.raises(NoManifest, match=r"^t\.csv: the first line is a row, not a header"):
        create_manifest(put(tmp_path, {"t.csv": f"{row}\n", "a.mp4": "x"}))


def test_members_of_a_sample_may_stand_anywhere_in_a_plain_shard(tmp_path: Path) -> None:
    members = [("a.mp4", "x"), ("b.mp4", "y"), ("a.txt", "A of a."), ("b.txt", "B of b.")]
    assert texts(create_manifest(shard(tmp_path / "plain" / "s.tar", members))) == {
        "s/a__captions": "A of a.",
        "s/b__captions": "B of b.",
    }
    packed = create_manifest(shard(tmp_path / "packed" / "s.tgz", members, compressed=True))
    assert texts(packed) == {}
    assert any("must follow each other, as tar --sort=name" in why for why in left_out(packed))


@pytest.mark.parametrize(
    ("video", "caption"),
    [
        ("videos/a.mp4", "metas/a.txt"),
        ("train/videos/a.mp4", "train/captions/a.json"),
        ("videos/part/a.mp4", "labels/part/a.en.srt"),
        ("a.mp4", "texts/a.txt"),
        ("clips/a.mp4", "a.txt"),
    ],
)
def test_captions_in_a_folder_of_their_own_are_paired_by_name(tmp_path: Path, video: str, caption: str) -> None:
    content = {"json": '{"caption": "A dog."}', "srt": "1\n00:00:00,000 --> 00:00:01,000\nA dog.\n"}
    put(tmp_path, {video: "x", caption: content.get(caption.split(".")[-1], "A dog."), "stats.csv": "x,y\n1,2\n"})
    made = create_manifest(tmp_path)
    assert [row["text"] for row in rows(made, "captions")] == ["A dog."]
    assert [row["path"] for row in rows(made, "videos")] == [video]
    assert any(guess.startswith("captions in folder ") for guess in made.findings.guesses)


@pytest.mark.parametrize(
    "files",
    [
        {"train/videos/a.mp4": "x", "test/metas/a.txt": "A dog."},
        {"train/a.mp4": "x", "test/a.txt": "A dog."},
        {"one/a.mp4": "x", "two/a.mp4": "x", "metas/a.txt": "A dog."},
    ],
)
def test_captions_that_may_be_of_other_videos_are_not_paired(tmp_path: Path, files: Files) -> None:
    made = create_manifest(put(tmp_path, files))
    assert (rows(made, "captions"), left_out(made)) == ([], {"a caption file without a video": 1})


def test_a_table_counts_before_captions_in_a_folder_of_their_own(tmp_path: Path) -> None:
    put(tmp_path, {"videos/a.mp4": "x", "labels/a.txt": "0 0.5 0.5", "t.csv": "video,caption\na.mp4,A dog.\n"})
    assert [row["text"] for row in rows(create_manifest(tmp_path), "captions")] == ["A dog."]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".json"])
def test_a_table_of_a_source_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    rows = [{"video": f"{n}.mp4", "caption": f"A dog of {n} years {'runs ' * 200}"} for n in range(1000)]
    table = tmp_path / "source" / f"table{suffix}"
    table.parent.mkdir()
    if suffix == ".csv":
        table.write_text("video,caption\n" + "".join(f"{row['video']},{row['caption']}\n" for row in rows))
    else:
        lines = map(json.dumps, rows)
        table.write_text("\n".join(lines) if suffix == ".jsonl" else f"[{', '.join(lines)}]")
    n_bytes = []

    class Counted(FileIO):
        def readinto(self, buffer: bytearray) -> int | None:  # type: ignore[override]  # any buffer
            n_bytes.append(super().readinto(buffer) or 0)
            return n_bytes[-1]

    monkeypatch.setattr("assets.ingest.files.open_regular", lambda path: BufferedReader(Counted(path)))
    assert create_manifest(table.parent, tmp_path / "made").holdings.captions == len(rows)
    # The beginning is looked at before, for a mark or a pointer in place of the file.
    assert table.stat().st_size <= sum(n_bytes) <= table.stat().st_size + 3 * DEFAULT_BUFFER_SIZE


def test_a_full_disk_is_not_taken_for_an_unreadable_table(tmp_path: Path) -> None:
    source = put(tmp_path, {"t.csv": "video,caption\nv,A dog.\n"}) / "t.csv"
    with open_table(source) as file:
        table = TableFile.start(file, source, Path("/dev/full"), lambda _: False)
        with pytest.raises(NoManifest, match=r"^/dev: cannot be written \(No space left"):
            list(table.read_cells(file, guess_columns(table.names), ["video"]))
