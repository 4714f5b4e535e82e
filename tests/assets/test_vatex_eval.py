"""VATEX-EVAL as a manifest: which rows come out, that ingest takes them all, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
import typer
from sqlalchemy.engine import Engine
from typer.testing import CliRunner

from assets.ingest.rejects import ManifestError
from assets.ingest.run import ingest_folder
from lab.adapters.vatex_eval import convert, main
from tests.assets.manifests import write_lines

REFERENCES = [f"a man cooks dish {i} ." for i in range(1, 10)]


def entry(video: str, *candidates: dict[str, Any], references: list[str] = REFERENCES) -> dict[str, Any]:
    return {"video_id": video, "references": references, "candidates": list(candidates)}


def rated(text: str, *ratings: float) -> dict[str, Any]:
    return {"text": text, "ratings": list(ratings)}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Two videos, one of them named with the underscores that ids are joined with."""
    rows = [entry("v__1", rated("a man cooks", 5.0, 4.0, 5.0), rated("ein Hündchen", 1, 2, 3)), entry("v__2")]
    return write_lines(tmp_path / "vatex.jsonl", rows)


def table(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def test_the_rows_of_a_video(source: Path, tmp_path: Path) -> None:
    assert convert(source, tmp_path / "out", references=1) == {"videos": 2, "captions": 4, "ratings": 6}
    assert table(tmp_path / "out", "videos") == [{"video_id": "v__1"}, {"video_id": "v__2"}]
    first = {"video_id": "v__1", "role": "candidate"}
    assert table(tmp_path / "out", "captions") == [
        {"caption_id": "v__1__reference_1", "video_id": "v__1", "role": "reference", "text": REFERENCES[0]},
        {"caption_id": "v__1__candidate_1", "system": "candidate_1", "text": "a man cooks", **first},
        {"caption_id": "v__1__candidate_2", "system": "candidate_2", "text": "ein Hündchen", **first},
        {"caption_id": "v__2__reference_1", "video_id": "v__2", "role": "reference", "text": REFERENCES[0]},
    ]
    ratings = [(r["caption_id"], r["rater"], r["aspect"], r["value"]) for r in table(tmp_path / "out", "ratings")]
    assert ratings == [
        (f"v__1__candidate_{place}", f"rater_{rater}", "overall", value)
        for place, values in ((1, (5, 4, 5)), (2, (1, 2, 3)))
        for rater, value in enumerate(values, start=1)
    ]


@pytest.mark.parametrize("wanted", [1, 4, 9])
def test_the_first_references_are_kept(source: Path, tmp_path: Path, wanted: int) -> None:
    convert(source, tmp_path / "out", references=wanted)
    kept = [row["text"] for row in table(tmp_path / "out", "captions") if row["role"] == "reference"]
    assert kept == 2 * REFERENCES[:wanted]


def test_ingest_takes_every_row(source: Path, tmp_path: Path, engine: Engine) -> None:
    convert(source, tmp_path / "out")
    report = ingest_folder(engine, tmp_path / "out", "vatex")
    assert (report.rejected, sum(report.accepted.values())) == (0, 2 + 20 + 6)
    with engine.connect() as connection:
        counts = connection.execute(sa.text('SELECT captions, "references", ratings FROM dataset_summary')).one()
        statuses = set(connection.scalars(sa.text("SELECT status FROM video")))
    assert (tuple(counts), statuses) == ((2, 18, 6), {"text_only"})


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("{", "line 2, the line: Invalid JSON"),
        (json.dumps({"video_id": "v"}), "line 2, references: Field required"),
        (json.dumps(entry("v", references=REFERENCES[:8])), "line 2, references: List should have at least 9"),
        (json.dumps(entry("v", rated("x", 1, 2))), "line 2, candidates.0.ratings: List should have at least 3"),
        (json.dumps(entry("v", rated("x", 1, 2, 2.5))), "line 2, candidates.0.ratings.2: Input should be a valid int"),
    ],
)
def test_a_line_that_is_something_else_is_named(tmp_path: Path, line: str, named: str) -> None:
    source = tmp_path / "other.jsonl"
    source.write_text(f"{json.dumps(entry('v'))}\n{line}\n")
    with pytest.raises(ManifestError) as caught:
        convert(source, tmp_path / "out")
    assert str(caught.value).startswith(f"other.jsonl, {named}")
    assert not (tmp_path / "out").exists()


def test_as_a_program(source: Path, tmp_path: Path) -> None:
    program = typer.Typer()
    program.command()(main)
    done = CliRunner().invoke(program, [str(source), str(tmp_path / "out"), "--references", "1"])
    assert (done.exit_code, json.loads(done.stdout)["captions"]) == (0, 4)
    for wanted in ("0", "10"):
        assert CliRunner().invoke(program, [str(source), str(tmp_path / "no"), "--references", wanted]).exit_code == 2
    source.write_text("{")
    refused = CliRunner().invoke(program, [str(source), str(tmp_path / "no")])
    assert refused.exit_code == 1
    assert refused.output.startswith("vatex.jsonl, line 1")


def test_the_whole_data_set(shared_data: Path, tmp_path: Path) -> None:
    source = shared_data / "vatex_eval" / "vatex_eval.jsonl"
    counts = convert(source, tmp_path / "out", references=9)
    assert counts == {"videos": 1508, "captions": 1508 * (9 + 6), "ratings": 1508 * 6 * 3}
