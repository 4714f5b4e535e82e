"""Shards with media: they hold the frozen files, and are never taken for whole before they are."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import webdataset
from sqlalchemy.engine import Engine

from assets.ingest.run import ingest_folder
from assets.selection.export import export_selection
from assets.selection.export_target import ExportFormat
from assets.selection.formats.web_dataset import ShardLimits
from db import schema
from db.selection.recipes import SelectionError, parse_recipe
from tests.assets.exporting import TEXTS, Clips, files_of_at_most, make_clips, media_bytes
from tests.assets.media_servers import BUCKET, s3_store
from tests.db.builders import add_sample, add_video, change, make_dataset, remove, set_scores
from tests.db.freezing import freeze_recipe
from tests.ordinary_user import open_folder, ordinary_user

FEW = ShardLimits(rows=3, bytes=1 << 30)
KILLED = """
import sys
from pathlib import Path
from sqlalchemy.engine import make_url
from assets.selection.export import export_selection
from assets.selection.formats.web_dataset import ShardLimits
from assets.selection.export_target import ExportFormat
from db.server.engine import open_engine

def tell(line):
    if line.startswith(sys.argv[5] + " of"):
        print("there", flush=True)
        sys.stdin.readline()

export_selection(open_engine(make_url(sys.argv[1])), int(sys.argv[2]), Path(sys.argv[3]), ExportFormat(sys.argv[4]),
                 tell=tell, limits=ShardLimits(rows=3, bytes=1 << 30))
