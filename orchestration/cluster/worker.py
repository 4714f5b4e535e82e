"""What runs in an actor: steps of runs, one at a time, with models that stay loaded from one step to the next."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from assets.curation import Curation
from assets.home_files import private_files
from assets.scores.pending import fingerprint_of
from assets.steps import Step, take_step
from db.manifest.datasets import Dataset
from db.schema import dataset
from orchestration.platform import installed


def sight_of(here: Curation, of: Dataset, metrics: Sequence[str]) -> str:
    """What a process sees: the dataset in its database, and the scorers that its settings and its version make.

    Two processes with equal sights work on the same rows with the same models and parameters. Loads no model.
    """
    with here.engine.connect() as connection:
        query = sa.select(dataset.c.name, dataset.c.created_at).where(dataset.c.dataset_id == of.dataset_id)
        row = connection.execute(query).one_or_none()
    return f"{row} {[fingerprint_of(here.scorers[metric]) for metric in metrics]}"


class Worker:
    """An actor. Settings come from the environment of the machine that it runs on."""

    def __init__(self) -> None:
        """Open no connection and load no model yet."""
        self._curation = installed().curation

    def sight(self, of: Dataset, metrics: Sequence[str]) -> tuple[str, str]:
        """Where this actor runs, and its sight."""
        return f"process {os.getpid()} on host {socket.gethostname()}", sight_of(self._curation, of, metrics)

    def take(self, step: Step) -> list[tuple[str, Any]]:
        """Take a step and return its results. Lines of progress only make sure that its leases are still held."""
        with private_files():
            return list(take_step(self._curation, step, lambda _: None))
