"""Which shards a run covers, and which datasets have runs: neighbouring shards share one run."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import groupby

import dagster as dg

from assets.definitions.partitions import DATASETS, SHARDS, list_tagged_partitions

UNFINISHED_STATUSES = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
FAILED_STATUSES = [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
FINISHED_STATUSES = [dg.DagsterRunStatus.SUCCESS, *FAILED_STATUSES]


def group_shards_into_runs(known: Iterable[str], chosen: Collection[str], wanted: Collection[str]) -> list[list[str]]:
    """Return the shard keys of every run that is needed; [] for no wanted shard. A run covers neighbouring chosen
    shards of one dataset, from a first to a last wanted one, and so may contain chosen shards that are not wanted.
    known: all shard keys in Dagster's order. chosen: those that a run may contain.

    >>> known, chosen = ["a:0", "a:1", "a:2", "a:3", "b:0"], ["a:0", "a:1", "a:2", "b:0"]
    >>> group_shards_into_runs(known, chosen, wanted=["a:0", "a:2", "b:0"])
    [['a:0', 'a:1', 'a:2'], ['b:0']]
    """
    runs = []
    for (_, is_chosen), keys in groupby(known, key=lambda key: (key.rpartition(":")[0], key in chosen)):
        together = list(keys)
        places = [place for place, key in enumerate(together) if key in wanted]
        if is_chosen and places:
            runs.append(together[places[0] : places[-1] + 1])
    return runs


def list_busy_datasets(instance: dg.DagsterInstance) -> set[str]:
    """Return the names of the datasets with a queued or unfinished Dagster run, over the whole dataset or over some of
    its shards. Reads Dagster's storage.
    """
    return list_run_datasets(instance, instance.get_runs(dg.RunsFilter(statuses=UNFINISHED_STATUSES)))


def list_run_datasets(instance: dg.DagsterInstance, runs: Iterable[dg.DagsterRun]) -> set[str]:
    """Return the names of the datasets that the tags of these runs name by their partitions: whole datasets, or some of
    their shards. Runs without a partition name none.
    """
    names = [*instance.get_dynamic_partitions(str(SHARDS.name)), *instance.get_dynamic_partitions(str(DATASETS.name))]
    places = {key: place for place, key in enumerate(names)}
    # A dataset's name has no colon.
    return {key.rpartition(":")[0] or key for run in runs for key in list_tagged_partitions(run.tags, places)}
