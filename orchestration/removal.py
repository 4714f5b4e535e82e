"""Dropping a dataset, in the database and in Dagster's partitions; and dropping imported scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import dagster as dg
from sqlalchemy.engine import Connection

from assets.datasets.leases import format_dataset_lease_name
from assets.datasets.lookup import require_dataset
from assets.definitions.partitions import DATASETS, SHARDS
from db.evidence.vector_files import delete_unused_files
from db.manifest.datasets import Dataset
from db.manifest.removal import count_contents, count_selections, delete_dataset, delete_imported_scores
from db.scores.imported_scores import list_imported_scorers, load_imported_scorers
from db.scores.scorers import list_scored_datasets
from db.server.conflicts import retry_conflicts
from db.server.leases import Leases
from db.spelling import suggest_name
from orchestration.dead_runs import close_dead_runs
from orchestration.installation import Installation, open_migrated_engine
from orchestration.requests import list_busy_datasets


class DatasetBusy(RuntimeError):
    """Raised when a dataset cannot be dropped, since a command or a run works on it."""

    plain = True


class NotImported(ValueError):
    """Raised when the scores to drop are of a metric without imported scores in the dataset. Computed scores cannot be
    dropped: scoring would compute them again.
    """

    plain = True


def count_rows_to_delete(
    installation: Installation, name: str, metric: str | None = None
) -> tuple[dict[str, int], int]:
    """Return (number of rows that a drop would delete, by table; number of frozen selections of the dataset, which
    would stay). metric: the name under which scores were imported; then only these scores count. Deletes nothing.
    Raises UnknownDataset and NotImported.
    """
    dataset = require_dataset(installation.engine, name)
    scorers = None if metric is None else _require_imported_scorers(installation, dataset, metric)
    with installation.engine.connect() as connection:
        return count_contents(connection, dataset, scorers), count_selections(connection, dataset)


def delete_dataset_everywhere(installation: Installation, name: str) -> None:
    """Delete a dataset from the database and from Dagster's partitions, and the view columns of metrics that were
    imported only into it, and files of vectors that only it used. Frozen selections and all other files stay. Raises
    UnknownDataset, and DatasetBusy while a command or a run works on the dataset.
    """
    with _hold_idle_dataset(installation, name):
        dataset = require_dataset(installation.engine, name)
        _run_transaction(installation, lambda connection: delete_dataset(connection, dataset))
        delete_unused_files(installation.engine)
        _update_views(installation)
        _forget_partitions(installation.instance, name)


def delete_imported_metric(installation: Installation, name: str, metric: str) -> None:
    """Delete the imported scores of a metric from a dataset, and the metric's view columns if no other dataset has
    scores of it. Raises UnknownDataset, NotImported, and DatasetBusy while a command or a run works on the dataset.
    """
    with _hold_idle_dataset(installation, name):
        dataset = require_dataset(installation.engine, name)
        scorers = _require_imported_scorers(installation, dataset, metric)
        _run_transaction(installation, lambda connection: delete_imported_scores(connection, dataset, scorers))
        _update_views(installation)


@retry_conflicts
def _run_transaction(installation: Installation, work: Callable[[Connection], None]) -> None:
    """Change the database in one transaction."""
    with installation.engine.begin() as connection:
        work(connection)


def _update_views(installation: Installation) -> None:
    """Make the views again, without the columns of metrics that are gone."""
    open_migrated_engine(installation.database_url).dispose()


def _require_imported_scorers(installation: Installation, dataset: Dataset, metric: str) -> list[int]:
    """Return the scorer ids of an imported metric. Raises NotImported, also if only other datasets have its scores.

    A metric without scores in any dataset can be dropped from any: an import that was killed leaves one.
    """
    with installation.engine.connect() as connection:
        known = load_imported_scorers(connection)
        scorers = known.get(metric, [])
        has_scores = not set(scorers).isdisjoint(list_imported_scorers(connection, dataset.dataset_id))
        others = dict.fromkeys(name for scorer in scorers for name in list_scored_datasets(connection, scorer))
    if others and not has_scores:
        raise NotImported(f"dataset {dataset.name!r} has no scores of {metric!r}: drop them from {' or '.join(others)}")
    if scorers:
        return scorers
    if not known:
        raise NotImported(f"{metric!r} was not imported, nor was any other metric: rs.import_scores imports scores")
    raise NotImported(f"{metric!r} was not imported{suggest_name(metric, known)}")


@contextmanager
def _hold_idle_dataset(installation: Installation, name: str) -> Iterator[None]:
    """Keep other processes from starting work on the dataset until the block ends.

    Raises DatasetBusy if something works on it: commands hold leases, other runs are in Dagster's list.
    """
    # Raises UnknownDataset before anything is called busy.
    require_dataset(installation.engine, name)
    with Leases(installation.engine.url) as leases:
        if not leases.take_if_free(format_dataset_lease_name(name)):
            holder = leases.find_holder(format_dataset_lease_name(name)) or "another process"
            raise DatasetBusy(f"{holder} works on dataset {name!r}: wait for it, or stop it with Ctrl-C")
        close_dead_runs(installation.instance, installation.database_url)
        if name in list_busy_datasets(installation.instance):
            raise DatasetBusy(
                f"a run of dataset {name!r} has not ended: wait for it, or stop it in reelsieve ui or with Ctrl-C"
            )
        yield


def _forget_partitions(instance: dg.DagsterInstance, name: str) -> None:
    """Remove a dataset and its shards from Dagster's list of partitions."""
    for definition in (str(DATASETS.name), str(SHARDS.name)):
        for key in instance.get_dynamic_partitions(definition):
            if (key.rpartition(":")[0] or key) == name:
                instance.delete_dynamic_partition(definition, key)
