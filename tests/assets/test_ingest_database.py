"""Ingest into a real database: what is stored, what is refused, what a later ingest changes and what it leaves."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import URL, Engine

from assets.ingest.reject_writer import MAX_ROWS_PER_CODE
from assets.ingest.rejects import ManifestError
from assets.ingest.report import IngestReport
from assets.ingest.run import ingest_folder
from assets.ingest.write import BATCH_SIZE, FILES_PER_BATCH
from db.manifest.datasets import find_dataset
from db.manifest.rejects import list_rejects
from db.schema.inputs import REFERENCES, TEXT, VIDEO, Input
from db.schema.views import create_views
from db.scores.pending import list_pending_samples, load_samples
from db.scores.store import ScoreRow, register_scorer, store_scores
from tests.assets.manifests import (
    TABLE_NAMES,
    Row,
    candidate,
    content,
    dump,
    keypoint,
    label,
    of_kind,
    qa,
    rating,
    reference,
    spans,
    vector,
    write_clip,
    write_lines,
    write_manifest,
)
from tests.conftest import PROJECT

VCS_INPUTS = (TEXT, REFERENCES)


def rejected(engine: Engine, name: str = "set") -> list[tuple[str, int, str]]:
    """Source, line and code of every refused row."""
    with engine.connect() as connection:
        dataset = find_dataset(connection, name)
        assert dataset is not None
        rows = list_rejects(connection, dataset.dataset_id)
    return [(row["source"], row["line"], row["code"]) for row in rows]


def rows(engine: Engine, query: str) -> list[tuple[Any, ...]]:
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(sa.text(query))]


def n_accepted(report: IngestReport) -> dict[str, int]:
    return {table: n for table, n in report.accepted.items() if n}


def is_untouched(report: IngestReport) -> bool:
    return not n_accepted(report) and sum(report.unchanged.values()) > 0


# The real pack and its malformed rows


@pytest.fixture(scope="module")
def pack(module_engine: Engine, shared_data: Path) -> tuple[Engine, IngestReport]:
    folder = shared_data / "clips"
    return module_engine, ingest_folder(module_engine, folder, "set", mixed_rows=folder / "bad_rows.jsonl")


@pytest.fixture(scope="module")
def verdicts(shared_data: Path) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = json.loads((shared_data / "clips" / "bad_rows_expected.json").read_text())["lines"]
    assert len(lines) == 47
    return lines


def pack_rows(shared_data: Path, name: str) -> list[Row]:
    """The rows of a table of the pack, which has no vectors."""
    path = shared_data / "clips" / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_bytes().splitlines()] if name != "vectors" else []


def test_every_malformed_line_is_refused_for_the_expected_reason(
    pack: tuple[Engine, IngestReport], verdicts: list[dict[str, Any]]
) -> None:
    want = [("bad_rows.jsonl", line["line"], line["code"]) for line in verdicts if line["expect"] == "reject"]
    assert len(want) == 37
    assert rejected(pack[0]) == want


def test_accepted_lines_are_stored_unchanged(
    pack: tuple[Engine, IngestReport], verdicts: list[dict[str, Any]], shared_data: Path
) -> None:
    lines = (shared_data / "clips" / "bad_rows.jsonl").read_bytes().split(b"\n")
    accepted = [json.loads(lines[line["line"] - 1]) for line in verdicts if line["expect"] == "accept"]
    assert len(accepted) == 9
    query = "SELECT key, system, text, convert_to(text, 'UTF8'), text_sha256 FROM sample WHERE kind = 'caption'"
    stored: dict[str, list[tuple[Any, ...]]] = {}
    for key, *columns in rows(pack[0], query):
        stored.setdefault(key, []).append(tuple(columns))
    for row in accepted:
        data = row["text"].encode()
        assert stored[row["caption_id"]] == [(row["system"], row["text"], data, hashlib.sha256(data).digest())]


def test_every_good_row_of_the_pack_is_stored_with_all_its_fields(
    pack: tuple[Engine, IngestReport], shared_data: Path
) -> None:
    captions = pack_rows(shared_data, "captions")
    want = {(r["caption_id"], r["video_id"], r["system"], r["text"]) for r in captions if r["role"] == "candidate"}
    candidates = "SELECT s.key, v.key, s.system, s.text FROM sample s JOIN video v USING (video_id) WHERE s.kind = "
    assert want <= set(rows(pack[0], candidates + "'caption'"))
    segments = {r["caption_id"]: (r["text"], r.get("segments")) for r in captions if r["role"] == "reference"}
    assert {k: (t, s) for k, t, s in rows(pack[0], "SELECT key, text, segments FROM reference")} == segments

    questions = {(r["qa_id"], r["question"], r["answer"], r["quality"]) for r in pack_rows(shared_data, "qa")}
    query = "SELECT key, question, answer, extra->>'quality' FROM sample WHERE kind = 'qa'"
    assert set(rows(pack[0], query)) == questions

    points = pack_rows(shared_data, "keypoints")
    query = "SELECT key, dimension, text, segment_index FROM keypoint"
    want_points = {(r["keypoint_id"], r["dimension"], r["text"], r["segment_index"]) for r in points}
    assert set(rows(pack[0], query)) == want_points

    labels = {(r["keypoint_id"], r["caption_id"], r["covered"]) for r in pack_rows(shared_data, "keypoint_labels")}
    query = "SELECT k.key, s.key, covered FROM keypoint_label JOIN keypoint k USING (keypoint_id) JOIN sample s USING "
    assert set(rows(pack[0], query + "(sample_id)")) == labels

    numbers = {
        tuple(r[f] for f in ("caption_id", "rater", "aspect", "value")) for r in pack_rows(shared_data, "ratings")
    }
    query = "SELECT key, rater, aspect, value FROM rating JOIN sample USING (sample_id)"
    assert set(rows(pack[0], query)) == numbers


def test_the_report_counts_every_row_once(pack: tuple[Engine, IngestReport], shared_data: Path) -> None:
    _, report = pack
    lines = {name: len(pack_rows(shared_data, name)) for name in TABLE_NAMES.values()}
    # Eight valid captions and one identical repeat among the malformed rows.
    assert n_accepted(report) == {**+Counter(lines), "captions": lines["captions"] + 8}
    assert +report.unchanged == {"captions": 1}
    assert report.rejected == 37


def test_the_pack_again_changes_nothing(pack: tuple[Engine, IngestReport], shared_data: Path) -> None:
    engine, first = pack
    before = dump(engine)
    again = ingest_folder(
        engine,
        shared_data / "clips",
        "set",
        mixed_rows=shared_data / "clips" / "bad_rows.jsonl",
        n_shards=7,
    )
    assert n_accepted(again) == {}
    assert again.unchanged == first.accepted + first.unchanged
    assert again.rejected == first.rejected
    assert dump(engine) == before


def test_the_manual_states_every_choice_that_the_pack_leaves_open(verdicts: list[dict[str, Any]]) -> None:
    choices = (PROJECT / "docs" / "manifest.md").read_text(encoding="utf-8").split("## Choices")[1]
    open_codes = {line["code"] for line in verdicts if line["policy"] and line["expect"] == "reject"}
    assert open_codes == {"too_long", "control_characters", "duplicate_key", "segment_outside_clip"}
    assert [code for code in open_codes if f"(`{code}`)" not in choices] == []
    assert "equal content is accepted and changes nothing" in choices


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_csv_and_parquet_hold_the_same_rows_as_json_lines(
    engine: Engine, tmp_path: Path, shared_data: Path, suffix: str
) -> None:
    tables = {name: found for name in TABLE_NAMES.values() if (found := pack_rows(shared_data, name))}
    # No files: each folder has its own, so their places would differ.
    tables["videos"] = [{**row, "path": None, "duration_s": 30.5} for row in tables["videos"]]
    first = ingest_folder(engine, write_manifest(tmp_path / "jsonl", **tables), "set")
    before = dump(engine)
    other = tmp_path / suffix
    other.mkdir()
    for name, table in tables.items():
        {"csv": write_csv, "parquet": write_parquet}[suffix](other / f"{name}.{suffix}", table)
    again = ingest_folder(engine, other, "set")
    assert again.rejected == first.rejected == 0
    assert n_accepted(again) == {}
    assert again.unchanged == first.accepted
    assert dump(engine) == before


def write_csv(path: Path, table: list[Row]) -> None:
    def cell(value: Any) -> Any:
        return json.dumps(value) if isinstance(value, list) else value

    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(name for row in table for name in row)))
        writer.writeheader()
        writer.writerows({name: cell(value) for name, value in row.items()} for row in table)


def write_parquet(path: Path, table: list[Row]) -> None:
    pq.write_table(pa.Table.from_pylist([{**dict.fromkeys(table[-1]), **row} for row in table]), path)


# What a change makes stale


STORY: dict[str, Any] = {
    "videos": ["v1", "v2"],
    "captions": [
        reference("r1", "v1", "A pan is tossed."),
        reference("r2", "v2", "A dog runs."),
        candidate("c1", "v1", "Somebody tosses a pan."),
        candidate("c2", "v1", "A pan flies."),
        candidate("c3", "v2", "A cat sleeps."),
    ],
    "qa": [qa("q1", "v1")],
}


def with_captions(*changed: Row) -> dict[str, Any]:
    """The story with captions replaced or added."""
    captions = {row["caption_id"]: row for row in (*STORY["captions"], *changed)}
    return {**STORY, "captions": list(captions.values())}


def pretend_scored(engine: Engine, inputs: Collection[Input[Any]]) -> int:
    """Give every sample a score of a scorer that looks at these inputs; returns the scorer's id."""
    with engine.begin() as connection:
        create_views(connection, {"vcs": inputs})
    with engine.begin() as connection:
        scorer_id = register_scorer(connection, metric="vcs", models={}, params={}, code_version="test")
        ids = list(connection.scalars(sa.text("SELECT sample_id FROM sample")))
        samples = load_samples(connection, ids, inputs)
    scores = [ScoreRow(s.sample_id, s.input_sha256, s.input_marks, 0.5, {}, "ok", None) for s in samples]
    store_scores(engine, scorer_id, "run", scores)
    return scorer_id


