"""What follows from a metric that an installed package brings along. Run by tests/test_outside_metric.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

import reelsieve as rs
from assets.definitions.lineage import build_score_lineage
from assets.metrics.registry import SCORERS
from orchestration.runs import get_definitions
from tests.command_line import run_command
from tests.orchestration.conftest import Installation

pytest_plugins = ("tests.orchestration.conftest",)


@pytest.fixture(scope="module")
def scored(installation: Installation) -> Installation:
    for arguments in (["ingest", str(installation.manifest)], ["score", "--metric", "letters"]):
        done = run_command(*arguments, "--dataset", "set")
        assert done.returncode == 0, done.stderr
    return installation


def answer(*arguments: str, **variables: str) -> Any:
    done = run_command(*arguments, "--json", **variables)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_dagster_shows_its_assets_checks_and_steps(installation: Installation) -> None:
    graph = get_definitions().get_repository_def().asset_graph
    score = graph.get(dg.AssetKey("letters_score"))
    assert {key.to_user_string() for key in score.parent_keys} == {"sample", "letter_count"}
    assert graph.get(dg.AssetKey("letter_count")).group_name == "letters"
    checks = {(key.asset_key.to_user_string(), key.name) for key in graph.asset_check_keys}
    assert {("letter_count", "letters_counted"), ("letters_score", "inputs_fresh")} <= checks
    steps = {node.name for node in get_definitions().resolve_job_def("scoring_job").nodes}
    assert {"letter_count", "letter_count_checks", "letters_score", "letters_score_checks"} <= steps


def test_its_value_comes_from_its_own_table_too() -> None:
    (read,) = build_score_lineage(SCORERS["letters"]).deps_by_column.values()
    assert {dep.column_name for dep in read if dep.asset_key == dg.AssetKey("letter_count")} == {"n"}
    assert {dep.column_name for dep in read if dep.asset_key == dg.AssetKey("sample")} >= {"text"}


def test_scores_are_rows_and_columns(scored: Installation) -> None:
    rows = answer("sql", "SELECT text, letters, letters_status, letters_models FROM sample_scores")
    assert rows
    for row in rows:
        n = sum(character.isalpha() for character in row["text"])
        assert (row["letters"], row["letters_status"], row["letters_models"]) == (min(1, n / 200), "ok", "abacus")


def test_only_its_own_source_was_made(scored: Installation) -> None:
    assert answer("sql", "SELECT count(*) AS n FROM text_embedding") == [{"n": 0}]


def test_the_command_line_knows_it(scored: Installation) -> None:
    assert answer("dataset", "scores", "--dataset", "set", "--by", "letters")[0]["letters"] is not None
    assert answer("select", "--dataset", "set", "--by", "letters", "--where", "letters > 0.1", "--keep", "1")["n"] > 0
    assert answer("dataset", "list")[0]["letters_pending"] == 0
    (explained,) = answer("explain", "clip_00_faithful_0", "--dataset", "set", "--metric", "letters")
    assert explained["explanation"]["lines"] == [f"{explained['value'] * 200:.0f} letters of at most 200"]
    findings = {finding["what"]: finding for finding in json.loads(run_command("doctor", "--json").stdout)}
    assert "counts 8 letters" in findings["letter_count: abacus"]["detail"]


def test_its_setting_makes_another_scorer(scored: Installation) -> None:
    before = answer("sql", "SELECT avg(letters) AS mean FROM sample_scores")[0]["mean"]
    done = run_command("score", "--dataset", "set", "--metric", "letters", REELSIEVE_LETTERS_MOST="100000")
    assert done.returncode == 0, done.stderr
    misspelt = run_command("dataset", "list", REELSIEVE_LETTERS_MOTS="100000")
    assert "did you mean REELSIEVE_LETTERS_MOST?" in misspelt.stderr
    assert answer("sql", "SELECT avg(letters) AS mean FROM sample_scores")[0]["mean"] == pytest.approx(before / 500)
    assert run_command("score", "--dataset", "set", "--metric", "letters").returncode == 0
    assert answer("sql", "SELECT avg(letters) AS mean FROM sample_scores")[0]["mean"] == pytest.approx(before)


def test_a_changed_text_makes_its_score_stale(scored: Installation) -> None:
    captions = Path(scored.manifest / "captions.jsonl")
    rows = [json.loads(line) for line in captions.read_text().splitlines()]
    (changed,) = [row for row in rows if row["caption_id"] == "clip_00_faithful_0"]
    changed["text"] = "Short."
    captions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    query = "SELECT letters, letters_status FROM sample_scores WHERE sample = 'clip_00_faithful_0'"
    assert run_command("ingest", str(scored.manifest), "--dataset", "set").returncode == 0
    assert answer("sql", query) == [{"letters": None, "letters_status": "stale"}]
    assert run_command("score", "--dataset", "set", "--metric", "letters").returncode == 0
    assert answer("sql", query) == [{"letters": 5 / 200, "letters_status": "ok"}]
    history = (
        "SELECT changed_because FROM score_history WHERE sample = 'clip_00_faithful_0' AND replaced_at IS NOT NULL "
        "AND metric = 'letters'"
    )
    assert answer("sql", history) == [{"changed_because": "text"}]


def test_a_decorated_function_is_a_metric_like_any_other(scored: Installation) -> None:
    done = run_command("score", "--dataset", "set", "--metric", "shared_words")
    columns = "shared_words, shared_words_status, shared_words_models"
    query = f"SELECT system, {columns} FROM sample_scores WHERE sample LIKE 'clip_01%'"
    rows = {row["system"]: row for row in answer("sql", query)}
    assert rows["shuffled"] == {
        "system": "shuffled",
        "shared_words": 1.0,
        "shared_words_status": "ok",
        "shared_words_models": "tests.outside.words.words",
    }
    assert rows["brief"]["shared_words_status"] == "failed"
    reason = "SELECT DISTINCT error FROM current_score WHERE metric = 'shared_words' AND status = 'failed'"
    assert answer("sql", reason) == [{"error": "shared_words raised ValueError: birds are not counted here"}]
    assert get_definitions().get_repository_def().asset_graph.has(dg.AssetKey("shared_words_score"))
    (explained,) = answer("explain", "clip_01_shuffled_0", "--dataset", "set", "--metric", "shared_words")
    assert explained["explanation"]["lines"] == [
        "shared_words is the function words: The share of the caption's words that a reference has."
    ]
    assert done.returncode in (0, 1)


def test_python_knows_installed_metrics_by_name() -> None:
    table = pa.table({"caption": ["a b", "a bird"], "references": ["a c", "a c"]})
    assert rs.score(table, ["shared_words"])["shared_words"].to_pylist() == [0.5, None]
    with pytest.raises(rs.ReelsieveError, match="letter_count is made for stored datasets only: ingest the data"):
        rs.score(table, ["letters"])


def test_changed_references_make_the_score_of_a_function_stale(scored: Installation) -> None:
    captions = Path(scored.manifest / "captions.jsonl")
    rows = [json.loads(line) for line in captions.read_text().splitlines()]
    for row in rows:
        if row["video_id"] == "clip_02" and row["role"] == "reference":
            row["text"] = "Nothing."
    captions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run_command("ingest", str(scored.manifest), "--dataset", "set").returncode == 0
    query = "SELECT DISTINCT shared_words_status FROM sample_scores WHERE system = 'shuffled' AND sample LIKE '{}%'"
    assert answer("sql", query.format("clip_02")) == [{"shared_words_status": "stale"}]
    assert answer("sql", query.format("clip_03")) == [{"shared_words_status": "ok"}]
