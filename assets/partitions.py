"""How the work is cut: scores by shard of a dataset, thresholds, selections and reports by dataset."""

from __future__ import annotations

import dagster as dg

from assets.datasets import shard_keys
from db.manifest import Dataset

SHARDS = dg.DynamicPartitionsDefinition(name="shard")
DATASETS = dg.DynamicPartitionsDefinition(name="dataset")


def announce_partitions(instance: dg.DagsterInstance, dataset: Dataset) -> None:
    """Tell Dagster of a dataset and its shards; known ones stay as they are."""
    instance.add_dynamic_partitions(str(DATASETS.name), [dataset.name])
    instance.add_dynamic_partitions(str(SHARDS.name), shard_keys(dataset))