def stale(engine: Engine, scorer_id: int) -> set[str]:
    """Keys of the samples that the scorer would score again."""
    with engine.connect() as connection:
        dataset = find_dataset(connection, "set")
        assert dataset is not None
        ids = [
            sample_id
            for shard in range(dataset.n_shards)
            for sample_id in list_pending_samples(
                connection, scorer_id=scorer_id, dataset_id=dataset.dataset_id, shard=shard
            )
        ]
        return set(connection.scalars(sa.text("SELECT key FROM sample WHERE sample_id = ANY(:ids)"), {"ids": ids}))


@pytest.fixture
def scored(engine: Engine, tmp_path: Path) -> int:
    """The story in the database, in two shards and with all scores; the id of the scorer."""
    ingest_folder(engine, write_manifest(tmp_path / "set", **STORY), "set", n_shards=2)
    scorer_id = pretend_scored(engine, VCS_INPUTS)
    assert stale(engine, scorer_id) == set()
    return scorer_id


@pytest.mark.parametrize(
    ("changed", "want"),
    [
        (candidate("c1", "v1", "Somebody throws a pan."), {"c1"}),
        (reference("r1", "v1", "A pan is thrown."), {"c1", "c2", "q1"}),
        (reference("r3", "v2", "A dog sprints."), {"c3"}),
        (reference("r1", "v2", "A pan is tossed."), {"c1", "c2", "c3", "q1"}),
        (candidate("c1", "v2", "Somebody tosses a pan."), {"c1"}),
        (candidate("c4", "v2", "A dog barks."), {"c4"}),
        (candidate("c1", "v1", "Somebody tosses a pan.", system="other", mood="calm"), set()),
        (reference("r1", "v1", "A pan is tossed.", segments=[{"start_s": 0, "end_s": 2}]), set()),
    ],
)
def test_a_changed_caption_makes_stale_what_depends_on_it(
    engine: Engine, tmp_path: Path, scored: int, changed: Row, want: set[str]
) -> None:
    ids = set(rows(engine, "SELECT key, sample_id FROM sample"))
    report = ingest_folder(engine, write_manifest(tmp_path / "set", **with_captions(changed)), "set")
    assert n_accepted(report) == {"captions": 1}
    assert stale(engine, scored) == want
    assert ids <= set(rows(engine, "SELECT key, sample_id FROM sample"))


