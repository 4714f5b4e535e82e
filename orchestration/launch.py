"""Running the jobs from the command line: in this process, on the instance that the UI shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import dagster as dg

from assets.datasets import chosen_shards, dataset_of_key, shard_keys
from assets.ingest.assets import report_of
from assets.partitions import DATASETS, SHARDS, announce_partitions, shards_between
from assets.scores.description import WRITTEN
from assets.scores.pending import activate_if_complete, outstanding_shards, pending_by_shard
from assets.scores.registry import asset_name, scoring_assets
from assets.sources.base import MissingEvidence
from assets.steps import GivenUp
from db.manifest.datasets import Dataset
from db.scores.work import shard_state
from orchestration.dead_runs import close_dead_runs
from orchestration.platform import curation, engine, instance
from orchestration.requests import cut, sizes_after_failure
from orchestration.runs import CheckFailed, options_by_source, run_job
from orchestration.sharing import (
    JOB,
    PART,
    SharedShards,
    Since,
    failure_of,
    stretches_around,
    stretches_without,
)


class RunFailed(RuntimeError):
    """A run that ended badly without a user's mistake behind it; the message says where to look."""


def run_ingest(folder: Path, dataset: str, rows: Path | None, n_shards: int | None) -> dict[str, Any]:
    """Ingest a manifest folder through Dagster and return the report."""
    config = {"folder": str(folder), "rows": str(rows) if rows else None, "n_shards": n_shards}
    instance().add_dynamic_partitions(str(DATASETS.name), [dataset])
    result = run_job("ingest_job", dataset, {"ops": {"ingest": {"config": config}}})
    made = [event.step_materialization_data.materialization for event in result.get_asset_materialization_events()]
    try:
        return report_of(dataset, {name: value.value for each in made for name, value in each.metadata.items()})
    except KeyError:
        raise RunFailed("the ingest ended without a report: look at its run with reelsieve ui") from None


def run_scoring(
    dataset: str,
    metrics: Sequence[str],
    options: Mapping[str, bool] | None = None,
    shards: Collection[int] | None = None,
    *,
    in_one_run: bool = False,
) -> Iterator[tuple[str, dict[str, int]]]:
    """Score every shard of a dataset that lacks something; yields its key and the number written per metric.

    Shards that stand together share a run. options: those of sources, by name; each goes to every source that knows it.
    Without any, what an earlier run left open because of an option is completed. shards: the only ones to look at; None
    for all. in_one_run: take all free shards at once, for actors to share. Other processes that score the dataset share
    the work: each shard is yielded by the one that scores it. Raises UnknownShard.
    """
    found = dataset_of_key(engine(), dataset)
    chosen = chosen_shards(found, shards)
    announce_partitions(instance(), found)
    close_dead_runs(instance())
    since, assets = Since.now(), scoring_assets(metrics)
    config = options_by_source(metrics, options or {})
    places = {key: place for place, key in enumerate(instance().get_dynamic_partitions(str(SHARDS.name)))}
    stretches = _stretches(found, chosen, metrics, options or {}, places, in_one_run=in_one_run)
    work = SharedShards(stretches, part=1 if in_one_run else PART)
    failed: dict[str, RuntimeError] = {}

    def left() -> Collection[str]:
        return _wanted(found, metrics, set() if options else _outstanding(found, metrics), {})

    for keys in work:
        if done := since.done(keys, places, assets, config, left):
            work.again(stretches_without(keys, done))
            failed |= {key: error for key, run in done.items() if (error := failure_of(run, key))}
            continue
        result = _run_or_put_off(found, keys, config, assets, metrics, work, failed)
        if result is not None:
            yield from ((key, _written(result, metrics, key)) for key in keys)
    if failed:
        first = next(iter(failed.values()))
        others = f"; it is one of {len(failed)} shards that failed: {', '.join(failed)}"
        raise CheckFailed(f"{first}{others}") if len(failed) > 1 else first


