"""Commands that score one dataset at once share its shards, and a shard that fails keeps no other one back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import dagster as dg
import pytest
import sqlalchemy as sa

from assets.datasets.leases import format_lease_name
from assets.definitions.curation import Step
from assets.definitions.partitions import PARTITION
from assets.definitions.results import CheckFailed
from assets.definitions.steps import StepAbandoned, compute_step
from assets.metrics.registry import list_scoring_assets
from assets.progress import LineWriter
from db.server.leases import Leases
from orchestration.forecasts import forecast_scoring
from orchestration.installation import get_installation
from orchestration.launch import run_ingest, run_scoring
from orchestration.runs import FAILED_SHARDS_TAG
from tests.command_line import run_command
from tests.orchestration.conftest import Installation
from tests.orchestration.survival import until

pytestmark = pytest.mark.slow

DATASET = "shared"
SHARDS = [f"{DATASET}:{number:04d}" for number in range(3)]
N_SAMPLES = 36


@pytest.fixture(scope="module", autouse=True)
def ingested(installation: Installation) -> None:
    run_ingest(get_installation(), installation.manifest, DATASET, None, len(SHARDS))


@pytest.fixture(autouse=True)
def unscored() -> Iterator[None]:
    """Every test finds samples without scores, and scorers that never ran."""
    yield
    with get_installation().engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM scorer")


def runs() -> list[dg.DagsterRun]:
    """The scoring runs, newest first."""
    return list(get_installation().instance.get_runs(dg.RunsFilter(job_name="scoring_job")))


def taken_by_others(monkeypatch: pytest.MonkeyPatch, asset: str, shard: str) -> None:
    """Let the actors die that take a shard of an asset; the others of the step are done."""

    def take(step: Step, tell: LineWriter) -> Iterator[tuple[str, Any]]:
        good = tuple(each for each in step.shards if step.asset != asset or each.key != shard)
        yield from compute_step(get_installation().curation, replace(step, shards=good), tell)
        if good != step.shards:
            raise StepAbandoned([shard], f"actors died at {shard}")

    monkeypatch.setattr(get_installation().curation, "step_runner", take)


def test_a_shard_that_another_process_has_comes_last_and_nothing_is_done_twice(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = len(runs())
    with Leases(get_installation().database_url) as other, ThreadPoolExecutor(1) as pool:
        other.take(format_lease_name("vcs_score", SHARDS[1]))
        holder = other.find_holder(format_lease_name("vcs_score", SHARDS[1]))
        scoring = pool.submit(lambda: list(run_scoring(get_installation(), DATASET, ["vcs"])))
        until(lambda: f"waits for shard {SHARDS[1]}, on which process" in said(capsys) or scoring.done(), "it waits")
        with get_installation().engine.connect() as connection:
            query = (
                "SELECT DISTINCT shard FROM score JOIN sample USING (sample_id) JOIN scorer r USING (scorer_id) "
                "WHERE r.metric = 'vcs' ORDER BY 1"
            )
            assert list(connection.exec_driver_sql(query).scalars()) == [0, 2], "the others are scored meanwhile"
        other.give_back(format_lease_name("vcs_score", SHARDS[1]))
        done = scoring.result()
    assert holder is not None
    assert [key for key, _ in done] == SHARDS
    assert sum(written["vcs"] for _, written in done) == N_SAMPLES
    assert len(runs()) == before + 1
    assert list(run_scoring(get_installation(), DATASET, ["vcs"])) == []
    assert len(runs()) == before + 1, "where nothing is left there is no run"


@contextmanager
def statements() -> Iterator[list[str]]:
    """What all databases are asked meanwhile."""
    asked: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        asked.append(statement)

    sa.event.listen(sa.Engine, "before_cursor_execute", note)
    try:
        yield asked
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", note)


def test_what_is_told_to_dagster_grows_with_assets_and_not_with_shards() -> None:
    with statements() as asked:
        list(run_scoring(get_installation(), DATASET, ["vcs"]))
    made = get_installation().instance.fetch_materializations(dg.AssetKey("vcs_score"), limit=3).records
    assert {each.partition_key for each in made} == {*SHARDS}
    # One by one, an asset of three shards would take two more.
    n_assets = len(list_scoring_assets(["vcs"]))
    assert sum("INSERT INTO asset_keys" in statement for statement in asked) <= 4 * n_assets
    # Asked for every event, whether its tables are there takes 79 with two assets.
    assert sum("pg_table_is_visible" in statement for statement in asked) <= 10 * n_assets


_SAID: list[str] = []


def said(capsys: pytest.CaptureFixture[str]) -> str:
    """All that was said so far, in one line."""
    _SAID.append(capsys.readouterr().err)
    return " ".join("".join(_SAID).split())


def test_what_another_command_did_meanwhile_is_not_listed() -> None:
    first = run_scoring(get_installation(), DATASET, ["vcs"], shards=[0, 2])
    begun = [next(first)]
    other = list(run_scoring(get_installation(), DATASET, ["vcs", "vcs_short"]))
    assert [key for key, _ in begun] == SHARDS[:1]
    assert [key for key, _ in other] == SHARDS
    assert [written["vcs"] for _, written in other] == [0, other[1][1]["vcs"], other[2][1]["vcs"]]
    assert list(first) == [], "the other one has done the rest"
    assert begun[0][1]["vcs"] + sum(written["vcs"] for _, written in other) == N_SAMPLES


def test_a_shard_whose_check_fails_fails_in_every_command_and_keeps_no_other_one_from_its_score() -> None:
    list(run_scoring(get_installation(), DATASET, ["vcs"]))
    with get_installation().engine.begin() as connection:
        connection.exec_driver_sql(
            "UPDATE score SET value = 1.5 WHERE (scorer_id, sample_id) = (SELECT scorer_id, min(sample_id) FROM score "
            "JOIN sample s USING (sample_id) JOIN scorer r USING (scorer_id) "
            "WHERE s.shard = 1 AND score.status = 'ok' AND r.metric = 'vcs' GROUP BY 1)"
        )
        connection.exec_driver_sql("DELETE FROM score WHERE value IS DISTINCT FROM 1.5")
    before, scoring = len(runs()), run_scoring(get_installation(), DATASET, ["vcs", "vcs_short"])
    assert [next(scoring)[0], next(scoring)[0]] == [SHARDS[0], SHARDS[2]]
    with pytest.raises(CheckFailed, match=f"a blocking check failed.*in_range of vcs_score in {SHARDS[1]}"):
        next(scoring)
    assert len(runs()) == before + 1, "one run for all of it"
    assert (runs()[0].status, runs()[0].tags[FAILED_SHARDS_TAG]) == (dg.DagsterRunStatus.FAILURE, SHARDS[1])
    assert [row["pending"] for row in forecast_scoring(get_installation(), DATASET, ["vcs", "vcs_short"])] == [0, 0]
    # The next command looks at this shard again, and at no other.
    with pytest.raises(CheckFailed, match=f"in_range of vcs_score in {SHARDS[1]}; look"):
        list(run_scoring(get_installation(), DATASET, ["vcs"]))
    assert runs()[0].tags[PARTITION] == SHARDS[1]


@pytest.mark.parametrize("asset", ["text_embedding", "vcs_score"])
def test_a_shard_that_actors_give_up_keeps_no_other_one_from_being_scored(
    monkeypatch: pytest.MonkeyPatch, asset: str
) -> None:
    taken_by_others(monkeypatch, asset, SHARDS[1])
    with get_installation().engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM text_embedding")
    scoring, before = run_scoring(get_installation(), DATASET, ["vcs"]), len(runs())
    assert [next(scoring)[0], next(scoring)[0]] == [SHARDS[0], SHARDS[2]]
    with pytest.raises(StepAbandoned, match=f"^actors died at {SHARDS[1]}$"):
        next(scoring)
    assert len(runs()) == before + 1
    assert runs()[0].status == dg.DagsterRunStatus.FAILURE
    monkeypatch.undo()
    assert [key for key, _ in run_scoring(get_installation(), DATASET, ["vcs"])] == SHARDS[1:2]


def test_the_command_takes_the_shards_that_are_named() -> None:
    command = ("score", "--dataset", DATASET, "--metric", "vcs")
    done = run_command(*command, "--shard", "2", "--shard", "0", "--json")
    assert done.returncode == 0, done.stderr
    assert [row["shard"] for row in json.loads(done.stdout)["shards"]] == [SHARDS[0], SHARDS[2]]
    assert "every sample of shards 2, 0 of shared has a value" in run_command(
        *command, "--shard", "2", "--shard", "0"
    ).stdout.replace("\n", " ")
    (row,) = forecast_scoring(get_installation(), DATASET, ["vcs"], [0, 2])
    assert row["pending"] == 0
    (row,) = forecast_scoring(get_installation(), DATASET, ["vcs"])
    assert row["pending"] > 0
    missing = run_command(*command, "--shard", "3")
    assert missing.returncode == 1
    assert "dataset shared has no shard 3: its shards are 0 to 2" in missing.stderr