def test_a_caption_moved_to_another_video_moves_to_its_shard(engine: Engine, tmp_path: Path) -> None:
    # Among eight videos some two lie in different shards of two.
    videos = [f"v{i}" for i in range(8)]
    folder = write_manifest(tmp_path / "set", videos, captions=[candidate("c", "v0", "A pan.")])
    ingest_folder(engine, folder, "set", n_shards=2)
    shards = dict(rows(engine, "SELECT key, shard FROM video"))
    assert set(shards.values()) == {0, 1}
    other = next(video for video in videos if shards[video] != shards["v0"])
    write_manifest(folder, videos, captions=[candidate("c", other, "A pan.")])
    ingest_folder(engine, folder, "set")
    query = "SELECT v.key, s.shard FROM sample s JOIN video v USING (video_id)"
    assert rows(engine, query) == [(other, shards[other])]


def test_tags_and_notes_outlive_later_ingests(engine: Engine, tmp_path: Path) -> None:
    folder = write_manifest(tmp_path / "set", ["v", "w"], captions=[candidate("c", "v", "A pan.")])
    ingest_folder(engine, folder, "set")
    query = (
        "INSERT INTO remark (sample_id, dataset_id, kind, text, made_by) "
        "SELECT sample_id, dataset_id, k, 'good', 'ann' FROM sample, unnest(ARRAY['tag', 'note']) k"
    )
    with engine.begin() as connection:
        connection.execute(sa.text(query))
    before = rows(engine, "SELECT * FROM remark ORDER BY kind")
    assert len(before) == 2
    for caption in (candidate("c", "v", "A pan."), candidate("c", "w", "A pot.")):
        ingest_folder(engine, write_manifest(folder, ["v", "w"], captions=[caption]), "set")
        assert rows(engine, "SELECT * FROM remark ORDER BY kind") == before
    assert rows(engine, "SELECT text, tags FROM sample_scores") == [("A pot.", ["good"])]


def test_a_changed_video_file_makes_only_scores_of_its_pictures_stale(engine: Engine, tmp_path: Path) -> None:
    folder = tmp_path / "set"
    videos = [{"video_id": name, "path": f"videos/{name}.mp4"} for name in ("v1", "v2")]
    write_manifest(folder, **{**STORY, "videos": videos})
    for row in videos:
        write_clip(folder / row["path"])
    ingest_folder(engine, folder, "set")
    by_text = pretend_scored(engine, VCS_INPUTS)
    before = rows(engine, "SELECT video_id, key, n_frames, status FROM video ORDER BY key")
    assert [row[2:] for row in before] == [(12, "ok"), (12, "ok")]

    write_clip(folder / "videos" / "v1.mp4", n_frames=9, brightness=200)
    report = ingest_folder(engine, folder, "set")
    assert n_accepted(report) == {"videos": 1}
    after = rows(engine, "SELECT video_id, key, n_frames, status FROM video ORDER BY key")
    assert after == [(*before[0][:2], 9, "ok"), before[1]]
    digest = hashlib.sha256((folder / "videos" / "v1.mp4").read_bytes()).digest()
    assert rows(engine, "SELECT content_sha256 FROM video WHERE key = 'v1'") == [(digest,)]
    assert stale(engine, by_text) == set()


def test_scores_that_read_content_the_pictures_follow_the_file(engine: Engine, tmp_path: Path) -> None:
    folder = write_manifest(tmp_path / "set", **{**STORY, "videos": [{"video_id": "v1", "path": "v1.mp4"}, "v2"]})
    write_clip(folder / "v1.mp4")
    ingest_folder(engine, folder, "set")
    scorer_id = pretend_scored(engine, (TEXT, VIDEO))
    stat = write_clip(folder / "v1.mp4").stat()
    os.utime(folder / "v1.mp4", ns=(stat.st_atime_ns, stat.st_mtime_ns + 10**9))
    ingest_folder(engine, folder, "set")
    assert stale(engine, scorer_id) == set()
    # The new time is remembered, or the file would be read again by every ingest from now on.
    assert rows(engine, "SELECT mtime_ns FROM video WHERE key = 'v1'") == [(stat.st_mtime_ns + 10**9,)]
    assert is_untouched(ingest_folder(engine, folder, "set"))

    write_clip(folder / "v1.mp4", brightness=200)
    ingest_folder(engine, folder, "set")
    assert stale(engine, scorer_id) == {"c1", "c2", "q1"}


def test_a_file_changed_under_its_old_size_and_time_counts_as_changed(engine: Engine, tmp_path: Path) -> None:
    folder = write_manifest(tmp_path / "set", **{**STORY, "videos": [{"video_id": "v1", "path": "v1.avi"}, "v2"]})
    path = write_clip(folder / "v1.avi")
    ingest_folder(engine, folder, "set")
    scorer_id = pretend_scored(engine, (TEXT, VIDEO))
    stat, content = path.stat(), bytearray(path.read_bytes())
    content[-400] ^= 0xFF
    path.write_bytes(content)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert n_accepted(ingest_folder(engine, folder, "set")) == {"videos": 1}
    assert rows(engine, "SELECT content_sha256 FROM video WHERE key = 'v1'") == [(hashlib.sha256(content).digest(),)]
    assert stale(engine, scorer_id) == {"c1", "c2", "q1"}


def test_a_restored_copy_is_remembered_and_makes_nothing_stale(engine: Engine, tmp_path: Path) -> None:
    folder = write_manifest(tmp_path / "set", **{**STORY, "videos": [{"video_id": "v1", "path": "v1.avi"}, "v2"]})
    path = write_clip(folder / "v1.avi")
    ingest_folder(engine, folder, "set")
    scorer_id = pretend_scored(engine, (TEXT, VIDEO))
    # What was found out about a content stays true of it, so it is not found out again.
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE video SET codec = 'as found before' WHERE key = 'v1'"))
    Path(shutil.copy2(path, folder / "copy.avi")).replace(path)
    assert n_accepted(ingest_folder(engine, folder, "set")) == {"videos": 1}
    stat = path.stat()
    stored = rows(engine, "SELECT ctime_ns, inode, codec FROM video WHERE key = 'v1'")
    assert stored == [(stat.st_ctime_ns, stat.st_ino, "as found before")]
    assert stale(engine, scorer_id) == set()
    assert is_untouched(ingest_folder(engine, folder, "set"))


