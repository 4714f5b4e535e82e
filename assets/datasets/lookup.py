"""Datasets and their shards, looked up by name. Imports no Dagster, so that commands which only read start quickly."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sqlalchemy.engine import Engine
from sqlalchemy.exc import DBAPIError

from assets.datasets.changes import add_dataset_check
from assets.home.folder import DEMO_DATASET
from db.manifest.datasets import Dataset, find_dataset, list_datasets
from db.spelling import suggest_name

# The name of a dataset becomes part of partition keys and of file names.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
# Shards whose samples go to a source together, and that share a run of a backfill: small ones fill its batches, and the
# texts of large ones fit in memory.
SHARDS_PER_GROUP = 32


@dataclass(frozen=True, slots=True)
class RunShard:
    """One shard that a run works on: its partition key such as `demo:0003`, its dataset and its number from 0."""

    key: str
    dataset: Dataset
    number: int


class BadDatasetName(ValueError):
    """Raised for a dataset name that is not allowed, or that is reserved for the demo."""

    plain = True


class UnknownDataset(ValueError):
    """Raised when no dataset has the given name; the message suggests the nearest name or how to ingest one."""

    plain = True


class UnknownShard(ValueError):
    """Raised when a dataset has no shard of the given number; the message names the numbers that exist."""

    plain = True


def check_dataset_name(name: str, folder: Path, home: Path) -> None:
    """Raise BadDatasetName for a name that is not allowed. A name has 1 to 100 letters, digits, `_`, `.` and `-`, and
    begins with a letter or digit. `demo` is reserved for the folder `demo` of the home folder, which `reelsieve demo`
    makes. folder: that of the manifest.

    >>> check_dataset_name("mine", Path("clips"), Path("home"))
    >>> check_dataset_name("demo", Path("home/demo"), Path("home"))
    >>> check_dataset_name("demo", Path("clips"), Path("home"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    assets.datasets.lookup.BadDatasetName: dataset name 'demo' is reserved for the videos of `reelsieve demo`: use ...
    """
    if not _NAME.fullmatch(name):
        raise BadDatasetName(
            f"dataset name {name!r}: use letters, digits, _, . and - only, at most 100, a letter or digit first"
        )
    if name == DEMO_DATASET and folder.resolve() != (home / DEMO_DATASET).resolve():
        raise BadDatasetName(f"dataset name {name!r} is reserved for the videos of `reelsieve demo`: use another name")


def list_shard_keys(dataset: Dataset) -> list[str]:
    """List the partition keys of all shards of a dataset, such as `demo:0000`, in the order of their numbers.

    >>> list_shard_keys(Dataset(dataset_id=1, name="demo", n_shards=2))
    ['demo:0000', 'demo:0001']
    """
    return [f"{dataset.name}:{shard:04d}" for shard in range(dataset.n_shards)]


def choose_shards(dataset: Dataset, numbers: Collection[int] | None) -> dict[str, int]:
    """Return the chosen shards of a dataset as a mapping from partition key to shard number, in order. numbers: the
    wanted ones; None chooses all shards. Raises UnknownShard for a number that the dataset does not have.

    >>> choose_shards(Dataset(dataset_id=1, name="demo", n_shards=3), [2])
    {'demo:0002': 2}
    """
    if missing := sorted({*(numbers or ())} - {*range(dataset.n_shards)}):
        known = f"its shards are 0 to {dataset.n_shards - 1}" if dataset.n_shards > 1 else "its only shard is 0"
        raise UnknownShard(f"dataset {dataset.name} has no shard {missing[0]}: {known}")
    return {key: shard for shard, key in enumerate(list_shard_keys(dataset)) if numbers is None or shard in numbers}


def require_dataset(engine: Engine, name: str) -> Dataset:
    """Load the dataset of this name from the database. Where there is none, raise UnknownDataset, whose message
    suggests a similar name or the command that ingests one. The dataset is also registered with `watch_dataset`.
    """
    if (dataset := find_and_watch_dataset(engine, name)) is not None:
        return dataset
    with engine.connect() as connection:
        names = [other.name for other in list_datasets(connection)]
    hint = suggest_name(name, names, f": ingest it with reelsieve ingest FOLDER --dataset {name}")
    raise UnknownDataset(f"there is no dataset {name!r}{hint}")


def find_and_watch_dataset(engine: Engine, name: str) -> Dataset | None:
    """Load the dataset of this name from the database, or return None where there is none. The dataset is also
    registered with `watch_dataset`.
    """
    with engine.connect() as connection:
        dataset = find_dataset(connection, name) if _NAME.fullmatch(name) else None
    if dataset is not None:
        watch_dataset(engine, dataset)
    return dataset


def watch_dataset(engine: Engine, dataset: Dataset) -> None:
    """Register a dataset for `report_dataset_changes`: if its block fails later and the dataset was dropped since,
    DatasetChanged is raised.
    """
    add_dataset_check(partial(_explain_change, engine, dataset))


def _explain_change(engine: Engine, dataset: Dataset) -> str | None:
    """Explain that a dataset was dropped since it was looked up; None where it was not, or no database answers."""
    name = dataset.name
    try:
        with engine.connect() as connection:
            is_stored = find_dataset(connection, name) == dataset
    except DBAPIError:
        return None  # the database went away, which is another error
    if is_stored:
        return None
    return f"dataset {name!r} was dropped meanwhile: to store it again, run reelsieve ingest FOLDER --dataset {name}"
