"""Holds on datasets: while a command or a run works on a dataset, no other process can drop it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg
from sqlalchemy.engine import Engine

from assets.datasets.leases import hold_datasets
from assets.datasets.lookup import require_dataset
from assets.definitions.curation import Curation
from db.manifest.datasets import Dataset
from orchestration.requests import list_run_datasets


@contextmanager
def hold_dataset(engine: Engine, name: str) -> Iterator[Dataset]:
    """Yield the dataset of this name. Until the block ends, no other process can drop it, but others can work on it
    too. Waits while another process drops it. Raises UnknownDataset if there is none.
    """
    with hold_datasets(engine, name):
        yield require_dataset(engine, name)


@contextmanager
def hold_run_datasets(curation: Curation, context: dg.InitResourceContext) -> Iterator[None]:
    """Keep other processes from dropping the datasets that a Dagster run names by its partitions, until the block ends.
    context: of a Dagster resource. Holds nothing if it has no run, as for a schedule or a sensor."""
    run, instance = context.run, context.instance
    names = list_run_datasets(instance, [run]) if run and instance else set()
    if names:
        with hold_datasets(curation.engine, *names):
            yield
    else:
        yield