# One id, two rows


def everything(variant: int) -> dict[str, list[Row]]:
    """One row of every kind; the variants share their ids and differ in content."""
    return {
        "videos": [{"video_id": "v", "note": f"variant {variant}"}],
        "captions": [candidate("c", "v", f"Variant {variant}.")],
        "keypoints": [keypoint("k", "v", text=f"Variant {variant}.")],
        "keypoint_labels": [label("k", "c", covered=variant == 0)],
        "qa": [qa("q", "v", answer=f"Variant {variant}.")],
        "ratings": [rating("c", value=1 + variant)],
        "vectors": [vector("v", 1 + variant, 0.5)],
    }


def others(table: str, n: int) -> list[Row]:
    """n rows of a table that have nothing to do with the ones above."""
    make: dict[str, Callable[[str], Row]] = {
        "videos": lambda i: {"video_id": f"v{i}"},
        "captions": lambda i: candidate(f"c{i}", "v", "Filler."),
        "keypoints": lambda i: keypoint(f"k{i}", "v"),
        "keypoint_labels": lambda i: label(f"k{i}", "c"),
        "qa": lambda i: qa(f"q{i}", "v"),
        "ratings": lambda i: rating("c", rater=f"rater {i}"),
        "vectors": lambda i: vector(f"v{i}", 0.5, 1),
    }
    return [make[table](str(i)) for i in range(n)]


@pytest.mark.parametrize("n_between", [0, BATCH_SIZE + 5], ids=["same batch", "another batch"])
def test_within_one_ingest_the_first_row_of_an_id_counts(engine: Engine, tmp_path: Path, n_between: int) -> None:
    first, equal, other = everything(0), everything(0), everything(1)
    tables = {t: [*first[t], *others(t, n_between), *equal[t], *other[t]] for t in TABLE_NAMES.values()}
    report = ingest_folder(engine, write_manifest(tmp_path / "set", **tables), "set")
    want = [(f"{table}.jsonl", n_between + 3, "duplicate_conflict") for table in sorted(TABLE_NAMES.values())]
    assert sorted(rejected(engine)) == want
    assert report.accepted == dict.fromkeys(TABLE_NAMES.values(), n_between + 1)
    assert report.unchanged == dict.fromkeys(TABLE_NAMES.values(), 1)
    assert_variant_0(engine)


def test_rows_of_a_mixed_file_repeat_those_of_the_folder(engine: Engine, tmp_path: Path) -> None:
    folder = write_manifest(tmp_path / "set", **everything(0))
    lines = [
        row
        for kind, table in TABLE_NAMES.items()
        for variant in (0, 1)
        for row in of_kind(kind, *everything(variant)[table])
    ]
    report = ingest_folder(engine, folder, "set", mixed_rows=write_lines(tmp_path / "more.jsonl", lines))
    assert rejected(engine) == [("more.jsonl", line, "duplicate_conflict") for line in range(2, 15, 2)]
    assert report.unchanged == dict.fromkeys(TABLE_NAMES.values(), 1)
    assert_variant_0(engine)
    reasons = [reason for (reason,) in rows(engine, "SELECT reason FROM ingest_reject ORDER BY line")]
    ids = ["'v'", "'c'", "'k'", "'k / c'", "'q'", "'c / r1 / coverage'", "'v / InternVideo2'"]
    for shown, reason in zip(ids, reasons, strict=True):
        assert reason.startswith(f"id {shown} was used earlier in this ingest")


def assert_variant_0(engine: Engine) -> None:
    assert rows(engine, "SELECT extra->>'note' FROM video WHERE key = 'v'") == [("variant 0",)]
    assert rows(engine, "SELECT text FROM sample WHERE key = 'c'") == [("Variant 0.",)]
    assert rows(engine, "SELECT answer FROM sample WHERE key = 'q'") == [("Variant 0.",)]
    assert rows(engine, "SELECT text FROM keypoint WHERE key = 'k'") == [("Variant 0.",)]
    query = "SELECT covered FROM keypoint_label JOIN keypoint USING (keypoint_id) WHERE key = 'k'"
    assert rows(engine, query) == [(True,)]
    assert rows(engine, "SELECT value FROM rating WHERE rater = 'r1'") == [(1.0,)]
    query = "SELECT embedding::text FROM video_embedding JOIN video USING (video_id) WHERE key = 'v'"
    assert rows(engine, query) == [("[1,0.5]",)]


def test_in_a_later_ingest_the_new_row_counts(engine: Engine, tmp_path: Path) -> None:
    ingest_folder(engine, write_manifest(tmp_path / "set", **everything(1)), "set")
    report = ingest_folder(engine, write_manifest(tmp_path / "set", **everything(0)), "set")
    assert report.accepted == dict.fromkeys(TABLE_NAMES.values(), 1)
    assert rejected(engine) == []
    assert_variant_0(engine)


def test_a_refused_row_does_not_take_its_id(engine: Engine, tmp_path: Path) -> None:
    captions = [candidate("c", "nowhere", "First."), candidate("c", "v", " "), candidate("c", "v", "Third.")]
    ingest_folder(engine, write_manifest(tmp_path / "set", ["v"], captions=captions), "set")
    assert [code for _, _, code in rejected(engine)] == ["dangling_reference", "empty_text"]
    assert rows(engine, "SELECT text FROM sample") == [("Third.",)]


def test_ids_of_different_kinds_and_datasets_do_not_meet(engine: Engine, tmp_path: Path) -> None:
    tables: dict[str, Any] = {"videos": ["x"], "captions": [candidate("x", "x", "A.")], "qa": [qa("x", "x")]}
    folder = write_manifest(tmp_path / "set", **tables, keypoints=[keypoint("x", "x")])
    for name in ("one", "two"):
        report = ingest_folder(engine, folder, name)
        assert n_accepted(report) == {"videos": 1, "captions": 1, "qa": 1, "keypoints": 1}
        assert rejected(engine, name) == []


