"""The stored conclusions of a dataset (thresholds, agreement, report), and whether one of their inputs is newer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg

from assets.datasets.lookup import list_shard_keys
from assets.metrics.registry import SCORERS, build_score_asset_name
from db.manifest.datasets import Dataset
from orchestration.jobs import CONCLUSION_ASSETS, SUBSET_ASSET


def load_newest_materialization_ids(instance: dg.DagsterInstance, assets: list[str]) -> list[dict[str, int]]:
    """Return one dict for every named asset, in order: the id of the newest materialisation by partition key. Reads
    Dagster's event log. A greater id is a later one; partitions that were never materialised are left out.
    """
    storage = instance.event_log_storage
    made = dg.DagsterEventType.ASSET_MATERIALIZATION
    return [dict(storage.get_latest_storage_id_by_partition(dg.AssetKey(asset), made)) for asset in assets]


def compute_newest_id(ids_by_asset: list[dict[str, int]], dataset: Dataset, *, any_asset: bool) -> int:
    """Return one materialisation id for a whole dataset; a greater id is a later one. Every asset counts by the
    highest id of the dataset's partitions, and by 0 if it was never materialised for them. any_asset: return the
    highest of these ids, else the lowest. ids_by_asset: the id by partition key, for every asset.
    """
    partitions = [dataset.name, *list_shard_keys(dataset)]
    newest_ids = [max((ids[key] for key in partitions if key in ids), default=0) for ids in ids_by_asset]
    return max(newest_ids) if any_asset else min(newest_ids)


def load_current_conclusions(instance: dg.DagsterInstance, dataset: Dataset) -> dict[str, dict[str, Any]] | None:
    """Return the metadata of a dataset's conclusions and training subset by asset name, as {key: value}. None if they
    must be made again: one of them is missing, is not newer than every score, or its file is gone. Reads Dagster's
    event log.

    Ratings and labels do not count: an ingest that changes nothing materialises them too, so the caller must know that
    nothing changed.
    """
    scored = compute_newest_id(
        load_newest_materialization_ids(instance, [build_score_asset_name(metric) for metric in SCORERS]),
        dataset,
        any_asset=True,
    )
    results = [*CONCLUSION_ASSETS, SUBSET_ASSET]
    if compute_newest_id(load_newest_materialization_ids(instance, results), dataset, any_asset=False) <= scored:
        return None
    metadata = {asset: _load_metadata(instance, asset, dataset.name) for asset in results}
    paths = [Path(values["path"]) for values in metadata.values() if "path" in values]
    return metadata if all(path.is_file() for path in paths) else None


def _load_metadata(instance: dg.DagsterInstance, asset: str, partition: str) -> dict[str, Any]:
    filter_ = dg.AssetRecordsFilter(dg.AssetKey(asset), asset_partitions=[partition])
    (record,) = instance.fetch_materializations(filter_, limit=1).records
    materialization = record.asset_materialization
    return {} if materialization is None else {name: value.value for name, value in materialization.metadata.items()}
