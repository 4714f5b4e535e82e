"""Three `reelsieve score` processes on one dataset: every sample once, and the same end as one, also after a kill."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.orchestration.divided import SCORE, SHARDS, State, assert_each_once, assert_same_end
from tests.orchestration.survival import Command, Home, count, hold, run_statuses, slots_taken

pytestmark = pytest.mark.slow


def assert_divided(home: Home, *commands: Command) -> None:
    """Every shard was scored once, by all of them together, and each had a part in it."""
    shards = [row["shard"] for command in commands for row in command.json()["shards"]]
    assert sorted(set(shards)) == SHARDS
    assert all(any(row["vcs"] + row["ecs"] for row in command.json()["shards"]) for command in commands)
    assert_each_once(home.url)
    assert slots_taken(home.url) == 0


def test_three_workers_score_every_sample_once_and_end_where_one_does(divided: Home, alone: State) -> None:
    with hold(divided.url, "score", "true") as held:
        workers = [divided.run(*SCORE) for _ in range(3)]
        held.wait_for(3, *workers)
        assert run_statuses(divided.url) == ["STARTED"] * 3, "three workers have shards at once"
    assert_divided(divided, *workers)
    written = [row for worker in workers for row in worker.json()["shards"]]
    assert sum(row["vcs"] + row["ecs"] for row in written) == count(divided.url, "score")
    assert_same_end(divided.url, alone)
    assert run_statuses(divided.url) == ["SUCCESS"] * 3


def test_the_shard_of_a_killed_worker_goes_to_another(divided: Home, alone: State) -> None:
    with hold(divided.url, "score", "true") as held:
        workers = [divided.run(*SCORE) for _ in range(3)]
        held.wait_for(3, *workers)
        workers[0].kill()
        held.release()
    # The batch under way was rolled back with its count; all that was committed before is not computed again.
    assert_divided(divided, *workers[1:])
    assert_same_end(divided.url, alone)
    assert run_statuses(divided.url).count("SUCCESS") == 2
    # Who had to wait for the encoder has closed the dead run; where nobody had to, the next command does.
    divided.run(*SCORE).json()
    assert_each_once(divided.url)
    statuses = Counter(run_statuses(divided.url))
    assert (statuses["FAILURE"], statuses["STARTED"]) == (1, 0)
