"""How the work is cut: scores by shard of a dataset, thresholds, selections and reports by dataset."""

from __future__ import annotations

import dagster as dg
from sqlalchemy.engine import Engine

from db.manifest import Dataset, find_dataset

SHARDS = dg.DynamicPartitionsDefinition(name="shard")
DATASETS = dg.DynamicPartitionsDefinition(name="dataset")


class UnknownDataset(ValueError):
    """A dataset that was never ingested."""


def shard_keys(dataset: Dataset) -> list[str]:
    """The partition keys of a dataset's shards.

    >>> shard_keys(Dataset(dataset_id=1, name="demo", n_shards=2))
    ['demo:0000', 'demo:0001']
    """
    return [f"{dataset.name}:{shard:04d}" for shard in range(dataset.n_shards)]


def shard_of_key(engine: Engine, key: str) -> tuple[Dataset, int]:
    """The dataset and shard that a partition key names."""
    name, _, shard = key.rpartition(":")
    return dataset_of_key(engine, name), int(shard)


def dataset_of_key(engine: Engine, name: str) -> Dataset:
    """The dataset of this name; UnknownDataset, with the remedy, when there is none."""
    with engine.connect() as connection:
        dataset = find_dataset(connection, name)
    if dataset is None:
        raise UnknownDataset(f"there is no dataset {name!r}: ingest it with reelsieve ingest FOLDER --dataset {name}")
    return dataset


def announce_partitions(instance: dg.DagsterInstance, dataset: Dataset) -> None:
    """Tell Dagster of a dataset and its shards; known ones stay as they are."""
    instance.add_dynamic_partitions(str(DATASETS.name), [dataset.name])
    instance.add_dynamic_partitions(str(SHARDS.name), shard_keys(dataset))
