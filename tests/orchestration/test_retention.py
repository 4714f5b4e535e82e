"""`reelsieve db prune`: what it says it would delete, what it deletes, and what it leaves."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
import sqlalchemy as sa

from db.server.engine import open_engine
from db.server.urls import DAGSTER, build_sibling_url
from orchestration.installation import get_installation
from orchestration.launch import run_conclusions, run_ingest, run_scoring
from tests.command_line import run_command
from tests.orchestration.conftest import Installation

pytestmark = pytest.mark.slow

DATASET = "tiny"
OF_SCORERS = (
    *("score", "past_score", "selection", "selection_item", "score_threshold", "keypoint_threshold"),
    *("verdict_set", "ecs_verdict", "sample"),
)
EVIDENCE = ("text_embedding", "frame_set", "frame_embedding", "entailment")


@pytest.fixture(scope="module", autouse=True)
def scored(installation: Installation) -> None:
    """A dataset with scores and a frozen selection, whose every run is old."""
    for _ in range(2):
        run_ingest(get_installation(), installation.manifest, DATASET, None, 2)
    list(run_scoring(get_installation(), DATASET, ["vcs", "ecs"]))
    run_conclusions(get_installation(), DATASET)
    in_dagster("UPDATE runs SET create_timestamp = create_timestamp - interval '31 days'")
    in_dagster(
        "INSERT INTO job_ticks (job_origin_id, status, type, timestamp, tick_body) SELECT 'a', 'SKIPPED', 'SENSOR', "
        "now() - n * interval '20 days', repeat('x', 100) FROM generate_series(1, 3) n"
    )


def in_dagster(statement: str) -> list[Any]:
    storage = open_engine(build_sibling_url(get_installation().database_url, DAGSTER))
    with storage.begin() as connection:
        result = connection.exec_driver_sql(statement)
        rows = list(result) if result.returns_rows else []
    storage.dispose()
    return rows


def execute(statement: str) -> None:
    with get_installation().engine.begin() as connection:
        connection.execute(sa.text(statement))


def rows(*tables: str) -> dict[str, int]:
    with get_installation().engine.connect() as connection:
        return {name: connection.scalar(sa.text(f"SELECT count(*) FROM {name}")) or 0 for name in tables}


def prune(*options: str, **variables: str) -> dict[str, int]:
    """The rows that the command names, run with further environment variables."""
    done = run_command("db", "prune", "--json", *options, **variables)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["deleted"] == ("--yes" in options)
    assert all(row["bytes"] > 0 for row in answer["found"])
    return {row["what"]: row["rows"] for row in answer["found"]}


def test_old_runs_and_ticks_are_named_then_deleted_but_for_what_is_newest() -> None:
    runs, everything = get_installation().instance.get_runs_count(), rows(*OF_SCORERS, *EVIDENCE)
    found = prune()
    assert found == {
        "Dagster's runs, older than 30 days": 1,
        "Dagster's events, older than 30 days": found["Dagster's events, older than 30 days"],
        "Dagster's check results, older than 30 days": 1,
        "Dagster's ticks, older than 30 days": 2,
    }, "the first of two ingests made nothing that is the newest"
    assert get_installation().instance.get_runs_count() == runs, "it was only named"
    assert prune("--days", "70") == {}

    assert prune("--yes") == found
    assert prune() == {}
    assert get_installation().instance.get_runs_count() == runs - 1
    assert in_dagster("SELECT count(*) FROM job_ticks") == [(1,)]
    assert rows(*OF_SCORERS, *EVIDENCE) == everything


def test_evidence_goes_once_only_retired_scorers_need_it() -> None:
    others = {"REELSIEVE_ECS_VERIFIER": "offline", "REELSIEVE_TEXT_ENCODER": "offline"}
    before, scores = rows(*EVIDENCE), rows(*OF_SCORERS)
    texts = f"text_embedding of {os.environ['REELSIEVE_TEXT_ENCODER']}"
    pairs = f"entailment of {os.environ['REELSIEVE_ECS_VERIFIER']}"
    # As if all scorers but those of VCS had been retired by other settings.
    execute("UPDATE scorer SET status = 'retired' WHERE metric NOT LIKE 'vcs%'")
    assert prune() == {}, "the present settings still name the models"
    assert set(prune(**others)) == {pairs}, "VCS still needs the vectors of texts"
    execute("UPDATE scorer SET status = 'candidate' WHERE metric = 'ecs'")
    assert prune(**others) == {}, "a candidate's evidence is being made"
    execute("UPDATE scorer SET status = 'retired'")
    found = prune(**others)
    assert set(found) == {texts, pairs}

    assert prune("--yes", **others) == found
    assert prune(**others) == {}
    left = {name: n - found.get(texts if name == "text_embedding" else pairs, 0) for name, n in before.items()}
    left |= {name: before[name] for name in ("frame_set", "frame_embedding")}
    assert rows(*EVIDENCE) == left
    assert rows(*OF_SCORERS) == scores, "scores, their history and selections stay"
