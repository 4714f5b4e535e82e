"""REALSumm and DREAM-1K as manifests: checklists without media or references, with dimensions of their own."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
import typer
from sqlalchemy.engine import Engine
from typer.testing import CliRunner

from assets.ingest.rejects import ManifestError
from assets.ingest.run import ingest_folder
from lab.adapters import dream1k, realsumm
from tests.assets.manifests import Row, write_lines


def table(folder: Path, name: str) -> list[Row]:
    return [json.loads(line) for line in (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def dimensions(engine: Engine) -> dict[str, int]:
    query = sa.text("SELECT dimension, count(*) AS n FROM keypoint GROUP BY 1")
    with engine.connect() as connection:
        return {row.dimension: row.n for row in connection.execute(query)}


# REALSumm


def summary(doc: str, system: str, text: str, *votes: list[int], present: int | None = None) -> Row:
    """A summary whose statements got these votes; `present` as the file has it, 0 for a tie, unless it is given."""
    keypoints = [
        {
            "scu": str(100 + i),
            "text": f"Fact {i} of {doc}.",
            "votes": each,
            "present": int(2 * sum(each) > len(each)) if present is None else present,
        }
        for i, each in enumerate(votes)
    ]
    return {"doc": doc, "system": system, "text": text, "keypoints": keypoints}


@pytest.fixture
def checklist(tmp_path: Path) -> Path:
    rows = [
        summary("d__1", "ext/a", "Eins.", [1, 1, 0], [0, 0, 1], [1, 0, 0, 1]),
        summary("d__2", "ext/a", "Zwei.", [1, 1, 1]),
        summary("d__1", "abs/b", "Drei.", [0, 0, 0], [1, 1, 1, 0], []),
    ]
    return write_lines(tmp_path / "checklist.jsonl", rows)


def test_the_rows_of_summaries(checklist: Path, tmp_path: Path) -> None:
    counts = realsumm.convert(checklist, tmp_path / "out")
    assert counts == {"videos": 2, "captions": 3, "keypoints": 4, "keypoint_labels": 5, "ties": 2}
    assert table(tmp_path / "out", "videos") == [{"video_id": "d__1"}, {"video_id": "d__2"}]
    assert table(tmp_path / "out", "captions")[2] == {
        "caption_id": "d__1__abs/b", "video_id": "d__1", "role": "candidate", "system": "abs/b", "text": "Drei."
    }  # fmt: skip
    keypoints = table(tmp_path / "out", "keypoints")
    assert [row["keypoint_id"] for row in keypoints] == ["d__1__100", "d__1__101", "d__1__102", "d__2__100"]
    assert keypoints[1] == {
        "keypoint_id": "d__1__101", "video_id": "d__1", "dimension": "statement", "text": "Fact 1 of d__1."
    }  # fmt: skip
    labels = [tuple(row.values()) for row in table(tmp_path / "out", "keypoint_labels")]
    assert labels == [
        ("d__1__100", "d__1__ext/a", True, [1, 1, 0]),
        ("d__1__101", "d__1__ext/a", False, [0, 0, 1]),
        ("d__2__100", "d__2__ext/a", True, [1, 1, 1]),
        ("d__1__100", "d__1__abs/b", False, [0, 0, 0]),
        ("d__1__101", "d__1__abs/b", True, [1, 1, 1, 0]),
    ]
    assert json.loads((tmp_path / "out" / "dimensions.json").read_text()) == ["statement"]


def test_a_statement_without_a_verdict_gets_no_label(tmp_path: Path) -> None:
    row = summary("d", "s", "t", [1, 1, 0], [1, 1, 1])
    row["keypoints"][0]["present"] = None
    counts = realsumm.convert(write_lines(tmp_path / "c.jsonl", [row]), tmp_path / "out")
    assert (counts["keypoints"], counts["keypoint_labels"], counts["ties"]) == (2, 1, 1)


@pytest.mark.parametrize(
    ("row", "named"),
    [
        (summary("d", "s", "t", [1, 2, 1]), "line 2, keypoints.0.votes.1: Input should be 0 or 1"),
        (summary("d", "s", "t", [1], present=3), "line 2, keypoints.0.present: Input should be 0 or 1"),
        ({"doc": "d", "system": "s", "keypoints": []}, "line 2, text: Field required"),
        (
            {**summary("d__1", "s", "t"), "keypoints": [{"scu": "100", "text": "x", "votes": [1], "present": 1}]},
            "keypoint d__1__100: it has two texts",
        ),
    ],
)
def test_a_summary_that_is_something_else_is_named(tmp_path: Path, row: Row, named: str) -> None:
    source = write_lines(tmp_path / "other.jsonl", [summary("d__1", "a", "t", [1]), row])
    with pytest.raises(ManifestError) as caught:
        realsumm.convert(source, tmp_path / "out")
    assert str(caught.value).startswith(f"other.jsonl, {named}")
    assert not (tmp_path / "out").exists()


def test_all_of_realsumm_is_ingested(shared_data: Path, tmp_path: Path, engine: Engine) -> None:
    source = shared_data / "realsumm" / "checklist.jsonl"
    rows = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()]
    votes = [statement["votes"] for row in rows for statement in row["keypoints"]]
    ties = sum(2 * sum(each) == len(each) for each in votes)
    counts = realsumm.convert(source, tmp_path / "out")
    assert counts == {"videos": 58, "captions": 1450, "keypoints": 600, "keypoint_labels": 15_000 - ties, "ties": ties}
    assert ties == 173
    report = ingest_folder(engine, tmp_path / "out", "realsumm")
    assert (report.rejected, sum(report.accepted.values())) == (0, 58 + 1450 + 600 + 14_827)
    assert dimensions(engine) == {"statement": 600}
    query = "SELECT covered, extra->'votes' FROM keypoint_label"
    with engine.connect() as connection:
        stored = Counter((covered, tuple(each)) for covered, each in connection.execute(sa.text(query)))
    assert stored == Counter((2 * sum(each) > len(each), tuple(each)) for each in votes if 2 * sum(each) != len(each))


# DREAM-1K


def dream_clip(idx: int, dataset: str, caption: str, *events: str) -> Row:
    answer = {"role": "assistant", "content": [{"reference": caption, "text": "", "type": "text", "video": None}]}
    request = {"role": "user", "content": [{"reference": None, "text": "Describe the video in detail."}]}
    info = {"duration": 5.09, "events": list(events), "n_events": len(events)}
    return {"messages": [request, answer], "dataset": dataset, "idx": idx, "extra_info": info, "vid": idx}


def test_the_rows_of_clips(tmp_path: Path) -> None:
    rows = [
        dream_clip(1, "film", "A dog runs.", "A dog runs.", "A dog runs."),
        dream_clip(2, "street", "A bus stops.", "A bus stops."),
        dream_clip(3, "film", "A cat sleeps."),
        dream_clip(4, "film", "A bird sings.", "A bird sings."),
    ]
    source = write_lines(tmp_path / "dream.jsonl", rows)
    assert dream1k.convert(source, tmp_path / "out") == {"videos": 4, "captions": 7, "keypoints": 4}
    assert table(tmp_path / "out", "videos")[1] == {"video_id": "2", "duration_s": 5.09, "dataset": "street"}
    captions = [
        (row["caption_id"], row["video_id"], row["role"], row["system"], row["text"], row.get("negative_control"))
        for row in table(tmp_path / "out", "captions")
    ]
    assert captions == [
        ("1__human", "1", "candidate", "human", "A dog runs.", None),
        ("1__other_clip", "1", "candidate", "other_clip", "A cat sleeps.", "the human caption of clip 3"),
        ("3__human", "3", "candidate", "human", "A cat sleeps.", None),
        ("3__other_clip", "3", "candidate", "other_clip", "A bird sings.", "the human caption of clip 4"),
        ("4__human", "4", "candidate", "human", "A bird sings.", None),
        ("4__other_clip", "4", "candidate", "other_clip", "A dog runs.", "the human caption of clip 1"),
        ("2__human", "2", "candidate", "human", "A bus stops.", None),
    ]
    keypoints = [tuple(row.values()) for row in table(tmp_path / "out", "keypoints")]
    assert keypoints == [
        ("1__1", "1", "events", "A dog runs."),
        ("1__2", "1", "events", "A dog runs."),
        ("2__1", "2", "events", "A bus stops."),
        ("4__1", "4", "events", "A bird sings."),
    ]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"messages": []}, "line 1, messages.0: Field required"),
        (
            {"messages": [{}, {"content": [{"reference": None}]}]},
            "line 1, messages.1.content.0.reference: Input should",
        ),
        ({"extra_info": {"duration": 5}}, "line 1, extra_info.events: Field required"),
    ],
)
def test_a_clip_that_is_something_else_is_named(tmp_path: Path, changes: dict[str, Any], named: str) -> None:
    source = write_lines(tmp_path / "other.jsonl", [{**dream_clip(1, "film", "A dog."), **changes}])
    with pytest.raises(ManifestError) as caught:
        dream1k.convert(source, tmp_path / "out")
    assert str(caught.value).startswith(f"other.jsonl, {named}")


def test_all_of_dream_1k_is_ingested(shared_data: Path, tmp_path: Path, engine: Engine) -> None:
    counts = dream1k.convert(shared_data / "dream1k" / "DREAM-1k.jsonl", tmp_path / "out")
    assert counts == {"videos": 1000, "captions": 2000, "keypoints": 6298}
    report = ingest_folder(engine, tmp_path / "out", "dream")
    assert (report.rejected, sum(report.accepted.values())) == (0, 9298)
    assert dimensions(engine) == {"events": 6298}
    other = (
        "SELECT count(*) FROM sample o JOIN video v USING (video_id) "
        "JOIN video w ON o.extra->>'negative_control' = 'the human caption of clip ' || w.key "
        "JOIN sample h ON h.video_id = w.video_id AND h.system = 'human' AND h.text = o.text "
        "WHERE o.system = 'other_clip' AND w.key <> v.key AND w.extra->>'dataset' = v.extra->>'dataset'"
    )
    with engine.connect() as connection:
        assert connection.scalar(sa.text(other)) == 1000


@pytest.mark.parametrize(
    ("main", "rows", "named"),
    [
        (realsumm.main, [summary("d", "s", "t", [1])], '{"videos": 1, "captions": 1'),
        (dream1k.main, [dream_clip(1, "film", "A dog.")], '{"videos": 1, "captions": 1'),
        (realsumm.main, [{}], "in.jsonl, line 1, system: Field required: give one object per summary"),
        (dream1k.main, [{}], "in.jsonl, line 1, idx: Field required: give one object per clip"),
    ],
)
def test_as_programs(tmp_path: Path, main: Any, rows: list[Row], named: str) -> None:
    program = typer.Typer()
    program.command()(main)
    done = CliRunner().invoke(program, [str(write_lines(tmp_path / "in.jsonl", rows)), str(tmp_path / "out")])
    assert (done.exit_code, done.output.startswith(named)) == (int("line 1" in named), True), done.output
