"""Three `reelsieve score` processes on one dataset: every sample once, and the same end as one, also after a kill."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.orchestration.divided import SCORE, SHARDS, State, assert_each_once, assert_same_end
from tests.orchestration.survival import Command, Home, hold, run_statuses, slots_taken, until

pytestmark = pytest.mark.slow


def shards_of(*commands: Command) -> list[list[str]]:
    return [[row["shard"] for row in command.json()["shards"]] for command in commands]


def test_three_workers_score_every_sample_once_and_end_where_one_does(divided: Home, alone: State) -> None:
    with hold(divided.url, "verdict_set", "true") as held:
        workers = [divided.run(*SCORE) for _ in range(3)]
        held.wait_for(1, *workers)
        until(lambda: len(run_statuses(divided.url)) == 3, "each worker has shards of its own")
    shards = shards_of(*workers)
    assert sorted(key for of_worker in shards for key in of_worker) == SHARDS
    assert all(shards), "each had a part in it"
    assert_each_once(divided.url)
    assert_same_end(divided.url, alone)
    assert set(run_statuses(divided.url)) == {"SUCCESS"}
    assert slots_taken(divided.url) == 0


def test_the_shard_of_a_killed_worker_goes_to_another(divided: Home, alone: State) -> None:
    with hold(divided.url, "score", "true") as held:
        workers = [divided.run(*SCORE) for _ in range(3)]
        held.wait_for(3, *workers)
        assert run_statuses(divided.url) == ["STARTED"] * 3, "three workers have shards at once"
        workers[0].kill()
        held.release()
    shards = shards_of(*workers[1:])
    assert sorted(key for of_worker in shards for key in of_worker) == SHARDS
    # The batch under way was rolled back with its count; all that was committed before is not computed again.
    assert_each_once(divided.url)
    assert_same_end(divided.url, alone)
    statuses = Counter(run_statuses(divided.url))
    assert (set(statuses), statuses["FAILURE"]) == ({"SUCCESS", "FAILURE"}, 1)
    assert slots_taken(divided.url) == 0
