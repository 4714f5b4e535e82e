"""Commands that score one dataset at once: each shard goes to one of them, and none does again what another did."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import dagster as dg
import pytest

from assets.sources.base import Tell
from assets.steps import GivenUp, Step, take_step
from db.server.leases import Leases
from orchestration import sharing
from orchestration.forecasts import forecast_scoring
from orchestration.launch import run_ingest, run_scoring
from orchestration.platform import database_url, engine, instance
from orchestration.runs import CheckFailed, definitions
from tests.command_line import run_command
from tests.orchestration.conftest import Installation

DATASET = "shared"
SHARDS = [f"{DATASET}:{number:04d}" for number in range(3)]
N_SAMPLES = 36


@pytest.fixture(scope="module", autouse=True)
def ingested(installation: Installation) -> None:
    run_ingest(installation.manifest, DATASET, None, len(SHARDS))


@pytest.fixture(autouse=True)
def one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command takes so few shards only where many are left; these tests have three."""
    monkeypatch.setattr(sharing, "AT_LEAST", 1)


@pytest.fixture(autouse=True)
def unscored() -> Iterator[None]:
    """Every test finds samples without scores, and scorers that never ran."""
    yield
    with engine().begin() as connection:
        connection.exec_driver_sql("DELETE FROM scorer")


def n_runs() -> int:
    return instance().get_runs_count(dg.RunsFilter(job_name="scoring_job"))


def test_a_shard_that_one_command_has_goes_to_no_other() -> None:
    first = run_scoring(DATASET, ["vcs"])
    begun = [next(first)]
    second = list(run_scoring(DATASET, ["vcs"]))
    assert [key for key, _ in begun] == SHARDS[:1]
    assert [key for key, _ in second] == SHARDS[1:]
    before = n_runs()
    assert list(first) == [], "the second has done the rest"
    assert n_runs() == before
    assert sum(written["vcs"] for _, written in (*begun, *second)) == N_SAMPLES


def test_another_metric_is_work_of_its_own() -> None:
    first = run_scoring(DATASET, ["vcs"])
    done = [next(first)]
    other = list(run_scoring(DATASET, ["vcs_short"], shards=[1, 2]))
    done += first
    assert [key for key, _ in other] == SHARDS[1:]
    assert [key for key, _ in done] == SHARDS
    assert sum(written["vcs"] for _, written in done) == N_SAMPLES


def test_a_check_that_failed_in_another_command_fails_in_this_one_without_a_second_try() -> None:
    list(run_scoring(DATASET, ["vcs"]))
    with engine().begin() as connection:
        connection.exec_driver_sql(
            "UPDATE score SET value = 1.5 WHERE sample_id = (SELECT min(sample_id) FROM score JOIN sample s "
            "USING (sample_id) WHERE s.shard = 1 AND score.status = 'ok')"
        )
        connection.exec_driver_sql(
            "DELETE FROM score USING sample s WHERE s.sample_id = score.sample_id AND shard < 2 "
            "AND score.value IS DISTINCT FROM 1.5"
        )
    first = run_scoring(DATASET, ["vcs"])
    assert next(first)[0] == SHARDS[0]
    with pytest.raises(CheckFailed, match="in_range"):
        list(run_scoring(DATASET, ["vcs"]))
    before = n_runs()
    with pytest.raises(CheckFailed, match=f"a blocking check of {SHARDS[1]} failed in run .* of another command"):
        list(first)
    assert n_runs() == before
    # A command that begins now tries again.
    with pytest.raises(CheckFailed, match="in_range"):
        list(run_scoring(DATASET, ["vcs"]))
    assert n_runs() == before + 1


def test_a_shard_that_actors_give_up_keeps_no_other_one_from_being_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    resource: Any = (definitions().resources or {})["curation"]

    def take(step: Step, tell: Tell) -> Iterator[tuple[str, Any]]:
        good = tuple(shard for shard in step.shards if shard.key != SHARDS[1])
        yield from take_step(resource, replace(step, shards=good), tell)
        if good != step.shards:
            raise GivenUp(SHARDS[1:2], "actors died")

    monkeypatch.setattr(resource, "others", take)
    worker, before = run_scoring(DATASET, ["vcs"], in_one_run=True), n_runs()
    assert [next(worker)[0], next(worker)[0]] == [SHARDS[0], SHARDS[2]]
    with pytest.raises(GivenUp, match="actors died"):
        next(worker)
    assert n_runs() == before + 3, "of all shards, then of the stretches beside the one that was given up"
    monkeypatch.undo()
    assert [key for key, _ in run_scoring(DATASET, ["vcs"])] == SHARDS[1:2]


def test_who_waits_for_a_shard_says_for_whom(capsys: pytest.CaptureFixture[str]) -> None:
    with Leases(database_url()) as other:
        other.take(f"shard {SHARDS[1]}")
        worker = run_scoring(DATASET, ["vcs"])
        assert [next(worker)[0], next(worker)[0]] == [SHARDS[0], SHARDS[2]]
        holder = other.holder(f"shard {SHARDS[1]}")
    assert [key for key, _ in worker] == [SHARDS[1]]
    assert holder is not None
    assert holder.startswith("process ")


def test_the_command_takes_the_shards_that_are_named() -> None:
    command = ("score", "--dataset", DATASET, "--metric", "vcs")
    done = run_command(*command, "--shard", "2", "--shard", "0", "--json")
    assert done.returncode == 0, done.stderr
    assert [row["shard"] for row in json.loads(done.stdout)["shards"]] == [SHARDS[0], SHARDS[2]]
    assert "every sample of shards 2, 0 of shared is scored" in run_command(
        *command, "--shard", "2", "--shard", "0"
    ).stdout.replace("\n", " ")
    (row,) = forecast_scoring(DATASET, ["vcs"], [0, 2])
    assert row["pending"] == 0
    (row,) = forecast_scoring(DATASET, ["vcs"])
    assert row["pending"] > 0
    missing = run_command(*command, "--shard", "3")
    assert missing.returncode == 1
    assert "dataset shared has no shard 3: its shards are 0 to 2" in missing.stderr
