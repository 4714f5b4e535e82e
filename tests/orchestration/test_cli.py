"""The command line as a user meets it: JSON shapes, sentences instead of traces, exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from assets.scores.registry import METRICS
from tests.assets.manifests import write_clip
from tests.command_line import Done, run_command
from tests.orchestration.conftest import Installation, forget_installation

TEXTS = {
    "faithful": "A red ball rolls in from the left. It hits a blue box. The box falls over. The ball stops.",
    "brief": "A ball hits a box.",
    "shuffled": "The ball stops. The box falls over. A red ball rolls in from the left. It hits a blue box.",
}
REFERENCE = (
    "A red ball rolls into view from the left. It bumps into a blue box. The box topples. The ball comes to rest."
)

Run = Callable[..., Done]


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A manifest of two text-only videos; the second has no reference, and one row is bad."""
    folder = tmp_path_factory.mktemp("manifest")
    write_rows(folder / "videos.jsonl", [{"video_id": "v1"}, {"video_id": "v2"}])
    captions: list[dict[str, Any]] = [
        {"caption_id": "v1_ref", "video_id": "v1", "role": "reference", "text": REFERENCE},
        {"caption_id": "v2_a", "video_id": "v2", "role": "candidate", "system": "brief", "text": "A cat."},
        {"caption_id": "bad", "video_id": "v9", "role": "candidate", "system": "brief", "text": "Nobody knows v9."},
    ]
    captions += [
        {"caption_id": f"v1_{system}", "video_id": "v1", "role": "candidate", "system": system, "text": text}
        for system, text in TEXTS.items()
    ]
    write_rows(folder / "captions.jsonl", captions)
    write_rows(folder / "qa.jsonl", [{"qa_id": "q1", "video_id": "v1", "question": "What rolls?", "answer": "A ball."}])
    return folder


@pytest.fixture(scope="module")
def run(installation: Installation) -> Run:
    """The command line on a home folder of its own."""
    return run_command


def read_json(done: Done) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def scored(run: Run, folder: Path) -> dict[str, Any]:
    """The answers of ingest and score on the manifest."""
    ingested = read_json(run("ingest", str(folder), "--dataset", "cli", "--json"))
    return {"ingest": ingested, "score": read_json(run("score", "--dataset", "cli", "--json"))}


def test_ingest_reports_each_table(scored: dict[str, Any]) -> None:
    report = scored["ingest"]
    assert report["dataset"] == "cli"
    assert report["accepted"] == {
        "videos": 2, "captions": 5, "keypoints": 0, "keypoint_labels": 0, "qa": 1, "ratings": 0
    }  # fmt: skip
    assert set(report["unchanged"].values()) == {0}
    assert report["rejected"] == 1


def test_score_reports_each_shard_and_scores_nothing_twice(run: Run, scored: dict[str, Any]) -> None:
    assert scored["score"] == {"dataset": "cli", "shards": [{"shard": "cli:0000", **dict.fromkeys(METRICS, 5)}]}
    again = run("score", "--dataset", "cli")
    assert again.returncode == 0
    assert "nothing to score" in again.stdout


def test_rejects_name_file_line_code_and_reason(run: Run, scored: dict[str, Any]) -> None:
    (reject,) = read_json(run("rejects", "--dataset", "cli", "--json"))
    assert {name: reject[name] for name in ("source", "line", "code")} == {
        "source": "captions.jsonl",
        "line": 3,
        "code": "dangling_reference",
    }
    assert "v9" in reject["reason"]


def test_scores_are_ordered_and_null_where_undefined(run: Run, scored: dict[str, Any]) -> None:
    rows = read_json(run("scores", "--dataset", "cli", "--json"))
    values = {row["sample"]: row["vcs"] for row in rows}
    assert rows[0]["sample"] == "v1_faithful"
    assert rows[0]["system"] == "faithful"
    assert rows[0]["video"] == "v1"
    assert values["v1_faithful"] > values["v1_shuffled"]
    statuses = {row["sample"]: row["vcs_status"] for row in rows if row["vcs"] is None}
    assert statuses == {"v2_a": "no_reference", "q1": "not_applicable"}


def test_scores_of_the_demo_encoder_say_so_and_warn_elsewhere(run: Run, tmp_path: Path) -> None:
    write_clip(tmp_path / "videos" / "noise.avi", n_frames=40)
    write_rows(tmp_path / "videos.jsonl", [{"video_id": "noise", "path": "videos/noise.avi"}])
    caption = {"caption_id": "c", "video_id": "noise", "role": "candidate", "system": "sys", "text": TEXTS["brief"]}
    write_rows(tmp_path / "captions.jsonl", [caption])
    assert run("ingest", str(tmp_path), "--dataset", "real").returncode == 0
    scored = run("score", "--dataset", "real", "--metric", "evqa")
    assert scored.returncode == 0, scored.stderr
    said = " ".join(scored.stderr.split())
    assert "made with demo encoder, which knows the demo's drawn clips alone: its numbers mean nothing here" in said
    assert "REELSIEVE_IMAGE_TEXT_ENCODER" in said
    table = run("scores", "--dataset", "real", "--by", "evqa").stdout
    assert "evqa (demo encoder)" in " ".join(table.split())
    (row,) = read_json(run("scores", "--dataset", "real", "--json"))
    assert isinstance(row["evqa"], float)
    assert row["evqa_models"].startswith("demo encoder, ")
    assert (row["vcs"], row["vcs_status"], row["vcs_models"]) == (None, None, None)