@pytest.mark.parametrize("roles", [(reference, candidate), (candidate, reference)])
@pytest.mark.parametrize("ingests", [1, 2])
def test_a_caption_keeps_its_role(engine: Engine, tmp_path: Path, roles: tuple[Any, Any], ingests: int) -> None:
    first, second = (role("c", "v", "A pan is tossed.") for role in roles)
    folder = tmp_path / "set"
    if ingests == 2:
        ingest_folder(engine, write_manifest(folder, ["v"], captions=[first]), "set")
        ingest_folder(engine, write_manifest(folder, ["v"], captions=[second]), "set")
    else:
        ingest_folder(engine, write_manifest(folder, ["v"], captions=[first, second]), "set")
    assert rejected(engine) == [("captions.jsonl", 3 - ingests, "duplicate_conflict")]
    counts = rows(engine, "SELECT (SELECT count(*) FROM reference), (SELECT count(*) FROM sample)")
    assert counts == [(1, 0) if roles[0] is reference else (0, 1)]


# Rows that point to each other


CROSS: dict[str, Any] = {
    "videos": [{"video_id": "v1", "duration_s": 10}, "v2"],
    "captions": [
        reference("r1", "v1", "Two segments.", segments=[{"start_s": 0, "end_s": 1}, {"start_s": 1, "end_s": 9}]),
        candidate("c1", "v1", "One."),
        candidate("c2", "v2", "Two."),
    ],
    "keypoints": [keypoint("k1", "v1", segment_index=1), keypoint("k2", "v2")],
    "qa": [qa("q1", "v1")],
}


@pytest.mark.parametrize(
    ("kind", "row", "code"),
    [
        ("caption", candidate("n", "nowhere", "A pan."), "dangling_reference"),
        ("caption", reference("n", "nowhere", "A pan."), "dangling_reference"),
        ("keypoint", keypoint("n", "nowhere"), "dangling_reference"),
        ("qa", qa("n", "nowhere"), "dangling_reference"),
        ("rating", rating("nothing"), "dangling_reference"),
        ("rating", rating("r1"), "dangling_reference"),
        ("rating", rating("q1"), "dangling_reference"),
        ("keypoint_label", label("nothing", "c1"), "dangling_reference"),
        ("keypoint_label", label("k1", "nothing"), "dangling_reference"),
        ("keypoint_label", label("k1", "r1"), "dangling_reference"),
        ("keypoint_label", label("k1", "c2"), "mismatched_video"),
        ("keypoint_label", label("k1", "c1"), None),
        ("keypoint", keypoint("n", "v1", segment_index=1), None),
        ("keypoint", keypoint("n", "v1", segment_index=2), "segment_index_out_of_range"),
        ("keypoint", keypoint("n", "v2", segment_index=0), "segment_index_out_of_range"),
        ("caption", candidate("n", "v1", "A.", segments=[{"start_s": 0, "end_s": 11}]), None),
        ("caption", candidate("n", "v1", "A.", segments=[{"start_s": 0, "end_s": 11.01}]), "segment_outside_clip"),
        ("caption", reference("n", "v1", "A.", segments=[{"start_s": 0, "end_s": 99}]), "segment_outside_clip"),
        ("caption", candidate("n", "v2", "A.", segments=[{"start_s": 0, "end_s": 1e6}]), None),
        ("vector", vector("v1", 0.5, 1), None),
        ("vector", vector("nothing", 0.5, 1), "dangling_reference"),
    ],
)
def test_rows_must_point_to_what_is_there(cross: Cross, kind: str, row: Row, code: str | None) -> None:
    assert cross(of_kind(kind, row)) == ([] if code is None else [("rows.jsonl", 1, code)])


Cross = Callable[[list[Row]], list[tuple[str, int, str]]]


@pytest.fixture
def cross(module_engine: Engine, tmp_path: Path, request: pytest.FixtureRequest) -> Cross:
    """Ingest the rows of above and then some more into a dataset of the test's own; gives what was refused."""

    def ingest(more: list[Row]) -> list[tuple[str, int, str]]:
        name = request.node.name
        mixed = write_lines(tmp_path / "rows.jsonl", more)
        ingest_folder(module_engine, write_manifest(tmp_path / "set", **CROSS), name, mixed_rows=mixed)
        return rejected(module_engine, name)

    return ingest


def test_in_a_mixed_file_the_order_of_kinds_does_not_matter(cross: Cross) -> None:
    assert (
        cross([row for kind, table in reversed(TABLE_NAMES.items()) for row in of_kind(kind, *everything(0)[table])])
        == []
    )


def test_what_points_to_a_refused_row_is_refused_too(cross: Cross) -> None:
    lines = [
        *of_kind("video", {"video_id": "v", "path": "missing.mp4"}),
        *of_kind("caption", candidate("c", "v", "A pan.")),
        *of_kind("rating", rating("c")),
        *of_kind("rating", rating("c1")),
    ]
    codes = ["file_missing", "dangling_reference", "dangling_reference"]
    assert cross(lines) == [("rows.jsonl", line, code) for line, code in enumerate(codes, 1)]


def test_keypoints_use_the_dimensions_of_their_folder(engine: Engine, tmp_path: Path) -> None:
    points = [keypoint("k1", "v1", dimension="mood"), keypoint("k2", "v1")]
    folder = write_manifest(tmp_path / "set", ["v1"], keypoints=points)
    more = write_lines(tmp_path / "more.jsonl", of_kind("keypoint", keypoint("k3", "v1", dimension="pace")))
    (folder / "dimensions.json").write_text('["mood", "pace"]')
    ingest_folder(engine, folder, "set", mixed_rows=more)
    assert rejected(engine) == [("keypoints.jsonl", 2, "unknown_dimension")]
    assert rows(engine, "SELECT key, dimension FROM keypoint ORDER BY key") == [("k1", "mood"), ("k3", "pace")]
    (folder / "dimensions.json").write_text("mood")
    with pytest.raises(ManifestError, match=r"dimensions\.json"):
        ingest_folder(engine, folder, "other")
    assert rows(engine, "SELECT name FROM dataset") == [("set",)]


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_a_caption_that_could_not_be_read_is_a_sample(engine: Engine, tmp_path: Path, suffix: str) -> None:
    unread = candidate("c", "v1", "", parse_error="line 3: no JSON", raw="[{", tries=2)
    told = reference("r", "v1", "A pan.", parse_error="line 4: half a segment")
    folder = write_manifest(tmp_path / "set", ["v1"], captions=[unread, told, candidate("d", "v1", "")])
    if suffix == "parquet":
        captions = [json.loads(line) for line in (folder / "captions.jsonl").read_text().splitlines()]
        (folder / "captions.jsonl").unlink()
        write_parquet(folder / "captions.parquet", [{**dict.fromkeys(unread), **row} for row in captions])
    ingest_folder(engine, folder, "set")
    assert rejected(engine) == [(f"captions.{suffix}", 3, "empty_text")]
    extra = {"parse_error": "line 3: no JSON", "raw": "[{", "tries": 2}
    assert rows(engine, "SELECT key, text, extra FROM sample") == [("c", "", extra)]
    assert rows(engine, "SELECT key, extra FROM reference") == [("r", {"parse_error": "line 4: half a segment"})]
    again = ingest_folder(engine, folder, "set")
    assert is_untouched(again)


