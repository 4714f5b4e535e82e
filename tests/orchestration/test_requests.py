"""Which shards share a run, and which datasets have runs that have not ended."""

from __future__ import annotations

import dagster as dg
from hypothesis import given
from hypothesis import strategies as st

from assets.definitions.partitions import build_range_tags, list_tagged_partitions
from orchestration.requests import group_shards_into_runs, list_busy_datasets

KNOWN = [f"{dataset}:{shard:04d}" for dataset in ("a", "b") for shard in range(12)]
PLACES = {key: place for place, key in enumerate(KNOWN)}
keys = st.sets(st.sampled_from(KNOWN))


@given(chosen=keys, wanted=keys)
def test_stretches_hold_what_is_wanted_once_and_nothing_that_is_not_chosen(chosen: set[str], wanted: set[str]) -> None:
    found = group_shards_into_runs(KNOWN, chosen, wanted)
    shards = [key for stretch in found for key in stretch]
    assert shards == sorted(set(shards))
    assert chosen & wanted <= set(shards) <= chosen
    for stretch in found:
        assert {stretch[0], stretch[-1]} <= wanted, "a run begins and ends with work"
        assert len({key[0] for key in stretch}) == 1, "one dataset"
        assert list_tagged_partitions(build_range_tags(stretch[0], stretch[-1]), PLACES) == stretch
    assert len(found) <= len({key[0] for key in KNOWN}) + len(set(KNOWN) - chosen), "as few as possible"


def test_all_shards_of_a_dataset_share_a_run() -> None:
    assert group_shards_into_runs(KNOWN, KNOWN, [KNOWN[1], KNOWN[9], KNOWN[12]]) == [KNOWN[1:10], KNOWN[12:13]]


@dg.job
def some_job() -> None:
    """A job that is only recorded."""


def test_a_dataset_is_busy_until_its_runs_have_ended() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("shard", KNOWN)
        instance.add_dynamic_partitions("dataset", ["a", "b"])
        ranges = (build_range_tags(KNOWN[1], KNOWN[3]), build_range_tags("b", "b"), build_range_tags("gone", "gone"))
        first, second, _ = [instance.create_run_for_job(some_job, tags=tags) for tags in ranges]
        assert list_busy_datasets(instance) == {"a", "b"}
        instance.report_run_canceled(first)
        assert list_busy_datasets(instance) == {"b"}
        instance.report_run_failed(second)
        assert list_busy_datasets(instance) == set()
