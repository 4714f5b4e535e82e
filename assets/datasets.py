"""Datasets and their shards by name. Knows no Dagster, so that a command that only looks starts at once."""

from __future__ import annotations

from sqlalchemy.engine import Engine

from db.manifest import Dataset, find_dataset


class UnknownDataset(ValueError):
    """A dataset that was never ingested."""

    plain = True


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
