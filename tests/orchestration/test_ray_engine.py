"""The engine on real Ray: the same end as one process, also where an actor, its machine or the driver is killed."""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import gettempdir
from typing import Any
from unittest.mock import patch

import psutil
import pytest

from assets.datasets.lookup import RunShard, require_dataset
from assets.definitions.curation import Step
from orchestration.cluster.pool_size import PoolSize
from orchestration.cluster.session import connect_to_ray
from orchestration.installation import get_installation
from orchestration.launch import run_ingest
from orchestration.stopping import STOPPED_MESSAGE
from tests.orchestration.conftest import Installation
from tests.orchestration.divided import SCORE, SHARDS, State, assert_each_once, assert_same_end, stored
from tests.orchestration.survival import Command, Home, hold, rows, run_statuses, until

# Not by importing it: Ray reads its variables when it is imported.
if find_spec("ray") is None:
    pytest.skip("Ray is not installed", allow_module_level=True)
pytestmark = pytest.mark.slow

ON_RAY = (*SCORE, "--engine", "ray")
NODE = {"node_ip_address": "127.0.0.1", "num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}


@pytest.fixture
def ray_folder() -> Iterator[str]:
    """The folder of Ray's files, which no process uses at the end. The paths of its sockets must be short."""
    folder = Path(gettempdir(), "ray")
    # Ray writes the address of a new cluster into this folder of its own, which only its command line makes.
    (folder / "ray").mkdir(parents=True)
    try:
        yield str(folder)
        until(lambda: not processes_of(str(folder)), "no process of Ray is left behind")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def started(home: Home, ray_folder: str, **variables: str) -> Command:
    return home.run(*ON_RAY, **{"RAY_TMPDIR": ray_folder, "REELSIEVE_RAY_ACTORS": "2", **variables})


def actors_at_work(home: Home, command: Command) -> list[int]:
    """The processes that compute at this moment."""
    query = (
        "SELECT DISTINCT application_name FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE granted "
        "AND locktype = 'advisory' AND application_name LIKE 'reelsieve lease of%'"
    )
    found = [int(re.findall(r"process (\d+)", name)[0]) for (name,) in rows(home.url, query)]
    return [pid for pid in found if pid != command.pid]


def processes_of(ray_folder: str) -> list[psutil.Process]:
    return [process for process in psutil.process_iter() if any(ray_folder in word for word in traces_of(process))]


def traces_of(process: psutil.Process) -> list[str]:
    """The words of its command, and the files that it has open: an actor replaces its words."""
    try:
        words = process.cmdline()
        # Asking every process of the machine for its files would take long.
        return [*words, *(file.path for file in process.open_files())] if "ray" in " ".join(words) else []
    except psutil.Error:
        return []


def shards_of(command: Command) -> list[str]:
    return sorted(row["shard"] for row in command.json()["shards"])


def error_of(command: Command) -> str:
    """What a command says that ends with an error."""
    assert command.wait() == 1
    return " ".join(command.stderr.split())


@pytest.mark.expensive
def test_a_killed_actor_and_a_killed_machine_cost_the_batches_under_way(
    divided: Home, alone: State, ray_folder: str
) -> None:
    with (
        cluster(divided, ray_folder) as machines,
        hold(divided.url, "verdict_set", "true") as judging,
        hold(divided.url, "score", "true") as scoring,
    ):
        assert machines.address.startswith("127.0.0.1:")
        second = machines.add_node(**NODE, temp_dir=f"{ray_folder}/2")
        command = started(divided, ray_folder, RAY_ADDRESS=machines.address)
        judging.wait_for(2, command)
        there = {process.pid for process in processes_on(second)}
        here, other = sorted(actors_at_work(divided, command), key=there.__contains__)
        assert [pid in there for pid in (here, other)] == [False, True], "an actor on each machine"
        os.kill(here, signal.SIGKILL)
        judging.release()
        scoring.wait_for(2, command)
        for process in processes_on(second):
            process.kill()
        scoring.release()
        assert shards_of(command) == SHARDS
        assert command.stderr.count("an actor died at") == 2
        assert run_statuses(divided.url) == ["SUCCESS"], "one run for the dataset"
        assert_each_once(divided.url)
        assert_same_end(divided.url, alone)
        other = {"REELSIEVE_TEXT_ENCODER": str(divided.verifier), "RAY_ADDRESS": machines.address}
        error = error_of(started(divided, ray_folder, **other))
        assert "has other scorers of vcs, ecs than this command: install" in error
    assert "where no Ray cluster answers" in error_of(started(divided, ray_folder, **other))


@pytest.mark.expensive
def test_a_shard_that_kills_its_actors_is_given_up_and_a_killed_driver_takes_its_actors_along(
    judged: Home, alone: State, ray_folder: str
) -> None:
    with hold(judged.url, "score", "true") as held:
        command = started(judged, ray_folder, REELSIEVE_RAY_ACTORS="1")
        for _ in range(3):
            until(lambda: actors_at_work(judged, command) or not command.is_running, "an actor computes scores")
            held.wait_for(1, command)
            (actor,) = actors_at_work(judged, command)
            os.kill(actor, signal.SIGKILL)
            until(lambda actor=actor: actor not in actors_at_work(judged, command), "its lease is free")
        until(lambda: actors_at_work(judged, command) or not command.is_running, "an actor has the next shard")
        assert len(died := re.findall(r"an actor died at (d:\d+)", command.stderr)) == 3
        assert len(set(died)) == 1, "the shard was tried three times"
        left = processes_of(ray_folder)
        assert {*actors_at_work(judged, command)} <= {process.pid for process in left}
        command.kill()
        held.release()
    until(lambda: not any(process.is_running() for process in left), "the local cluster is gone")
    assert len(stored(judged.url)["score"]) < len(alone["score"])
    assert died[0] in shards_of(started(judged, ray_folder))
    assert_each_once(judged.url, "score")
    assert_same_end(judged.url, alone)
    # Neither engine finds anything left to do.
    assert [judged.run(*options).json()["shards"] for options in (ON_RAY, SCORE)] == [[], []]


def test_an_actor_that_is_refused_or_fails_keeps_no_cores_from_the_next_step(installation: Installation) -> None:
    """A run goes on with steps that do not rest on the failed one, while it holds the error, and that its actor."""
    told: list[str] = []

    def tell(line: str) -> None:
        """Every half minute an actor that waits says so; it may on a busy machine, and would for ever without cores."""
        told.append(line)
        assert len(told) < 6, line

    run_ingest(get_installation(), installation.manifest, "d", None, 1)
    with own_end(), connect_to_ray(1, get_installation().create_empty_folder()):
        from orchestration.cluster.pool import RayActorPool, WorkIdentityDiffers
        from orchestration.cluster.worker import build_work_identity

        dataset = require_dataset(get_installation().engine, "d")
        step = Step("words_in_common_score", (RunShard("d:0000", dataset, 0),), ("words_in_common",), "run")
        all_cores, concerns = PoolSize(1, os.cpu_count() or 1), (dataset, step.metrics)
        stranger = RayActorPool(all_cores, concerns, ["another dataset", "another scorer"])
        pool = RayActorPool(all_cores, concerns, build_work_identity(get_installation().curation, *concerns))
        with pytest.raises(WorkIdentityDiffers, match="has another database than this command: set") as refused:
            list(stranger.compute_steps([step], tell))
        with pytest.raises(WorkIdentityDiffers):
            list(stranger.compute_steps([step], tell))
        with pytest.raises(KeyError) as failed:
            list(pool.compute_steps([replace(step, metrics=("no_metric",))], tell))
        ((key, done),) = next(pool.compute_steps([step], tell))
        assert refused.value.__traceback__
        assert failed.value.__traceback__
    assert (key, done.n_written) == ("d:0000", 36)


def test_a_signal_ends_the_command_and_its_cluster(divided: Home, ray_folder: str) -> None:
    with hold(divided.url, "verdict_set", "true") as held:
        command = started(divided, ray_folder, REELSIEVE_RAY_ACTORS="1")
        held.wait_for(1, command)
        os.kill(command.pid, signal.SIGTERM)
        assert command.wait() == 128 + signal.SIGTERM, command.stderr
    assert command.stderr.endswith(f"{STOPPED_MESSAGE}\n")
    until(lambda: not [*Path(ray_folder).glob("ray-*")], "the folder of its cluster is gone")


@contextmanager
def cluster(home: Home, ray_folder: str) -> Iterator[Any]:
    """A cluster on loopback whose first node has room for one actor."""
    variables = {**home.variables, "RAY_TMPDIR": ray_folder, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
    with patch.dict(os.environ, variables):
        from ray.cluster_utils import Cluster

        with own_end():
            found = Cluster(initialize_head=True, head_node_args={**NODE, "temp_dir": f"{ray_folder}/1"})
        try:
            yield found
        finally:
            found.shutdown()


@contextmanager
def own_end() -> Iterator[None]:
    """Give this process back the signal that ends it, which Ray takes for its own."""
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler)


def processes_on(node: Any) -> list[psutil.Process]:
    """The processes of a node, its actors first."""
    own = [psutil.Process(info.process.pid) for of_kind in node.all_processes.values() for info in of_kind]
    return [*(child for process in own for child in process.children(recursive=True)), *own]