def _run_or_put_off(
    dataset: Dataset,
    keys: Sequence[str],
    config: Mapping[str, Any],
    assets: list[str],
    metrics: Sequence[str],
    work: SharedShards,
    failed: dict[str, RuntimeError],
) -> dg.ExecuteInProcessResult | None:
    """The run of some shards; None where it failed. Shards that it did not reach become work again, others `failed`."""
    try:
        return _run_range(dataset, keys, config, assets)
    except CheckFailed as error:
        # One bad file must not keep the shards behind it from being scored.
        behind = _wanted(dataset, metrics, set(), {}).keys() & set(keys) if len(keys) > 1 else set()
        work.again([[key] for key in sorted(behind)])
        failed |= {} if behind else {keys[0]: error}
    except GivenUp as error:
        work.again(stretches_without(keys, error.shards))
        failed |= dict.fromkeys(error.shards, error)
    return None


def _stretches(
    dataset: Dataset,
    chosen: Collection[str],
    metrics: Sequence[str],
    options: Mapping[str, bool],
    places: Mapping[str, int],
    *,
    in_one_run: bool,
) -> list[list[str]]:
    """The chosen shards that lack something, in stretches that may share a run."""
    incomplete = set() if options else _outstanding(dataset, metrics)
    sizes = sizes_after_failure(instance(), JOB, places)
    wanted = {key: n for key, n in _wanted(dataset, metrics, incomplete, sizes).items() if key in chosen}
    others = set(shard_keys(dataset)) - set(chosen)
    if in_one_run:
        return stretches_around(wanted, sorted(shard_keys(dataset), key=places.__getitem__), others)
    ranges = cut(places, wanted, busy=others, at_most=sizes)
    return [shards_between(shards.tags, places) for shards in ranges]


def _wanted(
    dataset: Dataset, metrics: Sequence[str], incomplete: Collection[int], failed: Collection[str]
) -> dict[str, int]:
    """The samples to score, by shard; with shards that have none, but were never run, left open or failed before."""
    pending: Counter[tuple[str, int]] = Counter()
    for metric in metrics:
        scorer = curation_scorers()[metric]
        counts = pending_by_shard(engine(), scorer, [dataset])
        activate_if_complete(engine(), scorer, [dataset], counts)
        pending.update(counts)
    materialised = [instance().get_materialized_partitions(dg.AssetKey(asset)) for asset in scoring_assets(metrics)]
    return {
        key: pending[dataset.name, shard]
        for shard, key in enumerate(shard_keys(dataset))
        if pending[dataset.name, shard]
        or shard in incomplete
        or key in failed
        or not all(key in keys for keys in materialised)
    }


def run_conclusions(dataset: str) -> dict[str, dict[str, Any]]:
    """Thresholds, training subset and report of a dataset; returns the metadata of each asset."""
    dataset_of_key(engine(), dataset)
    result = run_job("dataset_job", dataset, {})
    return {
        event.asset_key.to_user_string(): {
            name: value.value for name, value in event.step_materialization_data.materialization.metadata.items()
        }
        for event in result.get_asset_materialization_events()
        if event.asset_key
    }


def _run_range(
    dataset: Dataset, keys: Sequence[str], config: Mapping[str, Any], assets: list[str]
) -> dg.ExecuteInProcessResult:
    """Score shards in one run; again where an ingest changed one meanwhile, too late for the sources of the run."""
    while True:
        before = _state(dataset, keys)
        try:
            return run_job(JOB, keys[0], config, assets, keys[-1])
        except (CheckFailed, MissingEvidence):
            if _state(dataset, keys) == before:
                raise


def _state(dataset: Dataset, keys: Sequence[str]) -> list[str | None]:
    with engine().connect() as connection:
        return [shard_state(connection, dataset.dataset_id, int(key.rpartition(":")[2])) for key in keys]


@lru_cache(maxsize=1)
def curation_scorers() -> dict[str, Any]:
    """The scorers of this installation by metric."""
    return curation().scorers


def _outstanding(dataset: Dataset, metrics: Sequence[str]) -> set[int]:
    """The shards where a source left something open that no missing score tells of."""
    return {shard for metric in metrics for shard in outstanding_shards(engine(), curation_scorers()[metric], dataset)}


def _written(result: dg.ExecuteInProcessResult, metrics: Sequence[str], key: str) -> dict[str, int]:
    """The number of scores that a run wrote on a shard, by metric."""
    return {
        metric: cast("int", event.metadata[WRITTEN].value)
        for metric in metrics
        for event in result.asset_materializations_for_node(asset_name(metric))
        if event.partition == key
    }