"""


@pytest.fixture
def clips(engine: Engine, tmp_path: Path) -> Clips:
    (tmp_path / "media").mkdir()
    return make_clips(engine, tmp_path / "media")


def write(engine: Engine, clips: Clips, path: Path, limits: ShardLimits = FEW) -> Path:
    return export_selection(engine, clips.selection_id, path, ExportFormat.WEB_DATASET, limits=limits).path


def loaded(folder: Path) -> list[dict[str, Any]]:
    shards = sorted(str(path) for path in folder.glob("*.tar"))
    return list(webdataset.WebDataset(shards, shardshuffle=False).decode())


def check_whole(folder: Path) -> None:
    """Every row once, in order, with the bytes of its file; nothing else stands in the folder or beside it."""
    samples = loaded(folder)
    assert [sample["json"]["rank"] for sample in samples] == list(range(1, len(TEXTS) + 1))
    assert [sample["mp4"] for sample in samples] == [media_bytes(number) for number in range(len(TEXTS))]
    shards = [f"shard-{number:06d}.tar" for number in range(4)]
    assert sorted(path.name for path in folder.iterdir()) == ["passport.json", *shards]
    assert not folder.with_name(f"{folder.name}.partial").exists()
    files = json.loads((folder / "passport.json").read_text())["files"]
    assert [(file["name"], file["rows"], file["first_rank"]) for file in files] == [
        (name, 3, 3 * number + 1) for number, name in enumerate(shards)
    ]
    assert [file["bytes"] for file in files] == [(folder / name).stat().st_size for name in shards]


def test_shards_end_with_a_number_of_rows_or_of_bytes(engine: Engine, clips: Clips, tmp_path: Path) -> None:
    check_whole(write(engine, clips, tmp_path / "by_rows"))
    by_bytes = write(engine, clips, tmp_path / "by_bytes", ShardLimits(rows=1000, bytes=30_000))
    files = json.loads((by_bytes / "passport.json").read_text())["files"]
    assert len(files) > 2
    # A row takes some 11,000 bytes; a tar file is filled up to 10,240.
    assert all(30_000 <= file["bytes"] < 30_000 + 11_000 + 10_240 for file in files[:-1])
    assert [sample["json"]["rank"] for sample in loaded(by_bytes)] == list(range(1, len(TEXTS) + 1))


def test_a_file_that_is_gone_is_one_sentence_and_nothing_stays(engine: Engine, clips: Clips, tmp_path: Path) -> None:
    lost = clips.media / "odd" / "clip 7.MP4"
    lost.rename(tmp_path / "elsewhere")
    with pytest.raises(SelectionError) as caught:
        write(engine, clips, tmp_path / "wds")
    assert str(caught.value) == (
        "row 8, sample 's.7/x', video 'v7': its file cannot be exported: no such file or directory: put the file "
        "back or ingest the folder of video v7 again"
    )
    assert not list(tmp_path.glob("wds*"))
    (tmp_path / "elsewhere").rename(lost)
    check_whole(write(engine, clips, tmp_path / "wds"))


@contextmanager
def killed_at(row: int, engine: Engine, clips: Clips, target: Path, form: ExportFormat) -> Iterator[None]:
    """Another process exports; the block runs while it is at this row, and afterwards it is killed."""
    url = engine.url.render_as_string(hide_password=False)
    arguments = [url, str(clips.selection_id), str(target), form.value, str(row)]
    command = [sys.executable, "-c", KILLED, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "there\n"
        yield
        process.send_signal(signal.SIGKILL)


def test_a_killed_export_starts_again_and_says_so(engine: Engine, clips: Clips, tmp_path: Path) -> None:
    with (
        killed_at(5, engine, clips, tmp_path / "wds", ExportFormat.WEB_DATASET),
        pytest.raises(SelectionError, match=r"another process is writing .*wds.partial"),
    ):
        write(engine, clips, tmp_path / "wds")
    assert [path.name for path in tmp_path.glob("wds*")] == ["wds.partial"]
    lines: list[str] = []
    form = ExportFormat.WEB_DATASET
    export_selection(engine, clips.selection_id, tmp_path / "wds", form, limits=FEW, tell=lines.append)
    assert lines[0] == "an export to wds was interrupted: starting again"
    check_whole(tmp_path / "wds")


def test_a_killed_folder_for_datasets_begins_anew(engine: Engine, clips: Clips, tmp_path: Path) -> None:
    with killed_at(len(TEXTS), engine, clips, tmp_path / "hf", ExportFormat.HUGGING_FACE):
        assert not (tmp_path / "hf").exists()
    assert [path.name for path in tmp_path.glob("hf*")] == ["hf.partial"]
    done = export_selection(engine, clips.selection_id, tmp_path / "hf", ExportFormat.HUGGING_FACE)
    assert [path.name for path in tmp_path.glob("hf*")] == ["hf"]
    assert sorted(path.name for path in done.path.rglob("*")) == [
        "README.md",
        "croissant.json",
        "data",
        "passport.json",
        "train-00000.parquet",
    ]


def test_a_full_disk_is_one_sentence(engine: Engine, clips: Clips, tmp_path: Path) -> None:
    with files_of_at_most(30_000), pytest.raises(SelectionError, match="File too large") as caught:
        write(engine, clips, tmp_path / "wds")
    assert str(caught.value).endswith("cannot be written (File too large): remove the cause, or give another name")
    assert not list(tmp_path.glob("wds*"))
    check_whole(write(engine, clips, tmp_path / "wds"))


def test_a_file_that_is_another_one_now_is_not_exported(engine: Engine, clips: Clips, tmp_path: Path) -> None:
    path = clips.media / "even" / "clip 0.MP4"
    path.write_bytes(media_bytes(0).upper())
    with pytest.raises(SelectionError, match=r"row 1, .*: the file has changed since it was ingested"):
        write(engine, clips, tmp_path / "wds")
    # The dataset knows the new file; the selection froze the old one.
    change(engine, schema.video, clips.videos[0], content_sha256=bytes(32), uri=str(path))
    with pytest.raises(SelectionError, match=r"row 1, .*: the file has changed since it was ingested"):
        write(engine, clips, tmp_path / "wds")
    path.unlink()
    path.symlink_to(clips.media / "odd" / "clip 1.MP4")
    with pytest.raises(SelectionError, match=r"row 1, .*: the path leads to"):
        write(engine, clips, tmp_path / "wds")
    assert not list(tmp_path.glob("wds*/*.tar"))


def test_a_video_that_left_the_dataset_is_exported_by_its_content(engine: Engine, clips: Clips, tmp_path: Path) -> None:
    remove(engine, schema.video, clips.videos[4])
    folder = write(engine, clips, tmp_path / "wds")
    check_whole(folder)
    row = loaded(folder)[4]["json"]
    assert (row["video"], row["media"], row["duration_s"], row["references"]) == ("v4", "even/clip 4.MP4", None, None)
    counts = json.loads((folder / "passport.json").read_text())["counts"]
    assert (counts["samples_gone_since"], counts["samples_changed_since"]) == (1, 0)


def test_rows_without_a_file_are_refused_before_anything_is_written(
    engine: Engine, clips: Clips, tmp_path: Path
) -> None:
    video = add_video(engine, clips.dataset, "text", status="text_only")
    change(engine, schema.video, video, uri=None)
    set_scores(engine, {add_sample(engine, clips.dataset, video, "t"): 2.0})
    with engine.begin() as connection:
        chosen = freeze_recipe(connection, clips.dataset, parse_recipe({"by": "vcs", "keep": 0.1})).selection_id
    with pytest.raises(SelectionError, match=r"1 of the 1 row of selection 2 has no video file: "):
        write(engine, replace(clips, selection_id=chosen), tmp_path / "wds")
    assert not list(tmp_path.glob("wds*"))


def test_a_file_that_may_not_be_read_is_one_sentence(engine: Engine) -> None:
    with open_folder() as folder:
        for name in ("media", "out"):
            (folder / name).mkdir()
            (folder / name).chmod(0o777)
        clips = make_clips(engine, folder / "media")
        (folder / "media" / "odd" / "clip 1.MP4").chmod(0o000)
        with ordinary_user(), pytest.raises(SelectionError, match=r"row 2, .*: permission denied: make it readable"):
            write(engine, clips, folder / "out" / "wds")


def test_a_folder_that_no_export_made_is_not_touched(engine: Engine, clips: Clips, tmp_path: Path) -> None:
    (tmp_path / "mine.partial").mkdir()
    (tmp_path / "mine.partial" / "notes.txt").write_text("mine")
    with pytest.raises(SelectionError, match=r"mine.partial was not made by an export: move it, or give"):
        write(engine, clips, tmp_path / "mine")
    assert (tmp_path / "mine.partial" / "notes.txt").read_text() == "mine"


def test_objects_of_a_store_keep_their_address(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REELSIEVE_MEDIA_CACHE", str(tmp_path / "cache"))
    clips = make_dataset(engine)
    video = add_video(engine, clips, "v", content=b"bytes of a store")
    change(engine, schema.video, video, uri=f"s3://{BUCKET}/day/v.webm", size_bytes=16)
    set_scores(engine, {add_sample(engine, clips, video, "s"): 0.5})
    with engine.begin() as connection:
        chosen = freeze_recipe(connection, clips, parse_recipe({"by": "vcs", "keep": 1})).selection_id
    with s3_store(tmp_path) as bucket:
        bucket.put("day/v.webm", b"bytes of a store")
        done = export_selection(engine, chosen, tmp_path / "wds", ExportFormat.WEB_DATASET)
    (sample,) = loaded(done.path)
    assert (sample["webm"], sample["json"]["media"]) == (b"bytes of a store", f"s3://{BUCKET}/day/v.webm")
    assert done.media_root is None


def test_the_real_clips_come_back_byte_for_byte(engine: Engine, tmp_path: Path, shared_data: Path) -> None:
    source = shared_data / "clips"
    ingest_folder(engine, source, "real")
    with engine.connect() as connection:
        dataset_id = connection.exec_driver_sql("SELECT dataset_id FROM dataset").scalar_one()
        samples = connection.exec_driver_sql("SELECT sample_id FROM sample ORDER BY sample_id").scalars().all()
    real = replace(make_dataset(engine, "real"), dataset_id=dataset_id)
    set_scores(engine, {sample: place / len(samples) for place, sample in enumerate(samples)})
    with engine.begin() as connection:
        chosen = freeze_recipe(connection, real, parse_recipe({"by": "vcs", "keep": 1, "kind": "all"})).selection_id
    done = export_selection(engine, chosen, tmp_path / "wds", ExportFormat.WEB_DATASET)
    assert done.rows == len(samples)
    for sample in loaded(done.path):
        original = source / "videos" / Path(sample["json"]["media"]).name
        extension = original.suffix[1:].lower()
        assert sample[extension] == original.read_bytes()


def test_every_shard_carries_the_passport(engine: Engine, clips: Clips, tmp_path: Path) -> None:
    folder = write(engine, clips, tmp_path / "wds")
    whole = json.loads((folder / "passport.json").read_text())
    for shard in folder.glob("*.tar"):
        with tarfile.open(shard) as tar:
            inside = tar.extractfile("__reelsieve_passport__")
            assert inside is not None
            assert json.load(inside) == {name: value for name, value in whole.items() if name != "files"}
