"""Dagster's partitions: scores by shard of a dataset; thresholds, selections and reports by dataset."""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg

from assets.datasets.lookup import list_shard_keys
from db.manifest.datasets import Dataset

SHARDS = dg.DynamicPartitionsDefinition(name="shard")
DATASETS = dg.DynamicPartitionsDefinition(name="dataset")


# Dagster's own tags of a run over one partition, and over a range of them; none has a public constant.
PARTITION = "dagster/partition"
# The tag of a run by which people find those of a dataset.
DATASET = "dataset"
RANGE_START, RANGE_END = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"


def list_tagged_partitions(tags: Mapping[str, str], known: Mapping[str, int]) -> list[str]:
    """List the partition keys that a run's tags name, one or a range. The list is empty where the tags name none, or
    one that is not known. known: the position of every partition in Dagster's order, by key.

    >>> list_tagged_partitions({RANGE_START: "d:0001", RANGE_END: "d:0002"}, {"d:0000": 0, "d:0001": 1, "d:0002": 2})
    ['d:0001', 'd:0002']
    """
    first = tags.get(RANGE_START, tags.get(PARTITION, ""))
    last = tags.get(RANGE_END, first)
    if first not in known or last not in known:
        return []
    return [first] if first == last else list(known)[known[first] : known[last] + 1]


def format_tagged_partitions(tags: Mapping[str, str]) -> str:
    """Format the partitions that a run's tags name as text: a key, or "FIRST to LAST" for a range. Tags without a
    partition give "no partition".

    >>> format_tagged_partitions(build_range_tags("d:0000", "d:0007")), format_tagged_partitions({})
    ('d:0000 to d:0007', 'no partition')
    """
    return f"{tags[RANGE_START]} to {tags[RANGE_END]}" if RANGE_START in tags else tags.get(PARTITION, "no partition")


def build_range_tags(first: str, last: str) -> dict[str, str]:
    """Build the tags of a run over a range of a dataset's partitions, from the key `first` to the key `last`, both
    included. A range of one partition gets the tag of a single partition. A further tag, `dataset`, names the dataset.

    >>> build_range_tags("d:0000", "d:0000")
    {'dagster/partition': 'd:0000', 'dataset': 'd'}
    """
    partitions = {PARTITION: first} if first == last else {RANGE_START: first, RANGE_END: last}
    return {**partitions, DATASET: first.rpartition(":")[0] or first}


def register_partitions(instance: dg.DagsterInstance, dataset: Dataset) -> None:
    """Add a dataset and the keys of its shards to Dagster's dynamic partitions `dataset` and `shard`; those that exist
    stay as they are.
    """
    instance.add_dynamic_partitions(str(DATASETS.name), [dataset.name])
    instance.add_dynamic_partitions(str(SHARDS.name), list_shard_keys(dataset))
