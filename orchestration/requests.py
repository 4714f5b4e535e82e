"""Which shards a tick asks for, cut into runs that Dagster can start: one run for many shards that stand together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

import dagster as dg

from assets.partitions import DATASETS, SHARDS, range_tags, shards_between

# Dagster's own tag, which has no public constant.
MAX_RETRIES = "dagster/max_retries"

# A process needs about ten seconds to start and to load its models; so small shards share a run. Above this number of
# samples a start no longer counts, and a smaller run loses less when it dies.
SAMPLES_PER_RUN = 10_000
SHARDS_PER_RUN = 256
# A shard without work costs less than the start of another run, so a range goes on over gaps of this length.
GAP = 8
RUNS_PER_TICK = 8
# A run that failed is cut into about so many pieces, so that a bad shard soon stands alone.
PIECES = 8
LOOK_BACK = timedelta(days=30)

UNENDED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


@dataclass(frozen=True, slots=True)
class ShardRange:
    """Shards of one dataset that stand next to each other in Dagster's list of partitions: the first and the last."""

    first: str
    last: str

    @property
    def tags(self) -> dict[str, str]:
        """The tags of a run over these shards."""
        return range_tags(self.first, self.last)


def cut(
    known: Iterable[str], wanted: Mapping[str, int], busy: Collection[str], at_most: Mapping[str, int]
) -> list[ShardRange]:
    """Cut the wanted shards into ranges, one run each.

    known: all partitions in Dagster's order. wanted: pending samples by shard. busy: shards of unfinished runs, which
    no range contains. at_most: how many shards may share a run, for shards whose last run failed; these come last.

    >>> cut(["a:0", "a:1", "a:2", "b:0"], {"a:0": 5, "a:2": 5, "b:0": 1}, busy=[], at_most={})
    [ShardRange(first='a:0', last='a:2'), ShardRange(first='b:0', last='b:0')]
    >>> cut(["a:0", "a:1", "a:2"], {"a:0": 5, "a:2": 5}, busy=["a:1"], at_most={})
    [ShardRange(first='a:0', last='a:0'), ShardRange(first='a:2', last='a:2')]
    """
    free = {key: n for key, n in wanted.items() if key not in busy}
    limits = {key: at_most.get(key, SHARDS_PER_RUN) for key in free}
    places = list(known)
    ranges: list[ShardRange] = []
    for limit in sorted(set(limits.values()), reverse=True):
        alike = {key: n for key, n in free.items() if limits[key] == limit}
        ranges += _packed(places, alike, {*busy, *free}, limit)
    return ranges


def _packed(known: Sequence[str], wanted: Mapping[str, int], barriers: Collection[str], limit: int) -> list[ShardRange]:
    """Pack wanted shards into as few ranges as the limits allow; no range goes over a barrier that is not wanted."""
    ranges: list[list[str]] = []
    samples, gap, is_open = 0, 0, False
    for key in known:
        if key not in wanted:
            gap += 1
            is_open = is_open and gap <= GAP and key not in barriers
            continue
        samples += wanted[key]
        has_room = is_open and len(ranges[-1]) < limit and samples <= SAMPLES_PER_RUN
        if has_room and _dataset(key) == _dataset(ranges[-1][0]):
            ranges[-1].append(key)
        else:
            ranges.append([key])
            samples = wanted[key]
        gap, is_open = 0, True
    return [ShardRange(shards[0], shards[-1]) for shards in ranges]


def busy_shards(instance: dg.DagsterInstance, known: Mapping[str, int]) -> set[str]:
    """Return the shards of all runs that have not ended."""
    return {
        key for run in instance.get_runs(dg.RunsFilter(statuses=UNENDED)) for key in shards_between(run.tags, known)
    }


def busy_datasets(instance: dg.DagsterInstance) -> set[str]:
    """Return the datasets with a run that has not ended, over the whole dataset or over some of its shards."""
    names = [*instance.get_dynamic_partitions(str(SHARDS.name)), *instance.get_dynamic_partitions(str(DATASETS.name))]
    # A dataset's name has no colon.
    return {key.rpartition(":")[0] or key for key in busy_shards(instance, {key: n for n, key in enumerate(names)})}


def sizes_after_failure(instance: dg.DagsterInstance, job: str, known: Mapping[str, int]) -> dict[str, int]:
    """Return how many shards may share the next run, for shards whose newest run of the last month did not end well.

    The eighth part of the run that failed, so that after three failures of 256 shards the bad one is alone.
    """
    ended = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
    since = datetime.now(timezone.utc) - LOOK_BACK
    newest: dict[str, int] = {}
    for run in instance.get_runs(dg.RunsFilter(job_name=job, statuses=ended, updated_after=since)):
        shards = shards_between(run.tags, known)
        size = SHARDS_PER_RUN if run.status == dg.DagsterRunStatus.SUCCESS else max(1, len(shards) // PIECES)
        for key in shards:
            newest.setdefault(key, size)
    return {key: size for key, size in newest.items() if size < SHARDS_PER_RUN}


def _dataset(key: str) -> str:
    return key.rpartition(":")[0]
