"""How the shards of a tick are cut into runs, and what earlier runs say about the next ones."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.partitions import range_tags, shards_between
from orchestration.requests import (
    GAP,
    PIECES,
    SAMPLES_PER_RUN,
    SHARDS_PER_RUN,
    ShardRange,
    busy_shards,
    cut,
    sizes_after_failure,
)

KNOWN = [f"{dataset}:{shard:04d}" for dataset in ("a", "b") for shard in range(40)]
PLACES = {key: place for place, key in enumerate(KNOWN)}
keys = st.sampled_from(KNOWN)


def covered(ranges: list[ShardRange]) -> list[str]:
    return [key for shards in ranges for key in shards_between(shards.tags, PLACES)]


@given(
    wanted=st.dictionaries(keys, st.integers(0, SAMPLES_PER_RUN * 2)),
    busy=st.sets(keys, max_size=10),
    at_most=st.dictionaries(keys, st.integers(1, 5), max_size=10),
)
def test_ranges_hold_what_is_wanted_once_and_nothing_that_is_busy(
    wanted: dict[str, int], busy: set[str], at_most: dict[str, int]
) -> None:
    ranges = cut(KNOWN, wanted, busy, at_most)
    shards = covered(ranges)
    assert len(shards) == len(set(shards))
    assert not set(shards) & busy
    assert wanted.keys() - busy <= set(shards)
    for each in ranges:
        inside = [key for key in covered([each]) if key in wanted]
        assert {each.first, each.last} <= set(inside), "a range begins and ends with work"
        assert len({key[0] for key in inside}) == 1, "one dataset"
        assert len(inside) == 1 or sum(wanted[key] for key in inside) <= SAMPLES_PER_RUN
        assert all(len(inside) <= at_most.get(key, SHARDS_PER_RUN) for key in inside)


def test_a_short_gap_is_bridged_and_a_long_one_is_not() -> None:
    near, far = {KNOWN[0]: 1, KNOWN[GAP + 1]: 1}, {KNOWN[0]: 1, KNOWN[GAP + 2]: 1}
    assert cut(KNOWN, near, [], {}) == [ShardRange(KNOWN[0], KNOWN[GAP + 1])]
    assert cut(KNOWN, far, [], {}) == [ShardRange(key, key) for key in far]


def test_shards_of_a_failed_run_come_last() -> None:
    ranges = cut(KNOWN, dict.fromkeys(KNOWN[:4], 1), [], {KNOWN[0]: 1, KNOWN[1]: 1})
    assert ranges == [ShardRange(KNOWN[2], KNOWN[3]), ShardRange(KNOWN[0], KNOWN[0]), ShardRange(KNOWN[1], KNOWN[1])]


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as opened:
        yield opened


@dg.job
def some_job() -> None:
    """A job that is only recorded."""


def record(instance: dg.DagsterInstance, first: str, last: str) -> dg.DagsterRun:
    return instance.create_run_for_job(some_job, tags=range_tags(first, last))


def test_shards_are_busy_until_their_run_has_ended(instance: dg.DagsterInstance) -> None:
    run = record(instance, KNOWN[1], KNOWN[3])
    record(instance, "of another partition set", "of another partition set")
    assert busy_shards(instance, PLACES) == set(KNOWN[1:4])
    instance.report_run_canceled(run)
    assert busy_shards(instance, PLACES) == set()


def test_the_newest_run_decides_how_many_shards_share_the_next(instance: dg.DagsterInstance) -> None:
    assert sizes_after_failure(instance, some_job.name, PLACES) == {}
    instance.report_run_failed(record(instance, KNOWN[0], KNOWN[31]))
    sizes = sizes_after_failure(instance, some_job.name, PLACES)
    assert sizes == dict.fromkeys(KNOWN[:32], 32 // PIECES)
    pieces = cut(KNOWN, dict.fromkeys(KNOWN[:32], 1), [], sizes)
    assert [len(covered([piece])) for piece in pieces] == [4] * 8

    instance.report_run_failed(record(instance, KNOWN[0], KNOWN[3]))
    some_job.execute_in_process(instance=instance, tags=range_tags(KNOWN[4], KNOWN[31]))
    assert sizes_after_failure(instance, some_job.name, PLACES) == dict.fromkeys(KNOWN[:4], 1)
