"""Work on datasets that nobody drops or renames meanwhile: of a command, and of a run, whoever started it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg
from sqlalchemy.engine import Engine

from assets.curation import Curation
from assets.datasets import dataset_of_key
from assets.leases import keep_datasets
from db.manifest.datasets import Dataset
from orchestration.requests import datasets_of_runs


@contextmanager
def at_work_on(engine: Engine, name: str) -> Iterator[Dataset]:
    """Look a dataset up, and keep others from dropping or renaming it until the block ends. Raises UnknownDataset.

    Waits while a drop or a renaming of it is under way.
    """
    with keep_datasets(engine, name):
        yield dataset_of_key(engine, name)


@contextmanager
def run_at_work(curation: Curation, context: dg.InitResourceContext) -> Iterator[None]:
    """Keep others from dropping or renaming the datasets of a run until the block ends.

    context: of a resource. Where it is made for a schedule or a sensor instead of a run, nothing is kept.
    """
    run, instance = context.run, context.instance
    names = datasets_of_runs(instance, [run]) if run and instance else set()
    if names:
        with keep_datasets(curation.engine, *names):
            yield
    else:
        yield