def test_a_repaired_row_is_no_longer_listed_as_refused(engine: Engine, tmp_path: Path) -> None:
    folder = write_manifest(tmp_path / "set", ["v"], captions=[candidate("c1", "v", ""), candidate("c2", "w", "A.")])
    ingest_folder(engine, folder, "set")
    assert len(rejected(engine)) == 2
    write_manifest(folder, ["v"], captions=[candidate("c1", "v", "A."), candidate("c2", "w", "A.")])
    ingest_folder(engine, folder, "set")
    assert rejected(engine) == [("captions.jsonl", 2, "dangling_reference")]


# Rows that the database cannot store


def long_id(kind: str) -> str:
    """512 bytes that cannot be compressed: an index stores what it can shorten."""
    noise = random.Random(kind)
    return "".join(chr(noise.randrange(0x4E00, 0x9FFF)) for _ in range(170)) + "ab"


def test_the_longest_ids_fit_every_index(engine: Engine, tmp_path: Path) -> None:
    video, caption, point = long_id("video"), long_id("caption"), long_id("keypoint")
    rated = {"caption_id": caption, "rater": long_id("rater"), "aspect": long_id("aspect"), "value": 3}
    folder = write_manifest(
        tmp_path / "set",
        [video],
        captions=[candidate(caption, video, "A pan.", system=long_id("system")), reference(long_id("r"), video, "A.")],
        keypoints=[keypoint(point, video)],
        keypoint_labels=[label(point, caption)],
        qa=[{**qa(long_id("qa"), video), "system": long_id("system"), "quality": long_id("quality")}],
        ratings=[rated, rated, {**rated, "value": 4}],
        vectors=[vector(video, 0.5, encoder=long_id("encoder"))],
    )
    report = ingest_folder(engine, folder, "set")
    assert rejected(engine) == [("ratings.jsonl", 3, "duplicate_conflict")]
    assert report.accepted == {**dict.fromkeys(TABLE_NAMES.values(), 1), "captions": 2}
    assert is_untouched(ingest_folder(engine, folder, "set"))


def test_an_id_beyond_the_limit_is_a_refused_row(engine: Engine, tmp_path: Path) -> None:
    # Shorter than 512 characters each, and more than an index row together.
    rater, aspect = (long_id(name) * 3 for name in ("rater", "aspect"))
    ratings: list[Row] = [{"caption_id": "c", "rater": rater[:500], "aspect": aspect[:500], "value": 3}, rating("c")]
    folder = write_manifest(tmp_path / "set", ["v"], captions=[candidate("c", "v", "A.")], ratings=ratings)
    report = ingest_folder(engine, folder, "set")
    assert rejected(engine) == [("ratings.jsonl", 1, "too_long")]
    assert report.accepted["ratings"] == 1


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("ALTER TABLE sample ADD CONSTRAINT calm CHECK (text !~ 'shouts')", 'violates check constraint "calm"'),
        ("CREATE INDEX by_text ON sample (text)", "exceeds btree version 4 maximum 2704"),
    ],
)
def test_a_row_that_the_database_refuses_is_a_refused_row(
    engine: Engine, tmp_path: Path, rule: str, reason: str
) -> None:
    with engine.begin() as connection:
        connection.execute(sa.text(rule))
    captions = [candidate(f"c{i}", f"v{i % 2}", f"Caption {i}.") for i in range(BATCH_SIZE + 20)]
    refused = [0, 7, 500, 501, BATCH_SIZE - 1, BATCH_SIZE, BATCH_SIZE + 19]
    for i in refused:
        captions[i]["text"] = "A man shouts " + "".join(long_id(f"{i} {part}") for part in range(12))
    ratings = [rating("c7"), rating("c8")]
    folder = write_manifest(tmp_path / "set", ["v0", "v1"], captions=captions, ratings=ratings)
    report = ingest_folder(engine, folder, "set")
    want = [("captions.jsonl", i + 1, "database_refused") for i in refused]
    assert rejected(engine) == [*want, ("ratings.jsonl", 1, "dangling_reference")]
    assert report.accepted["captions"] == len(captions) - len(refused)
    assert report.rejected == len(refused) + 1
    assert rows(engine, "SELECT count(*) FROM sample") == [(len(captions) - len(refused),)]
    reasons = rows(engine, "SELECT reason FROM ingest_reject WHERE code = 'database_refused'")
    assert all(text.startswith("the database cannot store the row: ") and reason in text for (text,) in reasons)
    again = ingest_folder(engine, folder, "set")
    assert is_untouched(again)
    assert again.rejected == report.rejected


def test_an_error_that_no_row_is_to_blame_for_ends_the_ingest(engine: Engine, tmp_path: Path) -> None:
    with engine.begin() as connection:
        connection.execute(sa.text("ALTER TABLE sample RENAME COLUMN question TO asked"))
    folder = write_manifest(tmp_path / "set", ["v"], captions=[candidate("c", "v", "A.")])
    with pytest.raises(psycopg.errors.UndefinedColumn):
        ingest_folder(engine, folder, "set")
    assert rejected(engine) == []


# Files full of refused rows


