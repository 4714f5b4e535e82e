"""The Ray actor: it computes steps of runs, one at a time, and keeps models loaded between them."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from assets.definitions.curation import Curation, Step
from assets.definitions.steps import compute_step
from assets.home.files import keep_files_private
from assets.home.settings import format_variable_name
from assets.media.decoders import MEMORY_SHARING, count_cores
from assets.scores.pending import compute_scorer_fingerprint
from db.manifest.datasets import Dataset
from db.schema import dataset
from orchestration.installation import get_installation


def build_work_identity(curation: Curation, computed_dataset: Dataset, metrics: Sequence[str]) -> list[str]:
    """Return texts that are equal in two processes if they see the same dataset and make the same scorers for these
    metrics: first the dataset's name and time of creation, read from the database, then the scorers' fingerprints, in
    the order of the metrics. Loads no model.

    Two processes with equal identities work on the same rows with the same models and parameters.
    """
    with curation.engine.connect() as connection:
        query = sa.select(dataset.c.name, dataset.c.created_at).where(
            dataset.c.dataset_id == computed_dataset.dataset_id
        )
        row = connection.execute(query).one_or_none()
    return [str(row), *(str(compute_scorer_fingerprint(curation.scorers[metric])) for metric in metrics)]


class RayWorker:
    """A Ray actor that computes steps of runs, one at a time, and keeps its models loaded. Its settings come from the
    environment of its machine.
    """

    def __init__(self, n_decoders: int | None = None, n_actors: int = 1, cpus: float = 1.0) -> None:
        """Create the actor. Database and models are opened when a step needs them. n_decoders: videos that it decodes
        at once where no setting says so; None for as many as any process would. n_actors: of its pool, up to as many of
        which share a machine as its cores have room for. cpus: cores per actor.
        """
        MEMORY_SHARING.n_processes = max(1, min(n_actors, int(count_cores() / cpus)))
        self._curation = get_installation().curation
        if n_decoders:
            # After the installation, which has read the settings files.
            os.environ.setdefault(format_variable_name("decoders"), str(n_decoders))

    def report_identity(self, computed_dataset: Dataset, metrics: Sequence[str]) -> tuple[str, list[str]]:
        """Return this actor's place as text (process id and host name), and its work identity for the dataset and
        metrics, as `build_work_identity` gives it.
        """
        return f"process {os.getpid()} on host {socket.gethostname()}", build_work_identity(
            self._curation, computed_dataset, metrics
        )

    def compute_step(self, step: Step) -> list[tuple[str, Any]]:
        """Compute one step, store its results in the database, and return the list of (key, result) that
        `compute_step` of assets/definitions/steps.py yields: the key is a metric for a source, and a partition key for
        scores.
        """
        with keep_files_private():
            return list(compute_step(self._curation, step, lambda _: None))
