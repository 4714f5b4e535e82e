"""Runs whose process was killed, whoever started it, and runs that only look dead."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg
import pytest

from assets.definitions.partitions import build_range_tags
from orchestration.dead_runs import LEASED, close_dead_runs
from orchestration.installation import get_installation
from orchestration.runs import get_definitions
from orchestration.schedules import score_missing
from orchestration.sensors.conclusions import conclusions
from orchestration.sensors.inbox import inbox
from tests.orchestration.conftest import Installation

pytestmark = pytest.mark.slow

DEADLINE_S = 60.0
HOLD = """
import sys
from orchestration.dead_runs import hold_run_lease
from orchestration.installation import get_installation
hold_run_lease(get_installation().instance, get_installation().database_url, sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _here(installation: Installation) -> None:
    """Every test works on the installation."""


@contextmanager
def process_of(run_id: str) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the run's lease as the executor does; killed at the end at the latest."""
    command = [sys.executable, "-c", HOLD, run_id]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def some_run(**tags: str) -> str:
    job = get_definitions().resolve_job_def("scoring_job")
    get_installation().instance.add_dynamic_partitions("shard", ["a:0000"])
    return (
        get_installation()
        .instance.create_run_for_job(job, tags={**tags, **build_range_tags("a:0000", "a:0000")})
        .run_id
    )


def status(run_id: str) -> dg.DagsterRunStatus:
    run = get_installation().instance.get_run_by_id(run_id)
    assert run is not None
    return run.status


def closed_in_time(run_id: str) -> bool:
    """Whether the run is closed before the deadline; Postgres sees the end of a process a moment later."""
    end = time.monotonic() + DEADLINE_S
    while status(run_id) != dg.DagsterRunStatus.FAILURE and time.monotonic() < end:
        close_dead_runs(get_installation().instance, get_installation().database_url)
    return status(run_id) == dg.DagsterRunStatus.FAILURE


def test_a_run_of_the_interface_is_closed_once_its_process_was_killed() -> None:
    run_id = some_run()
    with process_of(run_id):
        close_dead_runs(get_installation().instance, get_installation().database_url)
        assert status(run_id) == dg.DagsterRunStatus.NOT_STARTED, "its process lives"
    assert closed_in_time(run_id)


def test_a_run_that_waits_for_its_start_is_left_alone() -> None:
    """Also one that is to repeat a dead run, whose tags it inherits."""
    waiting = [some_run(), some_run(**{LEASED: "the run before"})]
    close_dead_runs(get_installation().instance, get_installation().database_url)
    assert {status(run_id) for run_id in waiting} == {dg.DagsterRunStatus.NOT_STARTED}


@pytest.mark.parametrize("look", ["schedule", "inbox", "conclusions"])
def test_every_look_closes_dead_runs_first(look: str) -> None:
    """Their work would count as under way for ever."""
    run_id = some_run()
    get_installation().instance.add_run_tags(run_id, {LEASED: run_id})
    known = get_definitions().get_repository_def()
    with dg.partition_loading_context(dynamic_partitions_store=get_installation().instance):
        if look == "schedule":
            resources = {"curation": get_installation().curation}
            with dg.build_schedule_context(
                get_installation().instance, resources=resources, repository_def=known
            ) as at_hour:
                score_missing.evaluate_tick(at_hour)
        else:
            sensor = {"inbox": inbox, "conclusions": conclusions}[look]
            with dg.build_sensor_context(
                get_installation().instance,
                resources={"curation": get_installation().curation},
                definitions=get_definitions(),
            ) as at_tick:
                sensor.evaluate_tick(at_tick)
    assert status(run_id) == dg.DagsterRunStatus.FAILURE
