"""Files of a manifest: only regular ones inside its folder are opened, and one that changes meanwhile is noticed."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.ingest.declarations import read_declarations
from assets.ingest.files import OpenFile, check_regular_file
from assets.ingest.manifest import list_table_files
from assets.ingest.readers import count_table_rows, read_table
from assets.ingest.rejects import ManifestError
from assets.ingest.rows import RawRow
from assets.ingest.run import ingest_folder
from assets.ingest.write import BATCH_SIZE
from tests.assets.manifests import candidate, of_kind, write_lines, write_manifest

RATING = {"caption_id": "c", "rater": "r", "aspect": "coverage", "value": 5}


def pipe(path: Path) -> None:
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.mkdir()


def link_to_nothing(path: Path) -> None:
    path.symlink_to("gone")


def link_to_itself(path: Path) -> None:
    path.symlink_to(path.name)


def link_out(path: Path) -> None:
    (path.parent.parent / "secret.txt").write_text("secret")
    path.symlink_to("../secret.txt")


def link_to_endless_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def link_to_a_pipe(path: Path) -> None:
    os.mkfifo(path.parent / "pipe")
    path.symlink_to("pipe")


def listening_socket(path: Path) -> None:
    # The name of a socket may be no longer than some hundred characters.
    with socket.socket(socket.AF_UNIX) as server:
        before = Path.cwd()
        os.chdir(path.parent)
        server.bind(path.name)
        os.chdir(before)


NOT_A_FILE = "it is a folder, a pipe or a device"
NOWHERE = "it is a link that leads nowhere"
OUT = "it is a link that leads out of the folder"
BAD_FILES: list[tuple[Callable[[Path], None], str]] = [
    (pipe, NOT_A_FILE),
    (folder, NOT_A_FILE),
    (listening_socket, NOT_A_FILE),
    (link_to_a_pipe, NOT_A_FILE),
    (link_to_nothing, NOWHERE),
    (link_to_itself, NOWHERE),
    (link_out, OUT),
    (link_to_endless_device, OUT),
]


@pytest.mark.parametrize("name", ["captions.jsonl", "qa.csv", "ratings.parquet", "dimensions.json"])
@pytest.mark.parametrize(("make", "fault"), BAD_FILES)
def test_what_is_no_regular_file_of_the_folder_is_named(
    tmp_path: Path, name: str, make: Callable[[Path], None], fault: str
) -> None:
    manifest = write_manifest(tmp_path / "set", ["v"])
    (manifest / name).unlink(missing_ok=True)
    make(manifest / name)
    with pytest.raises(ManifestError, match=f"set/{name}: {fault}: put "):
        read_declarations(manifest) if name == "dimensions.json" else list_table_files(manifest)


def test_a_link_within_the_folder_is_a_table_under_its_own_name(tmp_path: Path) -> None:
    manifest = write_manifest(tmp_path / "set", ["v"])
    (manifest / "old").mkdir()
    write_lines(manifest / "old" / "2024.jsonl", [RATING])
    (manifest / "ratings.jsonl").symlink_to("old/2024.jsonl")
    path = list_table_files(manifest)["rating"]
    assert [row.source for row in read_table(path, "rating")] == ["ratings.jsonl"]


@pytest.mark.parametrize("make", [pipe, folder, link_to_a_pipe])
def test_a_file_of_mixed_rows_lies_anywhere_but_is_regular(
    engine: Engine, tmp_path: Path, make: Callable[[Path], None]
) -> None:
    manifest = write_manifest(tmp_path / "set", ["v"])
    make(tmp_path / "more.jsonl")
    with pytest.raises(ManifestError, match=r"more\.jsonl: cannot be read: it is a (folder|pipe or a device): name"):
        ingest_folder(engine, manifest, "set", mixed_rows=tmp_path / "more.jsonl")
    with engine.connect() as connection:
        assert connection.scalar(sa.text("SELECT count(*) FROM dataset")) == 0
    write_lines(tmp_path / "rows.jsonl", of_kind("video", {"video_id": "w"}))
    (tmp_path / "link.jsonl").symlink_to("rows.jsonl")
    report = ingest_folder(engine, manifest, "set", mixed_rows=tmp_path / "link.jsonl")
    assert report.accepted["videos"] == 2


def test_files_of_mixed_rows_that_cannot_be_named_in_the_database_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="cannot be read"):
        check_regular_file(tmp_path / "missing.jsonl")
    odd = tmp_path / os.fsdecode(b"more\xff.jsonl")
    odd.touch()
    with pytest.raises(ManifestError, match=r"'more.udcff.jsonl': the name is not valid UTF-8"):
        check_regular_file(odd)


# Files that change while they are read


JSON_ROW = b'{"caption_id": "c", "rater": "r", "aspect": "a", "value": 5}\n'


def of_json_lines(path: Path) -> tuple[Iterator[RawRow], bytes]:
    path.write_bytes(JSON_ROW * 3)
    return read_table(path, "rating"), JSON_ROW


def of_mixed_rows(path: Path) -> tuple[Iterator[RawRow], bytes]:
    line = JSON_ROW.replace(b"{", b'{"kind": "rating", ')
    path.write_bytes(line * 3)
    return read_table(path, None), line


def of_csv(path: Path) -> tuple[Iterator[RawRow], bytes]:
    path = path.with_suffix(".csv")
    path.write_bytes(b"caption_id,rater,aspect,value\n" + b"c,r,a,5\n" * 3)
    return read_table(path, "rating"), b"c,r,a,5\n"


def of_parquet(path: Path) -> tuple[Iterator[RawRow], bytes]:
    path = path.with_suffix(".parquet")
    pq.write_table(pa.table({name: [value] * 3 for name, value in RATING.items()}), path)
    return read_table(path, "rating"), b"PAR1"


@pytest.mark.parametrize("make", [of_json_lines, of_mixed_rows, of_csv, of_parquet])
def test_a_file_that_grows_for_ever_is_read_to_its_first_end_and_named(
    tmp_path: Path, make: Callable[[Path], tuple[Iterator[RawRow], bytes]]
) -> None:
    rows, more = make(tmp_path / "ratings.jsonl")
    (path,) = tmp_path.iterdir()
    n_read = 0

    def read_while_it_grows() -> None:
        nonlocal n_read
        for row in rows:
            assert row.reject is None
            n_read += 1
            with path.open("ab") as file:
                file.write(more * 2)

    with pytest.raises(ManifestError, match=rf"{path.name}: it changed while it was read: run the same command again"):
        read_while_it_grows()
    assert n_read == 3


@pytest.mark.parametrize("change", ["replaced", "removed", "written again"])
def test_other_changes_are_noticed_too(tmp_path: Path, change: str) -> None:
    path = tmp_path / "ratings.jsonl"
    rows, _ = of_json_lines(path)
    next(rows)
    stat = path.stat()
    if change == "replaced":
        (tmp_path / "new").write_bytes(path.read_bytes())
        os.utime(tmp_path / "new", ns=(stat.st_atime_ns, stat.st_mtime_ns))
        (tmp_path / "new").replace(path)
    elif change == "removed":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes())
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    with pytest.raises(ManifestError, match=r"^ratings\.jsonl: (it changed|cannot be read)"):
        list(rows)


def test_counting_a_growing_file_ends(tmp_path: Path) -> None:
    path = tmp_path / "ratings.jsonl"
    of_json_lines(path)
    assert count_table_rows(path, "rating") == 3
    with path.open("rb") as file:
        opened = OpenFile(file)
        blocks = [opened.read(len(JSON_ROW))]
        with path.open("ab") as more:
            more.write(JSON_ROW)
        while block := opened.read(len(JSON_ROW)):
            blocks.append(block)
    assert blocks == [JSON_ROW] * 3


def test_an_ingest_whose_table_grows_keeps_what_it_read_and_the_next_one_ends_it(
    engine: Engine, tmp_path: Path
) -> None:
    captions = [candidate(f"c{i}", "v", f"Caption {i}.") for i in range(BATCH_SIZE + 10)]
    manifest = write_manifest(tmp_path / "set", ["v"], captions=captions)
    table = manifest / "captions.jsonl"
    whole = table.read_bytes()
    table.write_bytes(whole[:-30])

    def grow(source: str, done: int) -> None:
        if source == table.name:
            table.write_bytes(whole)

    with pytest.raises(ManifestError, match="it changed while it was read"):
        ingest_folder(engine, manifest, "set", progress=grow)
    with engine.connect() as connection:
        assert connection.scalar(sa.text("SELECT count(*) FROM sample")) == BATCH_SIZE
        assert connection.scalar(sa.text("SELECT count(*) FROM ingest_reject")) == 0
    report = ingest_folder(engine, manifest, "set")
    assert (report.accepted["captions"], report.unchanged["captions"], report.rejected) == (10, BATCH_SIZE, 0)