def test_refused_rows_beyond_a_number_are_counted_and_not_listed(engine: Engine, tmp_path: Path) -> None:
    folder = write_manifest(tmp_path / "set", ["v"], captions=[candidate("c", "v", "A.")])
    good, empty, bad = "c,r1,coverage,3\n", ",,,\n", "c,r1,coverage,9\n"
    path = folder / "ratings.csv"
    path.write_text("caption_id,rater,aspect,value\n" + empty * (MAX_ROWS_PER_CODE + 1) + bad * 3 + empty * 4 + good)
    report = ingest_folder(engine, folder, "set")
    assert (report.accepted["ratings"], report.rejected) == (1, MAX_ROWS_PER_CODE + 8)
    by_code = "SELECT code, count(*), sum(n_rows), max(n_rows) FROM ingest_reject GROUP BY code ORDER BY code"
    assert rows(engine, by_code) == [
        ("missing_field", MAX_ROWS_PER_CODE + 1, MAX_ROWS_PER_CODE + 5, 5),
        ("out_of_range", 3, 3, 1),
    ]
    last = "SELECT line, reason FROM ingest_reject WHERE n_rows > 1"
    said = "(and 4 more rows with code missing_field, counted here and not listed)"
    assert rows(engine, last) == [(MAX_ROWS_PER_CODE + 2, f"field 'caption_id' is missing: add it {said}")]
    assert rows(engine, "SELECT rejects FROM dataset_summary") == [(MAX_ROWS_PER_CODE + 8,)]

    path.write_text("caption_id,rater,aspect,value\n" + empty * (MAX_ROWS_PER_CODE + 1) + good)
    report = ingest_folder(engine, folder, "set")
    assert (report.unchanged["ratings"], report.rejected) == (1, MAX_ROWS_PER_CODE + 1)
    assert rows(engine, by_code) == [("missing_field", MAX_ROWS_PER_CODE + 1, MAX_ROWS_PER_CODE + 1, 1)]


def test_what_is_hashed_of_a_number_is_what_is_stored(engine: Engine, tmp_path: Path) -> None:
    fields = {"moved": -0.0, "path": [{"x": -0.0}], "tiny": 5e-324, "whole": 10**299}
    folder = write_manifest(tmp_path / "set", [{"video_id": "v", "duration_s": 3, "origin": -0.0}])
    write_lines(folder / "captions.jsonl", [candidate("c", "v", "A.", **fields, segments=spans((-0.0, 1)))])
    ingest_folder(engine, folder, "set")
    ((stored, segments),) = rows(engine, "SELECT extra, segments FROM sample")
    assert stored == fields
    assert str([stored["moved"], stored["path"], segments[0]["start_s"]]) == "[0.0, [{'x': 0.0}], 0.0]"
    # A hash made of what is stored is the stored hash, so the same row with 0.0 is no other row.
    write_lines(folder / "captions.jsonl", [candidate("c", "v", "A.", **stored, segments=segments)])
    assert is_untouched(ingest_folder(engine, folder, "set"))


# Video files


def test_links_must_not_lead_out_of_the_folder(engine: Engine, tmp_path: Path) -> None:
    write_clip(tmp_path / "outside" / "secret.mp4")
    folder = write_manifest(tmp_path / "real", [{"video_id": "inside", "path": "clip.mp4"}])
    write_clip(folder / "clip.mp4")
    (folder / "link.mp4").symlink_to(tmp_path / "outside" / "secret.mp4")
    (folder / "linked").symlink_to(tmp_path / "outside")
    (folder / "loop.mp4").symlink_to("loop.mp4")
    (folder / "within.mp4").symlink_to("clip.mp4")
    paths = ["link.mp4", "linked/secret.mp4", "loop.mp4", "linked", "within.mp4"]
    videos = [{"video_id": path, "path": path} for path in paths]
    write_manifest(folder, videos, captions=[])
    (tmp_path / "alias").symlink_to(folder)
    ingest_folder(engine, tmp_path / "alias", "set")
    codes = ["path_escape", "path_escape", "file_missing", "path_escape"]
    assert rejected(engine) == [("videos.jsonl", line, code) for line, code in enumerate(codes, 1)]
    assert rows(engine, "SELECT key, uri FROM video") == [("within.mp4", str((folder / "clip.mp4").resolve()))]


def test_a_video_without_a_file_is_text_only_until_it_has_one(engine: Engine, tmp_path: Path) -> None:
    folder = write_manifest(
        tmp_path / "set", [{"video_id": "v", "duration_s": 4}, "w"], captions=[candidate("c", "v", "A pan.")]
    )
    ingest_folder(engine, folder, "set")
    query = "SELECT key, status, duration_s, uri, content_sha256, n_frames, error FROM video ORDER BY key"
    nothing = (None, None, None, None)
    assert rows(engine, query) == [("v", "text_only", 4.0, *nothing), ("w", "text_only", None, *nothing)]
    ids = rows(engine, "SELECT video_id FROM video WHERE key = 'v'")

    path = write_clip(folder / "v.mp4")
    write_manifest(folder, [{"video_id": "v", "duration_s": 4, "path": "v.mp4"}, "w"])
    ingest_folder(engine, folder, "set")
    digest = hashlib.sha256(path.read_bytes()).digest()
    assert rows(engine, query)[0] == ("v", "ok", 1.0, str(path.resolve()), digest, 12, None)
    assert rows(engine, "SELECT video_id FROM video WHERE key = 'v'") == ids
    assert rows(engine, "SELECT key FROM sample") == [("c",)]

    write_manifest(folder, ["v", "w"])
    ingest_folder(engine, folder, "set")
    assert rows(engine, query)[0] == ("v", "text_only", None, *nothing)


