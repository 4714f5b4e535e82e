"""Videos inside Lance tables, on disk and in S3: the same bytes as of a file, and every fault named in a sentence."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.home.settings import read_settings
from assets.ingest.rejects import Code, Reject
from assets.media.address import (
    AddressRefused,
    MemberAddress,
    can_name_members,
    hide_address_credentials,
    parse_member_address,
)
from assets.media.errors import MediaUnavailable
from assets.media.files import hold_ingested_file
from assets.media.lance_tables import check_size, read_row
from assets.media.settings import MediaSettings
from assets.media.tar_index import MAX_MEMBER_BYTES
from metrics_core.frames import DecodingWorker
from tests.assets.manifests import write_clip
from tests.assets.media_servers import BUCKET, S3Bucket, s3_store
from tests.assets.test_media_members import content, ingested, look

lance = pytest.importorskip("lance", reason="the extra `lance` is not installed")
PLACE = {"uri", "mtime_ns", "ctime_ns", "inode", "etag", "key"}


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Sequence[bytes]:
    """Three clips of five, six and seven frames."""
    folder = tmp_path_factory.mktemp("clips")
    return [write_clip(folder / f"{n}.avi", n_frames=5 + n).read_bytes() for n in range(3)]


def column_of(kind: str, name: str, files: Sequence[bytes | None]) -> tuple[pa.Field, pa.Array]:
    """A column that holds files in one of the ways of Lance."""
    if kind == "blob":
        return lance.blob_field(name), lance.blob_array(list(files))
    metadata = {"lance-encoding:blob": "true"} if kind == "old blob" else None
    kept = pa.binary() if kind == "binary" else pa.large_binary()
    return pa.field(name, kept, metadata=metadata), pa.array(files, kept)


def write_table(path: Path, files: Sequence[bytes | None], kind: str = "blob", **options: Any) -> Path:
    """Write a table with a column `video` of files."""
    field, column = column_of(kind, "video", files)
    rows = pa.table([pa.array(range(len(files))), column], schema=pa.schema([pa.field("n", pa.int64()), field]))
    version = {"data_storage_version": "2.0"} if kind == "old blob" else {}
    lance.write_dataset(rows, str(path), **version, **options)
    return path


@pytest.fixture
def table(tmp_path: Path, clips: Sequence[bytes]) -> Path:
    return write_table(tmp_path / "t.lance", clips)


def list_row_ids(table: Path) -> list[int]:
    read: list[int] = (
        lance.dataset(str(table)).to_table(columns=["n"], with_row_id=True).sort_by("n")["_rowid"].to_pylist()
    )
    return read


@pytest.mark.parametrize("kind", ["blob", "old blob", "binary", "large binary"])
def test_a_row_has_the_bytes_and_the_columns_of_its_file(kind: str, tmp_path: Path, clips: Sequence[bytes]) -> None:
    write_table(tmp_path / "t.lance", clips, kind, max_rows_per_file=2)
    (tmp_path / "v.avi").write_bytes(clips[2])
    file = ingested(tmp_path, "v.avi")
    # The second file of a table begins at row 2^32.
    for address in (f"lance://t.lance#video/{1 << 32}", f"LANCE://t.lance#{1 << 32}"):
        row = ingested(tmp_path, address)
        assert content(row) == clips[2]
        assert {n: v for n, v in vars(row).items() if n not in PLACE} == {
            n: v for n, v in vars(file).items() if n not in PLACE
        }
        assert row.uri == f"lance://{tmp_path}/t.lance#{address.partition('#')[2]}"
        assert (row.member_offset, row.mtime_ns, row.status, row.n_frames) == (None, None, "ok", 7)
    assert [content(ingested(tmp_path, f"lance://t.lance#{n}")) for n in range(2)] == list(clips[:2])


@given(
    st.lists(st.one_of(st.none(), st.binary(max_size=40), st.just(bytes(200_000))), min_size=1, max_size=6),
    st.sampled_from(["blob", "old blob", "binary", "large binary"]),
    st.integers(1, 4),
)
def test_whatever_cells_hold_is_read_or_named(files: list[bytes | None], kind: str, rows_per_file: int) -> None:
    settings = read_settings(MediaSettings)
    with tempfile.TemporaryDirectory() as folder:
        table = write_table(Path(folder).resolve() / "t.lance", files, kind, max_rows_per_file=rows_per_file)
        for row_id, file in zip(list_row_ids(table), files, strict=True):
            blocks = read_row(table, f"video/{row_id}", settings)
            if file is None:
                with pytest.raises(MediaUnavailable, match="the row has no file in this column"):
                    next(blocks)
            else:
                assert b"".join(blocks) == file


@pytest.mark.parametrize("kind", ["blob", "large binary"])
def test_a_large_file_comes_in_blocks(kind: str, tmp_path: Path) -> None:
    data = os.urandom(5 << 20)
    write_table(tmp_path / "t.lance", [data], kind)
    blocks = list(read_row(tmp_path / "t.lance", "0", read_settings(MediaSettings)))
    assert b"".join(blocks) == data
    assert max(map(len, blocks)) <= 1 << 20


def test_files_over_the_limit_are_refused() -> None:
    check_size(MAX_MEMBER_BYTES)
    with pytest.raises(MediaUnavailable, match=r"^the file is larger than 2 GiB: give it as a file of its own$"):
        check_size(MAX_MEMBER_BYTES + 1)


def test_a_row_decodes_like_its_file(table: Path, tmp_path: Path, clips: Sequence[bytes]) -> None:
    (tmp_path / "v.avi").write_bytes(clips[1])
    row, file = ingested(tmp_path, "lance://t.lance#1"), ingested(tmp_path, "v.avi")
    with DecodingWorker() as worker, hold_ingested_file(row) as held, hold_ingested_file(file) as own:
        frames, expected = worker.read_frames(held.path, every=1), worker.read_frames(own.path, every=1)
    assert np.array_equal(frames.pixels, expected.pixels)
    assert np.array_equal(frames.times_s, expected.times_s)


def test_an_unchanged_table_is_not_read(table: Path, tmp_path: Path) -> None:
    known = ingested(tmp_path, "lance://t.lance#1")
    marked = SimpleNamespace(**{**vars(known), "codec": "kept", "content_sha256": bytes(32)})
    assert ingested(tmp_path, known.uri, marked) == marked
    # In a new version the row is read again, and not probed again where its content is the same.
    lance.write_dataset(lance.dataset(str(table)).to_table(columns=["n"]), str(table), mode="append")
    marked = SimpleNamespace(**{**vars(known), "codec": "kept"})
    again = ingested(tmp_path, known.uri, marked)
    assert (again.codec, again.content_sha256) == ("kept", known.content_sha256)
    assert (known.etag[:12], again.etag[:12]) == ("version 1 of", "version 2 of")


def test_rows_of_a_version_that_moved_are_read_if_they_are_the_same(
    table: Path, tmp_path: Path, clips: Sequence[bytes]
) -> None:
    videos = [ingested(tmp_path, f"lance://t.lance#video/{n}") for n in range(3)]
    other = pa.table({"n": [1], "video": lance.blob_array([clips[2]])}, schema=lance.dataset(str(table)).schema)
    lance.dataset(str(table)).merge_insert("n").when_matched_update_all().execute(other)
    lance.dataset(str(table)).delete("n = 2")
    assert content(videos[0]) == clips[0]
    for video in videos[1:]:
        with pytest.raises(MediaUnavailable, match=r"^the table has no row of this id.*: put the file back or "):
            content(video)
    assert code_of(look(tmp_path, videos[2].uri, videos[2])) == "file_missing"
    # A table that was made again counts its versions anew.
    shutil.rmtree(table)
    write_table(table, [clips[1], clips[1]])
    with pytest.raises(MediaUnavailable, match=r"^the file has changed since it was ingested: put the file back"):
        content(videos[0])
    assert content(videos[1]) == clips[1]
    assert ingested(tmp_path, videos[0].uri, videos[0]).content_sha256 == videos[1].content_sha256
    shutil.rmtree(table)
    with pytest.raises(MediaUnavailable, match="there is no Lance table"):
        content(videos[1])


@pytest.mark.parametrize("is_stable", [False, True])
def test_a_compaction_keeps_stable_row_ids_and_names_others(
    is_stable: bool, tmp_path: Path, clips: Sequence[bytes]
) -> None:
    table = write_table(tmp_path / "t.lance", clips, max_rows_per_file=2, enable_stable_row_ids=is_stable)
    videos = [ingested(tmp_path, f"lance://t.lance#{row_id}") for row_id in list_row_ids(table)]
    lance.dataset(str(table)).optimize.compact_files()
    for video, clip in zip(videos, clips, strict=True):
        if is_stable:
            assert content(video) == clip
        else:
            with pytest.raises(MediaUnavailable, match="the table has no row of this id"):
                content(video)


def code_of(looked: SimpleNamespace | Reject) -> Code:
    assert isinstance(looked, Reject), looked
    return looked.code


def refused(folder: Path, address: str) -> tuple[Code, str]:
    looked = look(folder, address)
    assert isinstance(looked, Reject), looked
    assert "\n" not in looked.reason
    assert "secret@" not in looked.reason
    return looked.code, looked.reason.removeprefix(f"field 'path' is {hide_address_credentials(address)!r}: ")


def write_hostile_tables(folder: Path, clips: Sequence[bytes]) -> None:
    """Tables t and two (with two columns of files), and others with a fault of which their name tells."""
    for name in ("t", "cut", "gone", "inner", "broken"):
        write_table(folder / f"{name}.lance", [*clips, None, b"no video"])
    fields, columns = zip(column_of("blob", "a", clips), column_of("binary", "b/c", clips), strict=True)
    lance.write_dataset(pa.table(list(columns), schema=pa.schema(fields)), str(folder / "two.lance"))
    lance.write_dataset(pa.table({"video": ["a.mp4"]}), str(folder / "none.lance"))
    (folder / "secret.avi").write_bytes(clips[0])
    named = lance.Blob.from_uri((folder / "secret.avi").as_uri())
    rows = pa.table([lance.blob_array([named])], schema=pa.schema([lance.blob_field("video")]))
    lance.write_dataset(rows, str(folder / "named.lance"), allow_external_blob_outside_bases=True)
    lance.dataset(str(folder / "t.lance")).shallow_clone(str(folder / "clone.lance"), 1)
    (folder / "file.lance").write_bytes(b"no folder")
    (folder / "empty.lance").mkdir()
    (folder / "link.lance").symlink_to(folder / "t.lance")
    (data,) = (folder / "cut.lance" / "data").glob("*.lance")
    os.truncate(data, 100)
    (data,) = (folder / "gone.lance" / "data").glob("*.lance")
    data.unlink()
    (manifest,) = (folder / "broken.lance" / "_versions").glob("*.manifest")
    manifest.write_bytes(bytes(byte ^ 255 for byte in manifest.read_bytes()))
    (data,) = (folder / "inner.lance" / "data").glob("*.lance")
    data.rename(folder / "elsewhere")
    data.symlink_to(folder / "elsewhere")


def test_bad_rows_and_tables_are_refused_in_one_sentence(tmp_path: Path, clips: Sequence[bytes]) -> None:
    write_hostile_tables(tmp_path, clips)
    expected: Mapping[str, tuple[Code, str]] = {
        "t.lance#video/3": ("not_a_file", "the row has no file in this column: give the row a file"),
        "t.lance#video/4": ("not_a_video", ""),
        "t.lance#video/5": ("file_missing", "the table has no row of this id: it was deleted"),
        "t.lance#5": ("file_missing", "the table has no row of this id: it was deleted"),
        "t.lance#999999999999999999": ("file_missing", "the table has no row of this id: it was deleted"),
        "t.lance#n/0": ("file_missing", "the table has no column 'n' of files: it has 'video'"),
        "two.lance#0": ("not_a_file", "the table has several columns of files: name one of 'a', 'b/c', as in #COLUMN"),
        "two.lance#a/b/0": ("file_missing", "the table has no column 'a/b' of files: it has 'a', 'b/c'"),
        "none.lance#0": ("not_a_file", "the table has no column of files"),
        "none.lance#video/0": ("file_missing", "the table has no column 'video' of files: it has none"),
        "named.lance#0": ("path_escape", "the row only names a file that lies elsewhere"),
        "clone.lance#0": ("path_escape", "the table has files outside its own folder"),
        "inner.lance#0": ("path_escape", "the table has files outside its own folder"),
        "cut.lance#0": ("not_a_file", "the table cannot be read: put the complete table there"),
        "gone.lance#0": ("not_a_file", "the table cannot be read: put the complete table there"),
        "broken.lance#0": ("not_a_file", "the table cannot be read: put the complete table there"),
        "file.lance#0": ("not_a_file", "the table cannot be read: put the complete table there"),
        "empty.lance#0": ("file_missing", "there is no Lance table"),
        "nowhere.lance#0": ("file_missing", ""),
        f"../{tmp_path.name}/t.lance#0": ("path_escape", ""),
        "/etc/t.lance#0": ("path_absolute", ""),
        "root://nowhere/t.lance#0": ("media_unavailable", "this machine has no media root 'nowhere'"),
        "https://ann:secret@host.example/t.lance#0": ("path_url", "it holds a user or a password"),
        "https://host.example/t.lance#0": ("media_unavailable", "a Lance table is read on this machine and in s3://"),
        "gs://bucket/t.lance#0": ("media_unavailable", "a Lance table is read on this machine and in s3:// stores"),
    }
    for address, (code, reason) in expected.items():
        given_code, given_reason = refused(tmp_path, f"lance://{address}")
        assert given_code == code, (address, given_reason)
        assert given_reason.startswith(reason), address
    for name in ("a/0", "b/c/2"):
        assert content(ingested(tmp_path, f"lance://two.lance#{name}")) == clips[int(name[-1])]
    assert content(ingested(tmp_path, "lance://link.lance#0")) == clips[0], "a link inside the folder is followed"


def test_what_takes_the_place_of_a_table_is_not_opened(table: Path, tmp_path: Path) -> None:
    video = ingested(tmp_path, "lance://t.lance#0")
    table.rename(tmp_path / "other.lance")
    table.symlink_to(tmp_path / "other.lance")
    with pytest.raises(MediaUnavailable, match="the table has files outside its own folder"):
        content(video)


def test_tables_lie_in_the_folder_or_below_a_root(
    table: Path, tmp_path: Path, clips: Sequence[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "m").mkdir()
    assert refused(tmp_path / "m", f"lance://{table}#0")[0] == "path_absolute"
    monkeypatch.setenv("REELSIEVE_MEDIA_ROOTS", json.dumps({"tables": str(tmp_path)}))
    for place in (str(table), "root://tables/t.lance"):
        row = ingested(tmp_path / "m", f"lance://{place}#video/2")
        assert (row.uri, content(row)) == (f"lance://{place}#video/2", clips[2])
    assert refused(tmp_path / "m", "lance://root://tables/x.lance#0")[0] == "file_missing"


@pytest.mark.parametrize(
    "address",
    [
        "lance://t.lance",
        "lance://t.lance#",
        "lance://t.lance#video",
        "lance://t.lance#video/",
        "lance://t.lance#/0",
        "lance://t.lance#-1",
        "lance://t.lance#0x1",
        "lance://t.lance#1234567890123456789",
        "lance://t.tar#0",
        "lance://ftp://host/t.lance#0",
        "lance://https://ann:secret@host/t.lance#0",
        "lance://t.lance#vid\x07eo/0",
    ],
)
def test_addresses_that_name_no_row_are_refused(address: str) -> None:
    with pytest.raises(AddressRefused) as refusal:
        parse_member_address(address)
    assert "secret" not in str(refusal.value)


def test_addresses_are_parsed_into_their_parts() -> None:
    parsed = {
        "lance://a/t.lance#video/7": MemberAddress("lance", "a/t.lance", "video/7"),
        "LANCE://S3://bucket/t.LANCE#c/d.lance#e/7": MemberAddress("lance", "s3://bucket/t.LANCE", "c/d.lance#e/7"),
        "lance://x.tar#/t.lance#7": MemberAddress("lance", "x.tar#/t.lance", "7"),
    }
    assert {text: parse_member_address(text) for text in parsed} == parsed
    assert can_name_members("lance", "/data/t.lance")
    assert not can_name_members("lance", "/data/t.lance#/u.lance")


def test_a_missing_package_is_named_with_what_brings_it(table: Path) -> None:
    program = f"""
