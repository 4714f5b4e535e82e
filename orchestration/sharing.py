"""How `reelsieve score` commands share a dataset: each takes shards that no other one has, until none is left."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import dagster as dg

from assets.partitions import shards_between
from db.server.leases import PAUSE_S, Leases
from orchestration.platform import database_url, instance
from orchestration.requests import UNENDED
from orchestration.runs import CHECK_FAILED, CheckFailed
from orchestration.terminal import say

JOB = "scoring_job"
PART = 4
# So few shards cost less together than the start of another run.
AT_LEAST = 8
# Newest runs that are looked at: those since the command began, which are few.
_N_RUNS = 200


class SharedShards:
    """What a command has still to score, in stretches of shards that one run may score together.

    Iterating takes leases on the shards that this command is to score next, and gives them back before it takes others.
    Assets hold leases of their own beside these, which only divide the work. A command that died has let go.
    """

    def __init__(self, stretches: Sequence[Sequence[str]], part: int = PART) -> None:
        """part: this command takes one of so many parts of what is left at most, so that others find something too."""
        self._part = part
        self._left = [list(keys) for keys in stretches]

    def __iter__(self) -> Iterator[list[str]]:
        told: set[str] = set()
        with Leases(database_url()) as leases:
            while self._left:
                keys = self._take(leases)
                if not keys:
                    self._wait(leases, told)
                    continue
                try:
                    yield keys
                finally:
                    for key in keys:
                        leases.give_back(lease_of_shard(key))

    def again(self, stretches: Sequence[Sequence[str]]) -> None:
        """Put stretches of shards before everything that is left."""
        self._left = [*(list(keys) for keys in stretches), *self._left]

    def _take(self, leases: Leases) -> list[str]:
        """Take the first free shards that stand together; none where others have all of them."""
        most = max(AT_LEAST, -(-sum(map(len, self._left)) // self._part))
        for place, keys in enumerate(self._left):
            for first, key in enumerate(keys):
                if leases.take_if_free(lease_of_shard(key)):
                    last = first + 1
                    while last < len(keys) and last - first < most and leases.take_if_free(lease_of_shard(keys[last])):
                        last += 1
                    rest = [part for part in (keys[:first], keys[last:]) if part]
                    self._left[place : place + 1] = rest
                    return keys[first:last]
        return []

    def _wait(self, leases: Leases, told: set[str]) -> None:
        name = lease_of_shard(self._left[0][0])
        if name not in told:
            say("score", f"waits for {name}, on which {leases.holder(name) or 'another process'} works")
            told.add(name)
        time.sleep(PAUSE_S)


@dataclass(frozen=True, slots=True)
class Since:
    """A moment in Dagster's list of runs: the number of the newest run, 0 without one, and the runs under way."""

    newest: int
    under_way: frozenset[str]

    @classmethod
    def now(cls) -> Since:
        """The moment of the call."""
        records = instance().get_run_records(limit=1)
        unended = instance().get_runs(dg.RunsFilter(job_name=JOB, statuses=UNENDED))
        return cls(records[0].storage_id if records else 0, frozenset(run.run_id for run in unended))

    def done(
        self,
        keys: Sequence[str],
        places: Mapping[str, int],
        assets: Collection[str],
        config: Mapping[str, Any],
        left: Callable[[], Collection[str]],
    ) -> dict[str, dg.DagsterRun]:
        """For each shard the run that ended after this moment and did what a run with these assets would do, if any.

        A run of one shard whose checks failed did: what failed in it would fail again. Of several shards such a run is
        followed by others. A run that died did nothing here. left: the shards that still lack something: a run that was
        under way at this moment looked for work before it, and what came in between is still to be scored.
        """
        records = instance().get_run_records(dg.RunsFilter(job_name=JOB), limit=_N_RUNS)
        found: dict[str, dg.DagsterRun] = {}
        for record in records:
            run = record.dagster_run
            if record.storage_id <= self.newest and run.run_id not in self.under_way:
                continue
            shards = shards_between(run.tags, places)
            if _has_done(run, len(shards), assets, config):
                found |= {key: run for key in shards if key in keys and key not in found}
        if any(run.run_id in self.under_way for run in found.values()):
            lacking = left()
            found = {key: run for key, run in found.items() if run.run_id not in self.under_way or key not in lacking}
        return found


def stretches_without(keys: Sequence[str], done: Collection[str]) -> list[list[str]]:
    """The shards that are not done, in stretches that stand together.

    >>> stretches_without(["a", "b", "c", "d"], {"b"})
    [['a'], ['c', 'd']]
    """
    return [list(some) for is_done, some in groupby(keys, key=lambda key: key in done) if not is_done]


def stretches_around(wanted: Collection[str], known: Sequence[str], others: Collection[str]) -> list[list[str]]:
    """As few stretches as possible that contain the wanted shards, and of the known ones in between none of the others.

    >>> stretches_around({"b", "d"}, ["a", "b", "c", "d", "e"], others=[])
    [['b', 'c', 'd']]
    """
    places = [place for place, key in enumerate(known) if key in wanted]
    between = known[places[0] : places[-1] + 1] if places else []
    return [keys for keys in stretches_without(between, others) if not set(keys).isdisjoint(wanted)]


def failure_of(run: dg.DagsterRun, key: str) -> CheckFailed | None:
    """The error where a check failed in another command's run of a shard."""
    if CHECK_FAILED not in run.tags:
        return None
    return CheckFailed(
        f"a blocking check of {key} failed in run {run.run_id[:8]} of another command, the scores are kept; look at it "
        "with reelsieve ui"
    )


def _has_done(run: dg.DagsterRun, n_shards: int, assets: Collection[str], config: Mapping[str, Any]) -> bool:
    has_ended = run.status == dg.DagsterRunStatus.SUCCESS or (CHECK_FAILED in run.tags and n_shards == 1)
    chosen = {key.to_user_string() for key in run.asset_selection or ()}
    return has_ended and chosen.issuperset(assets) and run.run_config.get("ops", {}) == config.get("ops", {})


def lease_of_shard(key: str) -> str:
    """The name of the lease that a command holds on a shard which it is to score."""
    return f"shard {key}"