def test_a_file_that_does_not_decode_is_a_row_and_one_that_is_no_video_is_refused(
    engine: Engine, tmp_path: Path
) -> None:
    folder = write_manifest(tmp_path / "set")
    whole = write_clip(folder / "whole.avi").read_bytes()
    (folder / "half.avi").write_bytes(whole[: len(whole) // 2])
    boxes = write_clip(folder / "boxes.mp4").read_bytes()
    start, end = boxes.index(b"mdat") + 4, boxes.index(b"moov") - 4
    (folder / "blank.mp4").write_bytes(boxes[:start] + bytes(end - start) + boxes[end:])
    (folder / "text.mp4").write_text("This is no video.\n" * 100)
    (folder / "empty.mp4").touch()
    names = ["whole.avi", "half.avi", "blank.mp4", "text.mp4", "empty.mp4"]
    write_manifest(
        folder,
        [{"video_id": name, "path": name} for name in names],
        captions=[candidate(name, name, "A pan.") for name in names],
    )
    ingest_folder(engine, folder, "set")
    stored = {key: rest for key, *rest in rows(engine, "SELECT key, status, n_frames, error FROM video")}
    assert stored["whole.avi"] == ["ok", 12, None]
    assert stored["half.avi"][0] == "damaged"
    assert stored["half.avi"][2]
    assert stored["blank.mp4"][0] == "undecodable"
    assert stored["blank.mp4"][2]
    assert rejected(engine) == [
        ("captions.jsonl", 4, "dangling_reference"),
        ("captions.jsonl", 5, "dangling_reference"),
        ("videos.jsonl", 4, "not_a_video"),
        ("videos.jsonl", 5, "not_a_video"),
    ]
    assert {key for (key,) in rows(engine, "SELECT key FROM sample")} == {"whole.avi", "half.avi", "blank.mp4"}
    before = dump(engine)
    ingest_folder(engine, folder, "set")
    assert dump(engine) == before


# Crashes, company and size


class Crash(RuntimeError):
    """What the tests raise in the middle."""


@pytest.fixture
def long_folder(tmp_path: Path) -> Path:
    """Several batches of several tables, with rows that are refused and ids that come twice."""
    n = 2 * BATCH_SIZE + 300
    captions = [candidate(f"c{i % (n - 50)}", f"v{i % 7}", f"Text {i % 90}.") for i in range(n)]
    captions[700]["text"] = ""
    captions[1500]["video_id"] = "nowhere"
    questions = [qa(f"q{i}", f"v{i % 9}") for i in range(BATCH_SIZE + 10)]
    videos = [f"v{i}" for i in range(7)]
    return write_manifest(tmp_path / "long", videos, captions=captions, qa=questions, ratings=[rating("c5")])


def test_an_interrupted_ingest_is_finished_by_the_next(engine: Engine, long_folder: Path) -> None:
    ingest_folder(engine, long_folder, "set", n_shards=3)
    want = content(engine)
    assert len(want["sample"]) > 2 * BATCH_SIZE
    assert want["ingest_reject"]
    progress: list[tuple[str, int]] = []
    for n_batches in (1, 3, 6):
        with engine.begin() as connection:
            connection.execute(sa.text("DELETE FROM dataset"))
        progress.clear()

        def crash(source: str, done: int, n_batches: int = n_batches) -> None:
            progress.append((source, done))
            if len(progress) == n_batches:
                raise Crash

        with pytest.raises(Crash):
            ingest_folder(engine, long_folder, "set", n_shards=3, progress=crash)
        stored = {row["key"] for row in dump(engine)["sample"] if row["kind"] == "caption"}
        captions_read = max((done for source, done in progress if source == "captions.jsonl"), default=0)
        assert len(stored) >= captions_read - 60
        ingest_folder(engine, long_folder, "set")
        assert content(engine) == want
    assert progress[-1] == ("qa.jsonl", BATCH_SIZE + 10)


@pytest.mark.parametrize("mixed", [False, True])
def test_a_batch_probes_few_files_but_takes_many_rows(engine: Engine, tmp_path: Path, mixed: bool) -> None:
    texts = [{"video_id": f"text {i}"} for i in range(BATCH_SIZE + 5)]
    files = [{"video_id": f"file {i}", "path": "missing.mp4"} for i in range(FILES_PER_BATCH + 2)]
    videos: list[Row] = [*texts, *files]
    progress: list[tuple[str, int]] = []

    def note(source: str, done: int) -> None:
        progress.append((source, done))

    if mixed:
        path = write_lines(tmp_path / "rows.jsonl", of_kind("video", *videos))
        ingest_folder(engine, write_manifest(tmp_path / "set"), "set", mixed_rows=path, progress=note)
    else:
        ingest_folder(engine, write_manifest(tmp_path / "set", videos), "set", progress=note)
    assert [done for _, done in progress] == [BATCH_SIZE, len(texts) + FILES_PER_BATCH, len(videos)]
    assert rows(engine, "SELECT count(*) FROM video") == [(len(texts),)]
    assert len(rejected(engine)) == len(files)


def test_two_ingests_at_once_end_like_one(engine: Engine, long_folder: Path) -> None:
    alone = ingest_folder(engine, long_folder, "set", n_shards=3)
    want = content(engine)
    with engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM dataset"))
    start = Barrier(2)

    def ingest(_: int) -> IngestReport:
        start.wait()
        return ingest_folder(engine, long_folder, "set", n_shards=3)

    with ThreadPoolExecutor(2) as pool:
        first, second = sorted(pool.map(ingest, range(2)), key=lambda report: -sum(report.accepted.values()))
    assert content(engine) == want
    assert first.as_dict() == alone.as_dict()
    assert is_untouched(second)
    assert second.rejected == alone.rejected


MEASURE = """
import re, resource, sys
from pathlib import Path
from sqlalchemy.engine import make_url
from assets.ingest.run import ingest_folder
from db.server.engine import open_engine

def peak_bytes():
    # On Linux ru_maxrss begins with the size of the process that started this one, which would hide any growth.
    status = Path("/proc/self/status")
    if status.exists():
        return int(re.search(r"VmHWM:\\s+(\\d+) kB", status.read_text())[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

engine = open_engine(make_url(sys.argv[1]))
for folder in sys.argv[2:]:
    report = ingest_folder(engine, Path(folder), Path(folder).name)
    print(report.accepted["captions"], peak_bytes())
"""


def long_captions(n: int) -> Iterator[Row]:
    return (candidate(f"caption {i}", f"v{i % 50}", f"Caption {i} " + "tells of a pan. " * 20) for i in range(n))


@pytest.mark.slow
def test_memory_does_not_grow_with_the_manifest(database: URL, tmp_path: Path) -> None:
    # Both large enough for a process of their own that checks rows ahead.
    sizes = (12_000, 36_000)
    videos = [f"v{i}" for i in range(50)]
    folders = [str(write_manifest(tmp_path / str(n), videos, captions=long_captions(n))) for n in sizes]
    url = database.render_as_string(hide_password=False)
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, url, *folders], cwd=PROJECT, check=True, capture_output=True, text=True
    )
    (small, before), (large, after) = ([int(word) for word in line.split()] for line in done.stdout.splitlines())
    assert (small, large) == sizes
    # Measured: less than 8 MiB at 12,000 and 60,000 rows, and at 30,000 and 120,000; 24,000 rows in memory are 47 MB.
    assert after - before < 8 * 2**20
