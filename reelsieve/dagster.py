"""Reelsieve inside somebody else's Dagster: all of its definitions together with theirs, or one dataset as a component.

docs/dagster.md shows both; docs/examples/dagster_project is a project that uses them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import dagster as dg
from pydantic import Field

from assets.datasets.lookup import check_dataset_name
from assets.definitions.curation import Curation
from assets.definitions.one_dataset import build_dataset_assets
from assets.definitions.results import RunResults
from assets.metrics.registry import METRICS
from db.selection.recipes import parse_recipe
from db.spelling import suggest_name
from orchestration.dataset_holds import hold_run_datasets
from orchestration.definitions import CURATION, build_dataset_definitions
from orchestration.installation import get_installation
from orchestration.settings import get_settings
from reelsieve.errors import ReelsieveError, raise_reelsieve_errors


@dg.resource(description="Database, scorers and folders of Reelsieve.")
def guest_curation_resource(context: dg.InitResourceContext) -> Iterator[Curation]:
    """Yield the resource `curation` (database, scorers and folders) for a run in another Dagster. Opens the
    installation of the current settings. Until the run ends, no other process can drop the datasets that its partitions
    name.

    The other Dagster itself watches whether the run lives.
    """
    curation = get_installation().curation
    curation.results = RunResults()
    with hold_run_datasets(curation, context):
        yield curation


@raise_reelsieve_errors
def definitions(*yours: dg.Definitions) -> dg.Definitions:
    """Return your Dagster definitions merged with Reelsieve's: its assets, checks, jobs, schedule, sensors and resource
    `curation`. Raises ReelsieveError where a name is both yours and Reelsieve's.

    Your instance, executor, loggers and resources stay yours: added are a resource `curation`, and the dynamic
    partitions `dataset` and `shard`. Schedule and sensors are off until you turn them on. Home and settings are looked
    for from the folder in which Dagster runs, as commands do.

    >>> import dagster as dg
    >>> from reelsieve.dagster import definitions
    >>> definitions(dg.Definitions(assets=[dg.AssetSpec("video")]))
    Traceback (most recent call last):
    ...
    reelsieve.ReelsieveError: asset video is in your definitions and Reelsieve's: rename yours, or give it a key prefix
    """
    ours = build_dataset_definitions()
    for your_definitions in yours:
        _refuse_equal_names(your_definitions, ours)
    return dg.Definitions.merge(*yours, ours, dg.Definitions(resources={CURATION: guest_curation_resource}))


def _refuse_equal_names(yours: dg.Definitions, ours: dg.Definitions) -> None:
    resource = (yours.resources or {}).get(CURATION)
    # The resource of a component is ours, too.
    if resource not in (None, guest_curation_resource):
        raise ReelsieveError(f"resource {CURATION} is in your definitions and Reelsieve's: rename yours")
    for kind, names in _NAMES.items():
        both = sorted({*names(yours)} & {*names(ours)})
        if both and resource is guest_curation_resource:
            raise ReelsieveError(f"{kind} {both[0]} is in these definitions already: merge Reelsieve's only once")
        if both:
            remedy = "rename yours, or give it a key prefix" if kind == "asset" else "rename yours"
            raise ReelsieveError(f"{kind} {both[0]} is in your definitions and Reelsieve's: {remedy}")


def _list_asset_keys(definitions: dg.Definitions) -> Iterable[str]:
    for asset in definitions.assets or ():
        if isinstance(asset, dg.AssetsDefinition):
            yield from (key.to_user_string() for key in asset.keys)
        elif isinstance(asset, dg.AssetSpec | dg.SourceAsset):
            yield asset.key.to_user_string()


def _list_partition_sets(definitions: dg.Definitions) -> Iterable[str]:
    for asset in definitions.assets or ():
        partitions = asset.partitions_def if isinstance(asset, dg.AssetsDefinition | dg.AssetSpec) else None
        if isinstance(partitions, dg.DynamicPartitionsDefinition) and partitions.name:
            yield partitions.name


# Functions that list the names in definitions, by what is named. The definitions are not resolved: yours may need ours.
_NAMES: Mapping[str, Callable[[dg.Definitions], Iterable[str]]] = {
    "asset": _list_asset_keys,
    "job": lambda of: (job.name for job in of.jobs or ()),
    "schedule": lambda of: (schedule.name for schedule in of.schedules or ()),
    "sensor": lambda of: (sensor.name for sensor in of.sensors or ()),
    "dynamic partition set": _list_partition_sets,
}


class Dataset(dg.Component, dg.Resolvable, dg.Model):
    """A Dagster component for one dataset: assets that ingest it from a manifest folder, score its samples by some
    metrics, and freeze a training subset if there is a recipe. Its assets have no partitions, and keys that begin with
    the name of the dataset.
    """

    dataset: Annotated[str, Field(description="Name of the dataset.")]
    folder: Annotated[str, Field(description="Manifest folder, relative to the file of the component.")]
    metrics: Annotated[list[str], Field(min_length=1, description="Metrics that score every caption.")]
    recipe: Annotated[
        dict[str, Any] | None, Field(description="Recipe of the training subset. Without one no subset is made.")
    ] = None

    @raise_reelsieve_errors
    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return definitions with the assets of the dataset and the resource `curation`. The manifest folder is looked
        for from context.path. Raises ReelsieveError for an unknown metric, a bad name or a bad recipe.
        """
        folder = (context.path / Path(self.folder).expanduser()).resolve()
        check_dataset_name(self.dataset, folder, get_settings().home_folder)
        for metric in self.metrics:
            if metric not in METRICS:
                raise ReelsieveError(f"there is no metric {metric!r}{suggest_name(metric, METRICS)}")
        rule = None if self.recipe is None else parse_recipe(self.recipe)
        return dg.Definitions(
            assets=build_dataset_assets(self.dataset, folder, tuple(dict.fromkeys(self.metrics)), rule),
            resources={CURATION: guest_curation_resource},
        )