import sys
from pathlib import Path
sys.modules["lance"] = None  # importing it now raises ImportError
from assets.ingest.video_columns import inspect_video
from assets.ingest.rows import VideoRow
print(inspect_video(Path({str(table.parent)!r}), VideoRow(video_id="v", path="lance://t.lance#0"), None))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "media_unavailable" in done.stdout
    assert "no reader of Lance tables is installed: pip install 'reelsieve[lance]'" in done.stdout


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Generator[S3Bucket, None, None]:
    with s3_store(tmp_path_factory.mktemp("cache")) as bucket:
        yield bucket


@pytest.mark.slow
def test_rows_of_a_table_in_s3(
    bucket: S3Bucket, table: Path, clips: Sequence[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in table.rglob("*"):
        if file.is_file():
            bucket.put(f"day/{file.relative_to(tmp_path)}", file.read_bytes())
    address = f"lance://s3://{BUCKET}/day/t.lance#video/1"
    video = ingested(tmp_path, address)
    assert (video.uri, content(video)) == (address, clips[1])
    assert ingested(tmp_path, address, SimpleNamespace(**{**vars(video), "codec": "kept"})).codec == "kept"
    assert refused(tmp_path, f"lance://s3://{BUCKET}/day/t.lance#video/9")[0] == "file_missing"
    assert refused(tmp_path, f"lance://s3://{BUCKET}/day/none.lance#0")[1].startswith("there is no Lance table")
    assert refused(tmp_path, "lance://s3://no-such-bucket/t.lance#0")[0] in ("file_missing", "media_unavailable")
    monkeypatch.setenv("REELSIEVE_MEDIA_PRIVATE_NETWORKS", '["10.1.0.0/16"]')
    code, reason = refused(tmp_path, address)
    assert (code, reason.startswith("the address leads to 127.0.0.1 in a private network")) == (
        "media_unavailable",
        True,
    )
