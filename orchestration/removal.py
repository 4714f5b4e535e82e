"""Dropping and renaming a dataset, in the database and in Dagster's partitions; and dropping imported scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import dagster as dg
from sqlalchemy.engine import Connection

from assets.datasets import BadDatasetName, check_dataset_name, dataset_of_key, shard_keys
from assets.home import DEMO_DATASET
from assets.leases import dataset_lease
from assets.partitions import DATASETS, SHARDS
from db.manifest.datasets import Dataset
from db.manifest.removal import contents, drop_dataset, drop_scores, n_selections, rename_dataset, require_free
from db.scores.imported import imported_scorers, list_imported_into
from db.scores.scorers import scored_datasets
from db.server.conflicts import retry_conflicts
from db.server.leases import Leases
from db.spelling import did_you_mean
from orchestration.dead_runs import close_dead_runs
from orchestration.platform import Installation, ready_engine
from orchestration.requests import busy_datasets

# Where a materialisation of a renamed dataset says under which partition it was made.
RENAMED_FROM = "renamed_from"
_DEFINITIONS = (str(DATASETS.name), str(SHARDS.name))


class DatasetBusy(RuntimeError):
    """A dataset that something works on cannot be dropped or renamed."""

    plain = True


class NotImported(ValueError):
    """A metric without imported scores in a dataset. Computed scores cannot be dropped: they would come again."""

    plain = True


def what_would_go(installation: Installation, name: str, metric: str | None = None) -> tuple[dict[str, int], int]:
    """How many rows of what a dataset has, and how many frozen selections stay.

    metric: only what was imported under this name. Raises UnknownDataset and NotImported.
    """
    dataset = dataset_of_key(installation.engine, name)
    scorers = None if metric is None else _imported(installation, dataset, metric)
    with installation.engine.connect() as connection:
        return contents(connection, dataset, scorers), n_selections(connection, dataset)


def drop(installation: Installation, name: str) -> None:
    """Delete a dataset and its partitions, and the columns of metrics that were imported only into this dataset.

    Raises UnknownDataset, and DatasetBusy while something works on the dataset.
    """
    with _idle(installation, name):
        dataset = dataset_of_key(installation.engine, name)
        _change(installation, lambda connection: drop_dataset(connection, dataset))
        _make_views(installation)
        _forget_partitions(installation.instance, name)


def drop_imported(installation: Installation, name: str, metric: str) -> None:
    """Delete the imported scores of a metric from a dataset, and its columns where no other dataset has any.

    Raises UnknownDataset, NotImported, and DatasetBusy while something works on the dataset.
    """
    with _idle(installation, name):
        dataset = dataset_of_key(installation.engine, name)
        scorers = _imported(installation, dataset, metric)
        _change(installation, lambda connection: drop_scores(connection, dataset, scorers))
        _make_views(installation)


@retry_conflicts
def _change(installation: Installation, work: Callable[[Connection], None]) -> None:
    """Change the database in one transaction."""
    with installation.engine.begin() as connection:
        work(connection)


def _make_views(installation: Installation) -> None:
    """Take the columns of metrics that are gone from the views."""
    ready_engine(installation.database_url).dispose()


def _imported(installation: Installation, dataset: Dataset, metric: str) -> list[int]:
    """The scorers of an imported metric. Raises NotImported, also where only other datasets have its scores.

    A metric whose scores are gone from all datasets can be dropped from any: an import that was killed leaves one.
    """
    with installation.engine.connect() as connection:
        known = imported_scorers(connection)
        scorers = known.get(metric, [])
        has_scores = not set(scorers).isdisjoint(list_imported_into(connection, dataset.dataset_id))
        others = dict.fromkeys(name for scorer in scorers for name in scored_datasets(connection, scorer))
    if others and not has_scores:
        raise NotImported(f"dataset {dataset.name!r} has no scores of {metric!r}: drop them from {' or '.join(others)}")
    if scorers:
        return scorers
    if not known:
        raise NotImported(f"{metric!r} was not imported, and nothing was: rs.import_scores does so")
    meant = did_you_mean(metric, known)
    raise NotImported(
        f"{metric!r} was not imported, " + (f"did you mean {meant!r}?" if meant else f"only {', '.join(known)}")
    )


def rename(installation: Installation, old: str, new: str) -> None:
    """Give a dataset another name; what was materialised under the old one counts as materialised under the new one.

    Raises UnknownDataset, BadDatasetName, NameTaken, and DatasetBusy while something works on the dataset.
    """
    if old == DEMO_DATASET:
        raise BadDatasetName(f"dataset {old!r} keeps its name: its models score a dataset of this name alone")
    check_dataset_name(new, installation.curation.home / "inbox" / new, installation.curation.home)
    with _idle(installation, old, new):
        dataset = dataset_of_key(installation.engine, old)
        with installation.engine.connect() as connection:
            require_free(connection, new)
        # Leftovers of a dropped dataset of this name are no work on this one.
        _forget_partitions(installation.instance, new)
        renamed = Dataset(dataset.dataset_id, new, dataset.n_shards)
        partitions = dict(zip([old, *shard_keys(dataset)], [new, *shard_keys(renamed)], strict=True))
        installation.instance.add_dynamic_partitions(_DEFINITIONS[0], [new])
        installation.instance.add_dynamic_partitions(_DEFINITIONS[1], shard_keys(renamed))
        for event in _made_anew(installation.instance, partitions):
            installation.instance.report_runless_asset_event(event)
        with installation.engine.begin() as connection:
            rename_dataset(connection, dataset, new)
        _forget_partitions(installation.instance, old)


@contextmanager
def _idle(installation: Installation, *names: str) -> Iterator[None]:
    """Keep everybody from beginning to work on datasets of these names until the block ends.

    Raises DatasetBusy where something works on one of them: a command by its lease, any other run by Dagster's list.
    """
    # What nobody knows is no dataset that is busy.
    dataset_of_key(installation.engine, names[0])
    with Leases(installation.engine.url) as leases:
        for name in names:
            if not leases.take_if_free(dataset_lease(name)):
                holder = leases.holder(dataset_lease(name)) or "another process"
                raise DatasetBusy(f"{holder} works on dataset {name!r}: wait for it, or stop it with Ctrl-C")
        close_dead_runs(installation.instance, installation.database_url)
        if names[0] in busy_datasets(installation.instance):
            raise DatasetBusy(
                f"a run of dataset {names[0]!r} has not ended: wait for it, or stop it in reelsieve ui or with Ctrl-C"
            )
        yield


def _forget_partitions(of: dg.DagsterInstance, name: str) -> None:
    """Take a dataset and its shards out of Dagster's list of partitions."""
    for definition in _DEFINITIONS:
        for key in of.get_dynamic_partitions(definition):
            if (key.rpartition(":")[0] or key) == name:
                of.delete_dynamic_partition(definition, key)


def _made_anew(of: dg.DagsterInstance, partitions: dict[str, str]) -> Iterator[dg.AssetMaterialization]:
    """The newest materialisation of each asset and old partition, for the new one, in the order in which they came.

    partitions: new keys by old keys. The order tells conclusions from the scores that they were drawn from.
    """
    storage = of.event_log_storage
    made = dg.DagsterEventType.ASSET_MATERIALIZATION
    newest = {
        number: asset
        for asset in of.all_asset_keys()
        for key, number in storage.get_latest_storage_id_by_partition(asset, made, set(partitions)).items()
    }
    for number in sorted(newest):
        wanted = dg.AssetRecordsFilter(asset_key=newest[number], storage_ids=[number])
        for record in of.fetch_materializations(wanted, limit=1).records:
            event = record.asset_materialization
            if event is not None and event.partition in partitions:
                yield dg.AssetMaterialization(
                    event.asset_key,
                    description=event.description,
                    metadata={**event.metadata, RENAMED_FROM: event.partition},
                    partition=partitions[event.partition],
                )
