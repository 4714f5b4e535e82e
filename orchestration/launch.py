"""What commands run: ingest, scoring, calibration, facts and conclusions, in this process, as the UI shows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, cast

import dagster as dg

from assets.datasets import chosen_shards, shard_keys
from assets.ecs.assets import REPORT, ecs_thresholds
from assets.ecs.scorer import ECSScorer
from assets.ingest.report import IngestReport
from assets.leases import keep_datasets
from assets.partitions import DATASETS, SHARDS, announce_partitions, shards_between
from assets.results import Results
from assets.scores.pending import activate_if_complete, outstanding_shards, pending_by_shard
from assets.scores.registry import SCORERS, asset_name, scored_along, scoring_assets
from db.manifest.datasets import Dataset
from db.scores.thresholds import metrics_with_cutoffs
from db.scores.work import shard_state
from db.selection.recipes import Recipe
from orchestration.at_work import at_work_on
from orchestration.dead_runs import close_dead_runs
from orchestration.jobs import FACTS, SUBSET, WITHOUT_MODEL
from orchestration.platform import Installation
from orchestration.requests import stretches
from orchestration.runs import FAILED, RunFailed, execute, options_by_source, run_job

JOB = "scoring_job"
ENDED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
LOOK_BACK = timedelta(days=30)


def run_ingest(
    installation: Installation, folder: Path, dataset: str, rows: Path | None, n_shards: int | None
) -> IngestReport:
    """Ingest a manifest folder through Dagster and return the report."""
    results = Results()
    config = {"folder": str(folder), "rows": str(rows) if rows else None, "n_shards": n_shards}
    with keep_datasets(installation.engine, dataset):
        installation.instance.add_dynamic_partitions(str(DATASETS.name), [dataset])
        run_job(installation, "ingest_job", dataset, {"ops": {"ingest": {"config": config}}}, results=results)
    if (report := results.report("ingest", IngestReport)) is None:
        raise RunFailed("the ingest ended without a report: look at its run with reelsieve ui")
    return report


def run_scoring(
    installation: Installation,
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
    with at_work_on(installation.engine, dataset) as found:
        yield from _score_all(installation, found, metrics, options or {}, shards)


def _score_all(
    installation: Installation,
    found: Dataset,
    metrics: Sequence[str],
    options: Mapping[str, bool],
    shards: Collection[int] | None,
) -> Iterator[tuple[str, dict[str, int]]]:
    chosen = chosen_shards(found, shards)
    announce_partitions(installation.instance, found)
    close_dead_runs(installation.instance, installation.database_url)
    config = options_by_source(metrics, options)
    known = installation.instance.get_dynamic_partitions(str(SHARDS.name))
    incomplete = set() if options else _outstanding(installation, found, metrics)
    wanted = {key: n for key, n in _wanted(installation, found, metrics, incomplete, known).items() if key in chosen}
    results = Results()
    for keys in stretches(known, chosen, wanted):
        _score(installation, found, keys, config, metrics, results)
        for key in keys:
            scores = {metric: results.scores(metric, key) for metric in [*metrics, *scored_along(metrics)]}
            # Where nothing was left of what was pending, another command did it.
            has_scored = any(each.n_pending for each in scores.values() if each)
            if key not in results.failed() and (has_scored or wanted.get(key) == 0):
                yield key, {metric: each.n_written if (each := scores[metric]) else 0 for metric in metrics}
    if error := results.error():
        raise error


def _score(
    installation: Installation,
    dataset: Dataset,
    keys: Sequence[str],
    config: Mapping[str, Any],
    metrics: Sequence[str],
    results: Results,
) -> None:
    """Score shards in one run; again where one failed that an ingest changed meanwhile, too late for its sources."""
    while True:
        before = _states(installation, dataset, keys)
        execute(installation, JOB, keys[0], config, scoring_assets(metrics), keys[-1], results)
        failed = [key for key in results.failed() if key in before]
        if all(state == before[key] for key, state in _states(installation, dataset, failed).items()):
            return
        results.forget(failed)


def _wanted(
    installation: Installation,
    dataset: Dataset,
    metrics: Sequence[str],
    incomplete: Collection[int],
    known: Sequence[str],
) -> dict[str, int]:
    """The samples to score, by shard; with shards that have none, but were never run, left open or failed before."""
    pending: Counter[tuple[str, int]] = Counter()
    for metric in dict.fromkeys([*metrics, *scored_along(metrics)]):
        scorer = installation.curation.scorers[metric]
        counts = pending_by_shard(installation.engine, scorer, [dataset])
        activate_if_complete(installation.engine, scorer, [dataset], counts)
        pending.update(counts)
    materialised = [
        installation.instance.get_materialized_partitions(dg.AssetKey(asset)) for asset in scoring_assets(metrics)
    ]
    failed = _failed_before(installation, known)
    return {
        key: pending[dataset.name, shard]
        for shard, key in enumerate(shard_keys(dataset))
        if pending[dataset.name, shard]
        or shard in incomplete
        or key in failed
        or not all(key in keys for keys in materialised)
    }


def _failed_before(installation: Installation, known: Sequence[str]) -> set[str]:
    """The shards that failed in their newest run of the last month, or whose newest run did not come to its end."""
    places = {key: place for place, key in enumerate(known)}
    since = datetime.now(timezone.utc) - LOOK_BACK
    has_failed: dict[str, bool] = {}
    for run in installation.instance.get_runs(dg.RunsFilter(job_name=JOB, statuses=ENDED, updated_after=since)):
        shards = shards_between(run.tags, places)
        named = run.tags[FAILED].split(",") if FAILED in run.tags else shards
        for key in shards:
            has_failed.setdefault(key, run.status != dg.DagsterRunStatus.SUCCESS and key in named)
    return {key for key, failed in has_failed.items() if failed}


def run_conclusions(installation: Installation, dataset: str) -> dict[str, dict[str, Any]]:
    """Thresholds, agreement and report of a dataset; returns the metadata of each asset."""
    with at_work_on(installation.engine, dataset):
        return _metadata(run_job(installation, "dataset_job", dataset, {}))


def run_subset(installation: Installation, dataset: str, recipe: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Freeze and write what a recipe takes of a dataset; returns the metadata of the asset by its name."""
    with at_work_on(installation.engine, dataset):
        return _metadata(
            run_job(installation, "subset_job", dataset, {"ops": {SUBSET: {"config": {"recipe": dict(recipe)}}}})
        )


