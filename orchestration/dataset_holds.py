"""Holds on datasets: while a command or a run works on a dataset, no other process can drop or rename it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg
from sqlalchemy.engine import Engine

from assets.curation import Curation
from assets.datasets import require_dataset
from assets.leases import hold_datasets
from db.manifest.datasets import Dataset
from orchestration.requests import list_run_datasets


@contextmanager
def hold_dataset(engine: Engine, name: str) -> Iterator[Dataset]:
    """Yield the dataset of this name, and keep other processes from dropping or renaming it until the block ends.
    Raises UnknownDataset if there is none.

    Waits while another process drops or renames it.
    """
    with hold_datasets(engine, name):
        yield require_dataset(engine, name)


@contextmanager
def hold_run_datasets(curation: Curation, context: dg.InitResourceContext) -> Iterator[None]:
    """Keep other processes from dropping or renaming the datasets that a Dagster run names by its partitions, until the
    block ends. Holds nothing where the context has no run.

    context: of a Dagster resource. It has no run if the resource is made for a schedule or a sensor.
    """
    run, instance = context.run, context.instance
    names = list_run_datasets(instance, [run]) if run and instance else set()
    if names:
        with hold_datasets(curation.engine, *names):
            yield
    else:
        yield
