"""Who works on a dataset shares a lease on its name; whoever drops or renames it has the lease for itself meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from assets.datasets import dataset_of_key
from db.manifest.datasets import Dataset
from db.server.leases import Leases
from orchestration.platform import installed


@contextmanager
def at_work_on(name: str) -> Iterator[Dataset]:
    """Look a dataset up, and keep others from dropping or renaming it until the block ends. Raises UnknownDataset.

    Waits while a drop or a renaming of it is under way.
    """
    with kept(name):
        yield dataset_of_key(installed().engine, name)


@contextmanager
def kept(name: str) -> Iterator[None]:
    """Do the same for a name under which there may be no dataset yet."""
    with Leases(installed().engine.url) as leases:
        leases.take(dataset_lease(name), is_shared=True)
        yield


def dataset_lease(name: str) -> str:
    """The name of the lease on a dataset."""
    return f"dataset {name}"
