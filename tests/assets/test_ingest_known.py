"""Tables that did not change are passed over, with the report of a full ingest; and ingests that only try."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.ingest.rejects import ManifestError
from assets.ingest.report import IngestReport
from assets.ingest.run import ingest_folder, try_ingest
from tests.assets.init_sources import shard
from tests.assets.manifests import (
    TABLE_NAMES,
    Row,
    candidate,
    dump,
    keypoint,
    label,
    qa,
    rating,
    reference,
    vector,
    write_clip,
    write_lines,
    write_manifest,
)

TABLES: dict[str, list[Any]] = {
    "videos": ["v", "w"],
    "captions": [candidate("c", "v", "A pan."), reference("r", "v", "A pan."), candidate("gone", "nowhere", "A pan.")],
    "keypoints": [keypoint("k", "v")],
    "keypoint_labels": [label("k", "c")],
    "qa": [qa("q", "v")],
    "ratings": [rating("c")],
    "vectors": [vector("v", 0.5, 1.0)],
}
UNCHANGED = {"videos": 2, "captions": 2, "keypoints": 1, "keypoint_labels": 1, "qa": 1, "ratings": 1, "vectors": 1}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_manifest(tmp_path / "set", **TABLES)


def ingest(engine: Engine, folder: Path, **more: Any) -> tuple[IngestReport, list[str]]:
    """The report, and the names of the files that were read row by row."""
    read: list[str] = []
    report = ingest_folder(engine, folder, "set", progress=lambda source, _: read.append(source), **more)
    return report, read


def files(*names: str) -> list[str]:
    return [f"{name}.jsonl" for name in names]


def execute(engine: Engine, statement: str) -> None:
    with engine.begin() as connection:
        connection.execute(sa.text(statement))


def test_an_unchanged_folder_is_not_read_row_by_row(engine: Engine, folder: Path) -> None:
    first, read = ingest(engine, folder)
    assert read == files(*TABLE_NAMES.values())
    before = dump(engine)
    for _ in range(2):
        again, read = ingest(engine, folder)
        assert read == []
        assert (+again.accepted, again.unchanged, again.rejected) == ({}, UNCHANGED, 1)
        assert dump(engine) == before
    assert +first.accepted == UNCHANGED


def test_tar_files_that_did_not_change_are_not_opened(engine: Engine, tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip.avi").read_bytes()
    tar = shard(tmp_path / "set" / "s.tar", [("0.avi", clip), ("1.avi", clip)])
    folder = write_manifest(tmp_path / "set", [{"video_id": n, "path": f"tar://s.tar#{n}.avi"} for n in "01"])
    ingest(engine, folder)
    before = dump(engine)
    tar.chmod(0o200)  # changes the state, which is then stored
    tar.chmod(0o600)
    assert ingest(engine, folder)[1] == files("videos")
    assert ingest(engine, folder)[1] == []
    assert [row["content_sha256"] for row in dump(engine)["video"]] == [
        row["content_sha256"] for row in before["video"]
    ]
    shard(tar, [("0.avi", clip)])
    report, read = ingest(engine, folder)
    assert (read, report.rejected) == (files("videos"), 1)


@contextmanager
def opened_tables(folder: Path) -> Iterator[Counter[str]]:
    """How often the files of a folder are opened in the block, by name."""
    opened: Counter[str] = Counter()
    is_counting = True

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        # Python reports an opener's own call too, without a mode.
        if is_counting and event == "open" and arguments[1] and str(arguments[0]).startswith(f"{folder}/"):
            opened[Path(arguments[0]).name] += 1

    sys.addaudithook(note)
    yield opened
    is_counting = False


def test_a_table_is_read_once_and_samples_are_only_counted_to_choose_the_number_of_shards(
    engine: Engine, folder: Path
) -> None:
    once = dict.fromkeys(files(*TABLE_NAMES.values()), 1)
    counted = dict.fromkeys(files("captions", "qa"), 2)
    with opened_tables(folder) as opened:
        try_ingest(engine, folder, "set")
    assert opened == once
    with opened_tables(folder) as opened:
        ingest_folder(engine, folder, "first", n_shards=1)
    assert opened == once
    for n_opened in (once | counted, once):
        with opened_tables(folder) as opened:
            ingest(engine, folder)
        assert opened == n_opened
    path = folder / "videos.jsonl"
    path.write_text(path.read_text() + "\n")
    with opened_tables(folder) as opened:
        ingest(engine, folder)
    assert opened == once | {path.name: 2}


AFTER: dict[str, tuple[str, ...]] = {
    name: tuple(TABLE_NAMES.values())[i:] for i, name in enumerate(TABLE_NAMES.values())
}


def test_a_changed_table_is_read_with_those_that_point_to_it(engine: Engine, folder: Path) -> None:
    ingest(engine, folder)
    before = dump(engine)
    for table in TABLES:
        path = folder / f"{table}.jsonl"
        path.write_text(path.read_text() + "\n")
        report, read = ingest(engine, folder)
        assert read == files(*AFTER[table])
        assert (+report.accepted, report.unchanged, report.rejected) == ({}, UNCHANGED, 1)
        assert dump(engine) == before
        assert ingest(engine, folder)[1] == []


HANDS: dict[str, str] = {
    "a changed row": "UPDATE sample SET text = 'Another.', row_sha256 = '' WHERE key = 'c'",
    "a deleted row": "DELETE FROM reference",
    "a deleted video": "DELETE FROM video WHERE key = 'w'",
    "a changed rating": "UPDATE rating SET value = 1, row_sha256 = ''",
    "a deleted label": "DELETE FROM keypoint_label",
    "an emptied table": "TRUNCATE keypoint CASCADE",
}


def test_what_somebody_did_by_hand_is_mended(engine: Engine, folder: Path) -> None:
    ingest(engine, folder)

    def texts() -> list[Any]:
        query = (
            "SELECT key, text FROM sample UNION ALL SELECT key, text FROM reference UNION ALL SELECT key, text "
            "FROM keypoint UNION ALL SELECT key, '' FROM video UNION ALL SELECT rater, CAST(value AS text) FROM rating "
            "UNION ALL SELECT source, CAST(covered AS text) FROM keypoint_label ORDER BY 1, 2"
        )
        with engine.connect() as connection:
            return [tuple(row) for row in connection.execute(sa.text(query))]

    before = texts()
    for name, statement in HANDS.items():
        execute(engine, statement)
        assert texts() != before, name
        report, read = ingest(engine, folder)
        assert read == files(*TABLE_NAMES.values())
        assert report.accepted.total() >= 1
        assert texts() == before, name


def test_another_folder_in_between(engine: Engine, folder: Path, tmp_path: Path) -> None:
    ingest(engine, folder)
    other = write_manifest(tmp_path / "other", videos=["v"], captions=[candidate("c", "v", "Another pan.")])
    assert +ingest(engine, other)[0].accepted == {"captions": 1}
    report, read = ingest(engine, folder)
    assert read == files(*TABLE_NAMES.values())
    assert +report.accepted == {"captions": 1}


def test_mixed_rows_are_compared_with_every_row_of_the_folder(engine: Engine, folder: Path, tmp_path: Path) -> None:
    ingest(engine, folder)
    mixed = write_lines(tmp_path / "more.jsonl", [{"kind": "caption", **candidate("c", "v", "Another pan.")}])
    report, read = ingest(engine, folder, mixed_rows=mixed)
    assert read == [*files(*TABLE_NAMES.values()), "more.jsonl"]
    assert report.rejected == 2
    assert ingest(engine, folder)[1] == files(*TABLE_NAMES.values())


def test_other_dimensions_judge_the_keypoints_anew(engine: Engine, folder: Path) -> None:
    ingest(engine, folder)
    (folder / "dimensions.json").write_text('["events"]')
    report, read = ingest(engine, folder)
    assert read == files(*TABLE_NAMES.values())
    # The keypoint's dimension is none of these. Its label points to the stored one.
    assert report.rejected == 2


# Media


def touch(path: Path) -> None:
    os.utime(path, ns=(1, 1))


def rewrite(path: Path) -> None:
    write_clip(path, brightness=90)


@pytest.mark.parametrize("change", [touch, rewrite, Path.unlink])
def test_a_video_file_that_changed_is_looked_at(engine: Engine, tmp_path: Path, change: Callable[[Path], None]) -> None:
    clip = write_clip(tmp_path / "set" / "clip.avi")
    rows: list[str | Row] = [{"video_id": "v", "path": "clip.avi"}]
    folder = write_manifest(tmp_path / "set", videos=rows, captions=[candidate("c", "v", "A pan.")])
    ingest(engine, folder)
    assert ingest(engine, folder)[1] == []
    change(clip)
    report, read = ingest(engine, folder)
    assert read == files("videos", "captions")
    assert report.rejected == (change is Path.unlink)


def test_a_video_that_was_refused_is_looked_at_again(engine: Engine, tmp_path: Path) -> None:
    folder = write_manifest(tmp_path / "set", videos=[{"video_id": "v", "path": "clip.avi"}])
    assert ingest(engine, folder)[0].rejected == 1
    write_clip(folder / "clip.avi")
    report, read = ingest(engine, folder)
    assert read == files("videos")
    assert (+report.accepted, report.rejected) == ({"videos": 1}, 0)


# Trying


def test_a_trial_says_what_an_ingest_does_and_changes_nothing(engine: Engine, folder: Path) -> None:
    found, refused = try_ingest(engine, folder, "set")
    with engine.connect() as connection:
        assert connection.scalar(sa.text("SELECT count(*) FROM dataset")) == 0
    report, _ = ingest(engine, folder)
    assert found.as_dict() == report.as_dict()
    ((source, line, code),) = [(row["source"], row["line"], row["code"]) for row in refused]
    assert (source, line, code) == ("captions.jsonl", 3, "dangling_reference")


def test_a_trial_over_stored_rows(engine: Engine, folder: Path, tmp_path: Path) -> None:
    ingest(engine, folder)
    before = dump(engine)
    captions = [candidate("c", "v", "Another pan."), candidate("new", "v", "A lid."), candidate("no", "x", "A lid.")]
    write_lines(folder / "captions.jsonl", captions)
    mixed = write_lines(tmp_path / "more.jsonl", [{"kind": "nothing"}])
    found, refused = try_ingest(engine, folder, "set", mixed_rows=mixed)
    assert dump(engine) == before
    assert +found.accepted == {"captions": 2}
    assert [row["source"] for row in refused] == ["captions.jsonl", "more.jsonl"]
    assert ingest(engine, folder, mixed_rows=mixed)[0].as_dict() == found.as_dict()


def test_a_trial_of_a_folder_that_is_no_manifest(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="videos is missing"):
        try_ingest(engine, tmp_path, "set")
