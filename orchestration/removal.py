"""Dropping and renaming a dataset, in the database and in Dagster's partitions; and dropping imported scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import dagster as dg
from sqlalchemy.engine import Connection

from assets.datasets import BadDatasetName, check_dataset_name, list_shard_keys, require_dataset
from assets.home import DEMO_DATASET
from assets.leases import format_dataset_lease_name
from assets.partitions import DATASETS, SHARDS
from db.manifest.datasets import Dataset
from db.manifest.removal import (
    check_name_is_free,
    count_contents,
    count_selections,
    drop_dataset,
    drop_imported_scores,
    rename_dataset,
)
from db.scores.imported_scores import list_imported_scorers, load_imported_scorers
from db.scores.scorers import list_scored_datasets
from db.server.conflicts import retry_conflicts
from db.server.leases import Leases
from db.spelling import suggest_name
from orchestration.dead_runs import close_dead_runs
from orchestration.installation import Installation, open_migrated_engine
from orchestration.requests import list_busy_datasets

# The metadata of a renamed dataset's materialisation that holds its former partition.
RENAMED_FROM = "renamed_from"
_DEFINITIONS = (str(DATASETS.name), str(SHARDS.name))


class DatasetBusy(RuntimeError):
    """Raised when a dataset cannot be dropped or renamed, since a command or a run works on it."""

    plain = True


class NotImported(ValueError):
    """Raised when scores should be dropped of a metric that has no imported scores in the dataset. Computed scores
    cannot be dropped: scoring would compute them again.
    """

    plain = True


def count_droppable_rows(
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


def drop_dataset_everywhere(installation: Installation, name: str) -> None:
    """Delete a dataset from the database and from Dagster's partitions, and the view columns of metrics that were
    imported only into it. Frozen selections and all files stay. Raises UnknownDataset, and DatasetBusy while a command
    or a run works on the dataset.
    """
    with _hold_idle_datasets(installation, name):
        dataset = require_dataset(installation.engine, name)
        _run_transaction(installation, lambda connection: drop_dataset(connection, dataset))
        _update_views(installation)
        _forget_partitions(installation.instance, name)


def remove_imported_scores(installation: Installation, name: str, metric: str) -> None:
    """Delete the imported scores of a metric from a dataset, and the metric's view columns if no other dataset has
    scores of it. Raises UnknownDataset, NotImported, and DatasetBusy while a command or a run works on the dataset.
    """
    with _hold_idle_datasets(installation, name):
        dataset = require_dataset(installation.engine, name)
        scorers = _require_imported_scorers(installation, dataset, metric)
        _run_transaction(installation, lambda connection: drop_imported_scores(connection, dataset, scorers))
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


def rename_dataset_everywhere(installation: Installation, old: str, new: str) -> None:
    """Rename a dataset in the database and in Dagster. Its newest materialisations are copied to partitions of the new
    name, so nothing counts as missing. Raises UnknownDataset, BadDatasetName (also for the demo), NameTaken, and
    DatasetBusy while a command or a run works on the dataset.
    """
    if old == DEMO_DATASET:
        raise BadDatasetName(f"dataset {old!r} cannot be renamed: its models score only a dataset of this name")
    check_dataset_name(new, installation.curation.home / "inbox" / new, installation.curation.home)
    with _hold_idle_datasets(installation, old, new):
        dataset = require_dataset(installation.engine, old)
        with installation.engine.connect() as connection:
            check_name_is_free(connection, new)
        # Leftovers of a dropped dataset of this name must not count for this one.
        _forget_partitions(installation.instance, new)
        renamed = Dataset(dataset.dataset_id, new, dataset.n_shards)
        partitions = dict(zip([old, *list_shard_keys(dataset)], [new, *list_shard_keys(renamed)], strict=True))
        installation.instance.add_dynamic_partitions(_DEFINITIONS[0], [new])
        installation.instance.add_dynamic_partitions(_DEFINITIONS[1], list_shard_keys(renamed))
        for event in _copy_materializations(installation.instance, partitions):
            installation.instance.report_runless_asset_event(event)
        with installation.engine.begin() as connection:
            rename_dataset(connection, dataset, new)
        _forget_partitions(installation.instance, old)


@contextmanager
def _hold_idle_datasets(installation: Installation, *names: str) -> Iterator[None]:
    """Keep other processes from starting work on datasets of these names until the block ends.

    Raises DatasetBusy if something works on one of them: commands hold leases, other runs are in Dagster's list.
    """
    # Raises UnknownDataset before anything is called busy.
    require_dataset(installation.engine, names[0])
    with Leases(installation.engine.url) as leases:
        for name in names:
            if not leases.take_if_free(format_dataset_lease_name(name)):
                holder = leases.find_holder(format_dataset_lease_name(name)) or "another process"
                raise DatasetBusy(f"{holder} works on dataset {name!r}: wait for it, or stop it with Ctrl-C")
        close_dead_runs(installation.instance, installation.database_url)
        if names[0] in list_busy_datasets(installation.instance):
            raise DatasetBusy(
                f"a run of dataset {names[0]!r} has not ended: wait for it, or stop it in reelsieve ui or with Ctrl-C"
            )
        yield


def _forget_partitions(instance: dg.DagsterInstance, name: str) -> None:
    """Remove a dataset and its shards from Dagster's list of partitions."""
    for definition in _DEFINITIONS:
        for key in instance.get_dynamic_partitions(definition):
            if (key.rpartition(":")[0] or key) == name:
                instance.delete_dynamic_partition(definition, key)


def _copy_materializations(
    instance: dg.DagsterInstance, partitions: dict[str, str]
) -> Iterator[dg.AssetMaterialization]:
    """Yield a copy of every asset's newest materialisation of each old partition, for the new one, oldest first.

    partitions: new keys by old keys. By the order, conclusions stay newer than the scores that they were drawn from.
    """
    storage = instance.event_log_storage
    made = dg.DagsterEventType.ASSET_MATERIALIZATION
    newest = {
        number: asset
        for asset in instance.all_asset_keys()
        for key, number in storage.get_latest_storage_id_by_partition(asset, made, set(partitions)).items()
    }
    for number in sorted(newest):
        filter_ = dg.AssetRecordsFilter(asset_key=newest[number], storage_ids=[number])
        for record in instance.fetch_materializations(filter_, limit=1).records:
            event = record.asset_materialization
            if event is not None and event.partition in partitions:
                yield dg.AssetMaterialization(
                    event.asset_key,
                    description=event.description,
                    metadata={**event.metadata, RENAMED_FROM: event.partition},
                    partition=partitions[event.partition],
                )
