"""Running the jobs from the command line: in this process, on the instance that the UI shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import dagster as dg

from assets.datasets import chosen_shards, dataset_of_key, shard_keys
from assets.ingest.assets import report_of
from assets.partitions import DATASETS, SHARDS, announce_partitions, shards_between
from assets.results import Results
from assets.scores.pending import activate_if_complete, outstanding_shards, pending_by_shard
from assets.scores.registry import scoring_assets
from db.manifest.datasets import Dataset
from db.scores.work import shard_state
from orchestration.dead_runs import close_dead_runs
from orchestration.platform import installed
from orchestration.requests import stretches
from orchestration.runs import FAILED, RunFailed, execute, options_by_source, run_job

JOB = "scoring_job"
ENDED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
LOOK_BACK = timedelta(days=30)


def run_ingest(folder: Path, dataset: str, rows: Path | None, n_shards: int | None) -> dict[str, Any]:
    """Ingest a manifest folder through Dagster and return the report."""
    config = {"folder": str(folder), "rows": str(rows) if rows else None, "n_shards": n_shards}
    installed().instance.add_dynamic_partitions(str(DATASETS.name), [dataset])
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
) -> Iterator[tuple[str, dict[str, int]]]:
    """Score every shard of a dataset that lacks something; yields its key and the number written per metric.

    It takes one run, or where the chosen shards do not stand together one for each stretch of them. options: those of
    sources, by name; each goes to every source that knows it. Without any, what an earlier run left open because of an
    option is completed. shards: the only ones to look at; None for all. Other processes that score the dataset share
    the work: each shard is yielded by those that scored in it. Raises UnknownShard, and at the end one error for all
    shards that failed.
    """
    found = dataset_of_key(installed().engine, dataset)
    chosen = chosen_shards(found, shards)
    announce_partitions(installed().instance, found)
    close_dead_runs(installed().instance)
    config = options_by_source(metrics, options or {})
    known = installed().instance.get_dynamic_partitions(str(SHARDS.name))
    incomplete = set() if options else _outstanding(found, metrics)
    wanted = {key: n for key, n in _wanted(found, metrics, incomplete, known).items() if key in chosen}
    results = Results()
    for keys in stretches(known, chosen, wanted):
        _score(found, keys, config, metrics, results)
        for key in keys:
            scores = {metric: results.scores(metric, key) for metric in metrics}
            # Where nothing was left of what was pending, another command did it.
            has_scored = any(each.n_pending for each in scores.values() if each)
            if key not in results.failed() and (has_scored or wanted.get(key) == 0):
                yield key, {metric: each.n_written if each else 0 for metric, each in scores.items()}
    if error := results.error():
        raise error


def _score(
    dataset: Dataset, keys: Sequence[str], config: Mapping[str, Any], metrics: Sequence[str], results: Results
) -> None:
    """Score shards in one run; again where one failed that an ingest changed meanwhile, too late for its sources."""
    while True:
        before = _states(dataset, keys)
        execute(JOB, keys[0], config, scoring_assets(metrics), keys[-1], results)
        failed = [key for key in results.failed() if key in before]
        if all(state == before[key] for key, state in _states(dataset, failed).items()):
            return
        results.forget(failed)


def _wanted(
    dataset: Dataset, metrics: Sequence[str], incomplete: Collection[int], known: Sequence[str]
) -> dict[str, int]:
    """The samples to score, by shard; with shards that have none, but were never run, left open or failed before."""
    pending: Counter[tuple[str, int]] = Counter()
    for metric in metrics:
        scorer = installed().curation.scorers[metric]
        counts = pending_by_shard(installed().engine, scorer, [dataset])
        activate_if_complete(installed().engine, scorer, [dataset], counts)
        pending.update(counts)
    materialised = [
        installed().instance.get_materialized_partitions(dg.AssetKey(asset)) for asset in scoring_assets(metrics)
    ]
    failed = _failed_before(known)
    return {
        key: pending[dataset.name, shard]
        for shard, key in enumerate(shard_keys(dataset))
        if pending[dataset.name, shard]
        or shard in incomplete
        or key in failed
        or not all(key in keys for keys in materialised)
    }


def _failed_before(known: Sequence[str]) -> set[str]:
    """The shards that failed in their newest run of the last month, or whose newest run did not come to its end."""
    places = {key: place for place, key in enumerate(known)}
    since = datetime.now(timezone.utc) - LOOK_BACK
    has_failed: dict[str, bool] = {}
    for run in installed().instance.get_runs(dg.RunsFilter(job_name=JOB, statuses=ENDED, updated_after=since)):
        shards = shards_between(run.tags, places)
        named = run.tags[FAILED].split(",") if FAILED in run.tags else shards
        for key in shards:
            has_failed.setdefault(key, run.status != dg.DagsterRunStatus.SUCCESS and key in named)
    return {key for key, failed in has_failed.items() if failed}


def run_conclusions(dataset: str) -> dict[str, dict[str, Any]]:
    """Thresholds, training subset and report of a dataset; returns the metadata of each asset."""
    dataset_of_key(installed().engine, dataset)
    result = run_job("dataset_job", dataset, {})
    return {
        event.asset_key.to_user_string(): {
            name: value.value for name, value in event.step_materialization_data.materialization.metadata.items()
        }
        for event in result.get_asset_materialization_events()
        if event.asset_key
    }


def _states(dataset: Dataset, keys: Iterable[str]) -> dict[str, str | None]:
    with installed().engine.connect() as connection:
        return {key: shard_state(connection, dataset.dataset_id, int(key.rpartition(":")[2])) for key in keys}


def _outstanding(dataset: Dataset, metrics: Sequence[str]) -> set[int]:
    """The shards where a source left something open that no missing score tells of."""
    return {
        shard
        for metric in metrics
        for shard in outstanding_shards(installed().engine, installed().curation.scorers[metric], dataset)
    }