def _metadata(result: dg.ExecuteInProcessResult) -> dict[str, dict[str, Any]]:
    return {
        event.asset_key.to_user_string(): {
            name: value.value for name, value in event.step_materialization_data.materialization.metadata.items()
        }
        for event in result.get_asset_materialization_events()
        if event.asset_key
    }


def _states(installation: Installation, dataset: Dataset, keys: Iterable[str]) -> dict[str, str | None]:
    with installation.engine.connect() as connection:
        return {key: shard_state(connection, dataset.dataset_id, int(key.rpartition(":")[2])) for key in keys}


def _outstanding(installation: Installation, dataset: Dataset, metrics: Sequence[str]) -> set[int]:
    """The shards where a source left something open that no missing score tells of."""
    return {
        shard
        for metric in metrics
        for shard in outstanding_shards(installation.engine, installation.curation.scorers[metric], dataset)
    }


def run_facts(installation: Installation, dataset: str) -> dict[str, int]:
    """Describe what lacks facts; returns how many things each asset of facts described. Raises UnknownDataset.

    Simple scores that need no model are made along.
    """
    results = Results()
    with at_work_on(installation.engine, dataset) as found:
        announce_partitions(installation.instance, found)
        keys = shard_keys(found)
        run_job(installation, "facts_job", keys[0], {}, WITHOUT_MODEL, keys[-1], results)
    return {asset: results.report(asset, int) or 0 for asset in FACTS}


def run_calibration(
    installation: Installation,
    dataset: str,
    objective: str,
    labels: str,
    *,
    judge: bool = False,
    judge_limit: int | None = None,
) -> dict[str, Any]:
    """Choose the thresholds of ECS on the labels of a dataset and score with them; returns the report of the asset.

    objective: f1, youden, mcc or coverage. labels: `calibration` for the labels of a fifth of the videos, or `all`.
    judge: have the judge label at most `judge_limit` captions, and choose on its labels in place of people's. Verdicts
    that are missing, or that an early exit left as lower bounds, are reached first. Raises UnknownDataset and NoJudge.
    """
    asset, metric = ecs_thresholds.key.to_user_string(), ECSScorer.metric
    scorer = installation.curation.scorers[metric]
    chosen = {"objective": objective, "labels": labels, "judge": judge, "judge_limit": judge_limit}
    with at_work_on(installation.engine, dataset) as found:
        if judge:
            cast(ECSScorer, scorer).labeller.check()
        announce_partitions(installation.instance, found)
        keys = shard_keys(found)
        if outstanding := sorted(outstanding_shards(installation.engine, scorer, found)):
            run_job(
                installation, "scoring_job", keys[outstanding[0]], {}, scoring_assets([metric]), keys[outstanding[-1]]
            )
        result = run_job(installation, "calibration_job", dataset, {"ops": {asset: {"config": chosen}}})
        run_job(installation, "scoring_job", keys[0], {}, [asset_name(metric)], keys[-1])
    (event,) = result.asset_materializations_for_node(asset)
    return cast("dict[str, Any]", event.metadata[REPORT].value)


THRESHOLDS = ["threshold", "rating_threshold"]


def make_named_thresholds(
    installation: Installation, dataset: Dataset, recipe: Recipe, tell: Callable[[str], None]
) -> None:
    """Store the thresholds of a dataset where the recipe names one of a metric that has none. tell: takes progress."""
    asked = {name for name, least in recipe.at_least.items() if isinstance(least, str) and name in SCORERS}
    with installation.engine.connect() as connection:
        if asked <= metrics_with_cutoffs(connection, dataset.dataset_id):
            return
    tell(f"finds the thresholds of {dataset.name}")
    with at_work_on(installation.engine, dataset.name):
        run_job(installation, "dataset_job", dataset.name, {}, THRESHOLDS)
