"""Datasets whose videos lie in Lance tables: their manifest, and the same rows, facts and exports as of files."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow as pa
import pytest
import webdataset
from sqlalchemy.engine import Engine

from assets.home.settings import read_settings
from assets.media.held_video import find_held_video
from assets.media.settings import MediaSettings
from assets.new_manifest.columns import ColumnNames
from assets.new_manifest.findings import NoManifest
from assets.new_manifest.make import NewManifest, create_manifest
from assets.reports.thumbnails import read_thumbnails
from assets.search import search_like_video
from assets.selection.export import export_selection
from assets.selection.export_target import ExportFormat
from db.reports.samples import find_video
from db.selection.holders import list_holding_datasets, list_holding_selections
from db.selection.recipes import parse_recipe
from tests.assets.exporting import read_documented
from tests.assets.manifests import candidate
from tests.assets.test_member_datasets import (
    N,
    chosen,
    clips,
    ingested,
    measured,
    measured_as_files,
    shown,
)
from tests.db.builders import set_scores
from tests.db.freezing import freeze_recipe

lance = pytest.importorskip("lance", reason="the extra `lance` is not installed")
__all__ = ["clips"]
A_VECTOR_IS = "since vectors are lists of one fixed length from 1 to 16,000"


def write_captioned(table: Path, files: Mapping[str, bytes], **columns: Any) -> Path:
    """Write a table with a column `clip` of these files, captions and other columns, two files of it."""
    rows: dict[str, Any] = {
        "Caption": [f"Clip {name[0]}." for name in files],
        **columns,
        "clip": lance.blob_array(list(files.values())),
    }
    fields = [pa.field(name, pa.array(rows[name]).type) for name in rows if name != "clip"]
    schema = pa.schema([*fields, lance.blob_field("clip")])
    lance.write_dataset(pa.table(list(rows.values()), schema=schema), str(table), max_rows_per_file=4)
    return table


@pytest.fixture
def table(tmp_path: Path, clips: Mapping[str, bytes]) -> Path:
    return write_captioned(tmp_path / "films" / "t.lance", clips, aesthetic=[n / 2 for n in range(N)])


def read_rows(made: NewManifest, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (made.folder / f"{name}.jsonl").read_text().splitlines()]


def left_out(made: NewManifest) -> dict[str, tuple[int, str]]:
    return {row["left out"]: (row["n"], row["first"]) for row in made.findings.list_left_out()}


def test_rows_become_videos_with_the_other_columns_as_fields(tmp_path: Path, clips: Mapping[str, bytes]) -> None:
    more = {
        "motion": [{"mean": n / 4, "all": [n]} for n in range(N)],
        "motions": pa.array([[n / 3] * (n + 1) for n in range(N)], pa.list_(pa.float32())),
        # Written as JSON, a row with these would be too long.
        "long": pa.array([[n / 3] * 300_000 for n in range(N)], pa.list_(pa.float64(), 300_000)),
        "poster": [b"jpeg"] * N,
        "licence": ["CC0-1.0"] * (N - 1) + [None],
        "model": ["qwen"] * N,
        "frames": [7] * N,
        "path": ["elsewhere.mp4"] * N,
    }
    table = write_captioned(tmp_path / "t.lance", clips, **more)
    before = {path: path.stat().st_mtime_ns for path in table.rglob("*")}
    made = create_manifest(table, tool="lance", column_names=ColumnNames({"video": "clip"}))
    assert (made.folder, made.source_description) == (tmp_path, "a Lance table")
    assert made.findings.guesses == ["video in column 'clip', caption in column 'Caption', system in column 'model'"]
    videos = read_rows(made, "videos")
    assert videos[5] == {
        "video_id": "t/4294967297",
        "path": "lance://t.lance#clip/4294967297",
        "tool": "Lance",
        "tool_version": "1",
        "tool_file": "t.lance",
        "motion_mean": 1.25,
        "frames": 7,
    }
    assert [video.get("licence") for video in videos] == ["CC0-1.0"] * 5 + [None]
    assert read_rows(made, "captions")[0] == candidate("t/0__qwen", "t/0", "Clip 0.") | {"system": "qwen"}
    assert left_out(made) == {
        f"column 'motions' of lists of numbers, {A_VECTOR_IS}": (1, "t.lance"),
        f"column 'long' of lists of numbers, {A_VECTOR_IS}": (1, "t.lance"),
        "column 'poster', since its cells hold files that are not the videos": (1, "t.lance"),
        "field 'motion_all' of the tool, since it is a list": (N, "t.lance#0"),
        "field 'path' of the tool, since a manifest has one with another meaning": (N, "t.lance#0"),
    }
    assert {path: path.stat().st_mtime_ns for path in table.rglob("*")} == before


def test_lists_of_a_fixed_length_become_vectors(engine: Engine, tmp_path: Path, clips: Mapping[str, bytes]) -> None:
    rows = [[1, 0.1, 0], [0, 0, 0], [math.nan, 1, 1], None, [1, None, 1], [-2, 0.2, 0]]
    more = {
        "clip_embd": pa.array(rows, pa.list_(pa.float32(), 3)),
        "half": pa.array([np.float16([0.5, n]) for n in range(N)], pa.list_(pa.float16(), 2)),
    }
    write_captioned(tmp_path / "day" / "t.lance", clips, **more)
    made = create_manifest(tmp_path, tool="lance")
    assert made.tables.vectors == {"day/t/clip_embd": 2, "day/t/half": N}
    ids = [video["video_id"] for video in read_rows(made, "videos")]
    written = {(row["video_id"], row["encoder"]): row["vector"] for row in read_rows(made, "vectors")}
    assert len(written) == sum(made.tables.vectors.values())
    # Single precision keeps some of the digits of 0.1.
    assert written[ids[0], "day/t/clip_embd"] == [1.0, 0.100000001, 0.0]
    assert written[ids[5], "day/t/clip_embd"] == [-2.0, 0.200000003, 0.0]
    assert [written[key, "day/t/half"] for key in ids] == [[0.5, float(n)] for n in range(N)]
    assert {reason.partition(":")[0]: found for reason, found in left_out(made).items()} == {
        "a vector that ingest would refuse (no_direction)": (1, "day/t.lance#1"),
        "a vector that ingest would refuse (nan)": (1, "day/t.lance#2"),
        "a vector that ingest would refuse (wrong_type)": (1, f"day/t.lance#{1 << 32}"),
    }
    dataset = ingested(engine, made.folder)
    assert shown(engine, "SELECT 1 FROM ingest_reject") == []
    nearest = search_like_video(engine, ids[0], "day/t/half", dataset, 2).rows
    assert [row["video"] for row in nearest] == [ids[1], ids[2]], "the second numbers are 0, 1, 2, .."


def test_many_long_vectors_make_no_row_too_long(tmp_path: Path, clips: Mapping[str, bytes]) -> None:
    # As one row of a manifest, these would take 9 MB.
    column = pa.array([[1 / 3] * 16_000], pa.list_(pa.float64(), 16_000))
    columns = {f"model {n}": column for n in range(28)}
    table = write_captioned(tmp_path / "t.lance", {"0.avi": clips["0.avi"]}, **columns)
    made = create_manifest(table, tool="lance", is_trial=True)
    assert (made.tables.vectors, left_out(made)) == ({f"t/{name}": 1 for name in columns}, {})


def test_the_tables_of_a_folder_become_one_manifest(
    engine: Engine, table: Path, clips: Mapping[str, bytes], tmp_path: Path
) -> None:
    folder = table.parent
    write_captioned(folder / "day" / "u.lance", {"0.avi": clips["1.avi"]}, video_id=["mine"])
    write_captioned(folder / "broken.lance", {"0.avi": b""})
    for path in (folder / "broken.lance" / "data").rglob("*"):
        if path.is_file():
            path.write_bytes(b"")
    (folder / "no.lance").mkdir()
    (folder / "notes.txt").write_text("A note.")
    with pytest.raises(NoManifest, match=r"films: 4 Lance tables, such as broken\.lance: add --from lance$"):
        create_manifest(folder)
    made = create_manifest(folder, tool="lance")
    assert made.source_description == "Lance tables"
    paths = {row["video_id"]: row["path"] for row in read_rows(made, "videos")}
    assert paths.pop("mine") == "lance://day/u.lance#clip/0"
    assert len(paths) == N
    reasons = left_out(made)
    assert reasons.pop("a table that cannot be read: no.lance: there is no Lance table: give the path of its folder")
    assert [reason.partition(" (")[0] for reason in reasons] == [
        "a table that cannot be read: broken.lance: data is missing or damaged, put the complete table there",
        "a file of the tool that names no clip",
    ]
    assert len(shown(engine, f"SELECT {ingested(engine, folder).dataset_id}")) == 1


def test_tables_without_what_a_manifest_needs_are_refused(tmp_path: Path, clips: Mapping[str, bytes]) -> None:
    def refusal(**options: Any) -> str:
        with pytest.raises(NoManifest) as refused:
            create_manifest(tmp_path / "t.lance", tool="lance", **options)
        assert sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".lance") == []
        return str(refused.value)

    def write(**columns: Any) -> None:
        lance.write_dataset(pa.table(columns), str(tmp_path / "t.lance"), mode="overwrite")

    two = {"a": [b"1"], "b": [b"2"], "caption": ["A cup."]}
    write(**two)
    assert refusal() == (
        "t.lance: no column of files was recognised as that of the videos: choose one of 'a', 'b' "
        "with --column video=NAME"
    )
    assert "choose one of 'a', 'b' with --column video=NAME" in refusal(column_names=ColumnNames({"video": "caption"}))
    write(a=[b"1"], words=["A cup."])
    assert "no column was recognised as the one of captions: choose one of 'a', 'words'" in refusal()
    write(video=["a.mp4"], caption=["A cup."])
    assert "no column of files was recognised as that of the videos: choose a table that has one" in refusal()
    write(video=[b"1", b"2"], caption=["", None])
    assert "no video with a caption in a Lance table; left out: a row whose caption has no text (2" in refusal()
    (tmp_path / "empty").mkdir()
    with pytest.raises(NoManifest, match=r"no Lance table: give a folder with the suffix \.lance, or its parent"):
        create_manifest(tmp_path / "empty", tool="lance")


def test_ingest_and_facts_are_those_of_files(
    engine: Engine, table: Path, clips: Mapping[str, bytes], tmp_path: Path
) -> None:
    before = {path: path.stat().st_mtime_ns for path in table.rglob("*")}
    in_table = measured(engine, ingested(engine, create_manifest(table, tool="lance").folder))
    uris = [row["uri"] for row in shown(engine, "SELECT uri FROM video ORDER BY video_id")]
    assert uris == [f"lance://{table}#clip/{row_id}" for row_id in (0, 1, 2, 3, 1 << 32, (1 << 32) + 1)]
    assert {path: path.stat().st_mtime_ns for path in table.rglob("*")} == before
    assert len(shown(engine, "SELECT 1 FROM video WHERE (extra->>'aesthetic')::float > 1")) == 3
    assert in_table == measured_as_files(engine, tmp_path / "files", clips)
    assert all(row["status"] == "ok" for row in in_table)


def test_a_second_ingest_changes_nothing_and_a_new_version_its_rows(
    engine: Engine, table: Path, clips: Mapping[str, bytes]
) -> None:
    folder = create_manifest(table, tool="lance").folder
    ingested(engine, folder)
    before = shown(engine, "SELECT * FROM video ORDER BY key")
    ingested(engine, folder)
    assert shown(engine, "SELECT * FROM video ORDER BY key") == before
    ids = {row["key"]: row["sample_id"] for row in shown(engine, "SELECT sample_id, key FROM sample")}
    set_scores(engine, dict.fromkeys(ids.values(), 0.5), metric="evqa")
    # The same rows but one, in a table that is made again.
    write_captioned(table.with_name("new"), {**clips, "1.avi": clips["5.avi"]})
    for old in sorted(table.rglob("*"), reverse=True):
        old.rmdir() if old.is_dir() else old.unlink()
    table.rmdir()
    table.with_name("new").rename(table)
    ingested(engine, folder)
    after = shown(engine, "SELECT * FROM video ORDER BY key")
    changed = [b["key"] for b, a in zip(before, after, strict=True) if b["content_sha256"] != a["content_sha256"]]
    assert changed == ["t/1"]
    query = "SELECT key FROM score JOIN sample USING (sample_id) WHERE is_stale"
    assert [row["key"] for row in shown(engine, query)] == ["t/1__captions"]


def test_pictures_and_who_holds_a_row(engine: Engine, table: Path, tmp_path: Path) -> None:
    dataset = ingested(engine, create_manifest(table, tool="lance").folder)
    (row,) = shown(engine, "SELECT video_id FROM video WHERE key = 't/2'")
    with engine.connect() as connection:
        video = find_video(connection, dataset.dataset_id, row["video_id"])
    assert video is not None
    pictures, reason = read_thumbnails(video)
    assert (len(pictures), reason) == (4, None)
    chosen(engine, dataset)
    (tmp_path / "link").symlink_to(table.parent)
    for name, n in (
        (f"lance://{tmp_path}/link/t.lance#clip/2", 1),
        ("lance://films/t.lance#clip/2", 1),
        (str(table), N),
        ("lance://t.lance#clip", 0),
    ):
        held = find_held_video(name, read_settings(MediaSettings))
        with engine.connect() as connection:
            assert len(list_holding_datasets(connection, held)) == n, name
            assert [row["rows"] for row in list_holding_selections(connection, held)] == ([n] if n else [])


def test_the_keys_of_a_selection_read_it_out_of_the_table(
    engine: Engine, table: Path, clips: Mapping[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = ingested(engine, create_manifest(table, tool="lance").folder)
    ids = {row["key"]: row["sample_id"] for row in shown(engine, "SELECT sample_id, key FROM sample")}
    best = ("t/2__captions", "t/0__captions", "t/4294967297__captions")
    set_scores(engine, {sample_id: float(key in best) for key, sample_id in ids.items()})
    with engine.begin() as connection:
        selection = freeze_recipe(connection, dataset, parse_recipe({"by": "vcs", "count": 3})).selection_id
    done = export_selection(engine, selection, tmp_path / "best.keys")
    assert (done.form, done.media_root) == (ExportFormat.KEYS, str(table.parent))
    assert done.path.read_text() == '{"lance": "t.lance", "column": "clip", "rows": [0, 2, 4294967297]}\n'
    assert str(tmp_path) not in (tmp_path / "best.keys.passport.json").read_text()
    rooted = tmp_path / "rooted.keys"
    rooted.write_text(done.path.read_text().replace('"t.lance', '"root://films/t.lance'))
    monkeypatch.setenv("REELSIEVE_MEDIA_ROOTS", json.dumps({"films": str(table.parent)}))
    # As where the addresses name no column.
    unnamed = tmp_path / "unnamed.keys"
    unnamed.write_text(done.path.read_text().replace('"clip"', "null"))
    load_rows = read_documented("Rows of Lance tables")["load_rows"]
    for keys, root, options in (
        (done.path, str(table.parent), {}),
        (rooted, "", {}),
        (unnamed, str(table.parent), {"video_column": "clip"}),
    ):
        loaded = list(load_rows(str(keys), root, ["Caption", "aesthetic"], **options))
        assert [(row["Caption"], row["aesthetic"]) for row in loaded] == [
            ("Clip 0.", 0.0),
            ("Clip 2.", 1.0),
            ("Clip 5.", 2.5),
        ]
        for row, name in zip(loaded, ("0.avi", "2.avi", "5.avi"), strict=True):
            with av.open(row["video"]) as opened:
                assert sum(1 for _ in opened.decode(video=0)) == 6 + int(name[0])
            row["video"].seek(0)
            assert row["video"].read() == clips[name]


def test_an_export_has_the_videos_and_no_folder_of_this_machine(
    engine: Engine, table: Path, clips: Mapping[str, bytes], tmp_path: Path
) -> None:
    selection = chosen(engine, ingested(engine, create_manifest(table, tool="lance").folder))
    export_selection(engine, selection, tmp_path / "wds", ExportFormat.WEB_DATASET)
    samples = list(webdataset.WebDataset([str(tmp_path / "wds" / "shard-000000.tar")], shardshuffle=False))
    media = {json.loads(sample["json"])["media"]: sample["video"] for sample in samples}
    ids = (0, 1, 2, 3, 1 << 32, (1 << 32) + 1)
    assert media == {f"lance://t.lance#clip/{row_id}": clip for row_id, clip in zip(ids, clips.values(), strict=True)}
    assert str(tmp_path) not in export_selection(engine, selection, tmp_path / "rows.jsonl").path.read_text()


def test_a_manifest_elsewhere_names_the_root_of_the_tables(
    engine: Engine, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = create_manifest(table.parent, tmp_path / "elsewhere", tool="lance")
    assert made.new_root == ("films", table.parent)
    monkeypatch.setenv("REELSIEVE_MEDIA_ROOTS", json.dumps({"films": str(table.parent)}))
    ingested(engine, made.folder)
    uris = [row["uri"] for row in shown(engine, "SELECT uri FROM video ORDER BY video_id")]
    assert (uris[0], len(uris)) == ("lance://root://films/t.lance#clip/0", N)