def test_select_freezes_and_exports(run: Run, scored: dict[str, Any], tmp_path: Path) -> None:
    target = tmp_path / "best.parquet"
    arguments = ["select", "-d", "cli", "--by", "vcs", "--keep", "0.5", "--where", "system != 'brief'", "--json"]
    first = read_json(run(*arguments, "--export", str(target)))
    assert first["n"] == 1
    assert first["path"] == str(target)
    (row,) = pq.read_table(target).to_pylist()
    assert row["sample"] == "v1_faithful"
    assert row["value"] == first["cutoff"] == row["vcs"]
    again = read_json(run(*arguments))
    assert again["selection_id"] == first["selection_id"]
    assert again["path"] is None
    lines = tmp_path / "best.jsonl"
    assert read_json(run("export", str(first["selection_id"]), str(lines), "--json"))["path"] == str(lines)
    assert [json.loads(line)["sample"] for line in lines.read_text().splitlines()] == ["v1_faithful"]


def test_sql_answers_rows_and_may_not_write(run: Run, scored: dict[str, Any]) -> None:
    query = "SELECT sample, vcs FROM sample_scores WHERE vcs IS NOT NULL ORDER BY vcs DESC LIMIT 1"
    (row,) = read_json(run("sql", query, "--json"))
    assert row["sample"] == "v1_faithful"
    refused = run("sql", "DELETE FROM score")
    assert refused.returncode == 1
    assert refused.stderr.startswith("error: ")


def test_status_counts_what_is_there(run: Run, scored: dict[str, Any]) -> None:
    (row,) = [found for found in read_json(run("status", "--json")) if found["dataset"] == "cli"]
    assert (row["dataset"], row["videos"], row["captions"], row["qa"], row["rejects"]) == ("cli", 2, 4, 1, 1)
    assert row["vcs_pending"] == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["ingest", "no/such/folder", "-d", "x"], "no such folder"),
        (["ingest", ".", "-d", "a b"], "dataset name"),
        (["score", "-d", "nobody"], "there is no dataset 'nobody'"),
        (["score", "-d", "cli", "--metric", "bleu"], "there is no metric 'bleu'"),
        (["scores", "-d", "nobody"], "there is no dataset 'nobody'"),
        (["rejects", "-d", "nobody"], "there is no dataset 'nobody'"),
        (["select", "-d", "cli", "--keep", "1.5"], "keep is 1.5"),
        (["select", "-d", "cli", "--by", "bleu"], "there is no metric 'bleu'"),
        (["select", "-d", "cli", "--where", "vcs > 0; DROP TABLE score"], "not allowed"),
        (["select", "-d", "cli", "--where", "vcs > 2"], "no sample"),
        (["select", "-d", "cli", "--export", "best.txt"], "use .parquet or .jsonl"),
        (["export", "999", "best.parquet"], "no selection 999"),
        (["sql", "SELECT 1; SELECT 2"], "multiple commands"),
        (["sql", "SELEC 1"], "syntax error"),
    ],
)
def test_a_mistake_gets_one_sentence(run: Run, scored: dict[str, Any], arguments: list[str], says: str) -> None:
    done = run(*arguments)
    assert done.returncode == 1
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"CURATION_DB_URL": "mysql://localhost/x"}, "needs Postgres"),
        ({"CURATION_DB_URL": "postgresql://someone:hunter2@127.0.0.1:1/curation"}, "no connection"),
        ({"REELSIEVE_VCS_LCT": "-1"}, "REELSIEVE_VCS_LCT"),
        ({"REELSIEVE_TEXT_ENCODER": "no/such-model", "HF_HUB_OFFLINE": "1"}, "no/such-model"),
        ({"REELSIEVE_SENTENCE_SPLITTER": "commas"}, "REELSIEVE_SENTENCE_SPLITTER"),
    ],
)
def test_a_wrong_setting_is_named(run: Run, scored: dict[str, Any], variables: dict[str, str], says: str) -> None:
    done = run("status", **variables)
    assert done.returncode == 1
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert "hunter2" not in done.stderr + done.stdout


def test_doctor_finds_everything_here(run: Run, scored: dict[str, Any]) -> None:
    findings = json.loads(run("doctor", "--json").stdout)
    assert {finding["what"] for finding in findings} >= {
        "database", "text encoder", "verifier", "read-only role", "video decoders"
    }  # fmt: skip
    assert [finding for finding in findings if not finding["ok"]] == []


@pytest.mark.parametrize(
    ("what", "variables", "says"),
    [
        ("text encoder", {"TEXT_ENCODER": "no/such-model"}, "REELSIEVE_TEXT_ENCODER"),
        ("verifier", {"ECS_VERIFIER": "no/such-model"}, "REELSIEVE_ECS_VERIFIER"),
        (
            "image-text encoder",
            {"IMAGE_TEXT_ENCODER": "ViT-B-32", "IMAGE_TEXT_CHECKPOINT": "no/such-model"},
            "neither a file nor a tag that open_clip knows",
        ),
    ],
)
def test_doctor_names_what_is_missing(
    run: Run, scored: dict[str, Any], what: str, variables: dict[str, str], says: str
) -> None:
    settings = {f"REELSIEVE_{name}": value for name, value in variables.items()}
    done = run("doctor", "--json", HF_HUB_OFFLINE="1", **settings)
    assert done.returncode == 1
    (missing,) = [finding for finding in json.loads(done.stdout) if not finding["ok"]]
    assert missing["what"] == what
    assert "no/such-model" in missing["detail"]
    assert says in missing["detail"]


def test_the_server_stops_and_starts(run: Run, scored: dict[str, Any]) -> None:
    forget_installation()
    assert read_json(run("db", "stop", "--json")) == {"stopped": True}
    assert read_json(run("db", "stop", "--json")) == {"stopped": False}
    assert read_json(run("db", "start", "--json"))["url"].startswith("postgresql://")
    assert read_json(run("db", "migrate", "--json"))["revision"]
    assert read_json(run("status", "--json"))[0]["dataset"] == "cli"
