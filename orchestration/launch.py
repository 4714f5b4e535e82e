"""The runs that commands start in this process: ingest, scoring, calibration, facts, conclusions and subsets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, cast

import dagster as dg

from assets.datasets.leases import hold_datasets
from assets.datasets.lookup import choose_shards, list_shard_keys
from assets.definitions.ecs_thresholds import REPORT_KEY, ecs_thresholds
from assets.definitions.partitions import DATASETS, SHARDS, list_tagged_partitions, register_partitions
from assets.definitions.results import RunResults
from assets.ingest.report import IngestReport
from assets.metrics.ecs.scorer import ECSScorer
from assets.metrics.registry import SCORERS, build_score_asset_name, list_accompanying_scores, list_scoring_assets
from assets.scores.draws import extend_stored_draws
from assets.scores.pending import count_pending_by_shard, list_incomplete_shards, update_active_scorer_if_complete
from db.manifest.datasets import Dataset
from db.scores.pending import load_shard_digest
from db.scores.thresholds import list_stored_objectives
from db.selection.recipes import Recipe
from orchestration.dataset_holds import hold_dataset
from orchestration.dead_runs import close_dead_runs
from orchestration.installation import Installation
from orchestration.jobs import FACT_ASSETS, MODEL_FREE_ASSETS, SUBSET_ASSET
from orchestration.requests import FINISHED_STATUSES, group_shards_into_runs
from orchestration.runs import FAILED_SHARDS_TAG, RunFailed, build_run_config, run_job, run_partitions

SCORING_JOB = "scoring_job"
FAILURE_WINDOW = timedelta(days=30)


def run_ingest(
    installation: Installation,
    folder: Path,
    dataset: str,
    rows: Path | None,
    n_shards: int | None,
    columns: Mapping[str, str] | None = None,
    n_workers: int | None = None,
) -> IngestReport:
    """Ingest a manifest folder into a dataset, which may be new, by one Dagster run in this process, and return the
    report of accepted, unchanged and rejected rows. rows: a further file of mixed rows, or None. n_shards: of a new
    dataset; None for the default. columns: their names by field.

    n_workers: as in `ingest_folder`. Raises RunFailed where the run leaves no report.
    """
    results = RunResults()
    places = {"folder": str(folder), "rows": str(rows) if rows else None}
    config = {**places, "n_shards": n_shards, "n_workers": n_workers, "columns": dict(columns or {})}
    with hold_datasets(installation.engine, dataset):
        installation.instance.add_dynamic_partitions(str(DATASETS.name), [dataset])
        run_job(installation, "ingest_job", dataset, {"ops": {"ingest": {"config": config}}}, results=results)
    if (report := results.find_report("ingest", IngestReport)) is None:
        raise RunFailed("the ingest ended without a report: see its run in reelsieve ui")
    return report


def run_scoring(
    installation: Installation,
    dataset: str,
    metrics: Sequence[str],
    options: Mapping[str, bool] | None = None,
    shards: Collection[int] | None = None,
) -> Iterator[tuple[str, dict[str, int]]]:
    """Score the pending samples of a dataset by Dagster runs in this process. Yield (shard key, {metric: number of
    results written}) for every shard completed here; a result is a score, or a status. options: values of sources'
    options by name; `facts` also measures missing facts of decoded videos. shards: their numbers; None for all.

    Raises UnknownDataset, UnknownShard, and at the end one error for all shards that failed.

    Neighbouring shards share one run. Every source that knows an option gets it. Evidence that is missing although no
    score is, is made too. Other processes that score the
    dataset share the work: a shard is yielded by every process that scored in it.
    """
    with hold_dataset(installation.engine, dataset) as stored_dataset:
        yield from _score_shards(installation, stored_dataset, metrics, options or {}, shards)


def _score_shards(
    installation: Installation,
    dataset: Dataset,
    metrics: Sequence[str],
    options: Mapping[str, bool],
    shards: Collection[int] | None,
) -> Iterator[tuple[str, dict[str, int]]]:
    chosen = choose_shards(dataset, shards)
    for metric in metrics:
        extend_stored_draws(installation.engine, dataset, installation.curation.scorers[metric])
    register_partitions(installation.instance, dataset)
    close_dead_runs(installation.instance, installation.database_url)
    config = build_run_config(metrics, options)
    known = installation.instance.get_dynamic_partitions(str(SHARDS.name))
    incomplete = _load_outstanding_shards(installation, dataset, metrics)
    wanted = {
        key: n
        for key, n in _count_wanted_samples(installation, dataset, metrics, incomplete, known).items()
        if key in chosen
    }
    results = RunResults()
    for keys in group_shards_into_runs(known, chosen, wanted):
        _run_scoring_job(installation, dataset, keys, config, metrics, results)
        for key in keys:
            scores = {
                metric: results.find_scores(metric, key) for metric in [*metrics, *list_accompanying_scores(metrics)]
            }
            # If nothing was left of the pending samples, another command scored them.
            has_scored = any(result.n_pending for result in scores.values() if result)
            if key not in results.collect_errors() and (has_scored or wanted.get(key) == 0):
                yield key, {metric: result.n_written if (result := scores[metric]) else 0 for metric in metrics}
    if error := results.build_error():
        raise error


def _run_scoring_job(
    installation: Installation,
    dataset: Dataset,
    keys: Sequence[str],
    config: Mapping[str, Any],
    metrics: Sequence[str],
    results: RunResults,
) -> None:
    """Score shards in one run; run again if an ingest changed a shard meanwhile, too late for its sources."""
    while True:
        before = _load_shard_states(installation, dataset, keys)
        run_partitions(installation, SCORING_JOB, keys[0], config, list_scoring_assets(metrics), keys[-1], results)
        failed = [key for key in results.collect_errors() if key in before]
        if all(state == before[key] for key, state in _load_shard_states(installation, dataset, failed).items()):
            return
        results.forget_errors(failed)


def _count_wanted_samples(
    installation: Installation,
    dataset: Dataset,
    metrics: Sequence[str],
    incomplete: Collection[int],
    known: Sequence[str],
) -> dict[str, int]:
    """Return the number of samples to score by shard key, with 0 for shards that must only be run again.

    These were never run, failed before, or have incomplete evidence.
    """
    pending: Counter[tuple[str, int]] = Counter()
    for metric in dict.fromkeys([*metrics, *list_accompanying_scores(metrics)]):
        scorer = installation.curation.scorers[metric]
        counts = count_pending_by_shard(installation.engine, scorer, [dataset])
        update_active_scorer_if_complete(installation.engine, scorer, [dataset], counts)
        pending.update(counts)
    materialised = [
        installation.instance.get_materialized_partitions(dg.AssetKey(asset)) for asset in list_scoring_assets(metrics)
    ]
    failed = _load_failed_shards(installation, known)
    return {
        key: pending[dataset.name, shard]
        for shard, key in enumerate(list_shard_keys(dataset))
        if pending[dataset.name, shard]
        or shard in incomplete
        or key in failed
        or not all(key in keys for keys in materialised)
    }


def _load_failed_shards(installation: Installation, known: Sequence[str]) -> set[str]:
    """Return the keys of the shards that failed in their newest run of the last month, or whose run was cut off."""
    places = {key: place for place, key in enumerate(known)}
    since = datetime.now(timezone.utc) - FAILURE_WINDOW
    has_failed: dict[str, bool] = {}
    for run in installation.instance.get_runs(
        dg.RunsFilter(job_name=SCORING_JOB, statuses=FINISHED_STATUSES, updated_after=since)
    ):
        shards = list_tagged_partitions(run.tags, places)
        named = run.tags[FAILED_SHARDS_TAG].split(",") if FAILED_SHARDS_TAG in run.tags else shards
        for key in shards:
            has_failed.setdefault(key, run.status != dg.DagsterRunStatus.SUCCESS and key in named)
    return {key for key, failed in has_failed.items() if failed}


def run_conclusions(installation: Installation, dataset: str) -> dict[str, dict[str, Any]]:
    """Compute and store thresholds, agreement and report of a dataset by one Dagster run in this process. Return the
    metadata of every asset that ran by its name, as {key: value}. Raises UnknownDataset.
    """
    with hold_dataset(installation.engine, dataset):
        return _list_metadata(run_job(installation, "dataset_job", dataset, {}))


def run_subset(installation: Installation, dataset: str, recipe: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Freeze the selection that a recipe takes of a dataset and write it to files, by one Dagster run in this process.
    Return the asset's metadata as {asset name: {key: value}}. recipe: as plain data, by field. Raises UnknownDataset.
    """
    with hold_dataset(installation.engine, dataset):
        return _list_metadata(
            run_job(installation, "subset_job", dataset, {"ops": {SUBSET_ASSET: {"config": {"recipe": dict(recipe)}}}})
        )


def _list_metadata(result: dg.ExecuteInProcessResult) -> dict[str, dict[str, Any]]:
    return {
        event.asset_key.to_user_string(): {
            name: value.value for name, value in event.step_materialization_data.materialization.metadata.items()
        }
        for event in result.get_asset_materialization_events()
        if event.asset_key
    }


def _load_shard_states(installation: Installation, dataset: Dataset, keys: Iterable[str]) -> dict[str, str | None]:
    with installation.engine.connect() as connection:
        return {key: load_shard_digest(connection, dataset.dataset_id, int(key.rpartition(":")[2])) for key in keys}


def _load_outstanding_shards(installation: Installation, dataset: Dataset, metrics: Sequence[str]) -> set[int]:
    """Return the numbers of the shards with incomplete evidence, although no score is missing."""
    return {
        shard
        for metric in metrics
        for shard in list_incomplete_shards(installation.engine, installation.curation.scorers[metric], dataset)
    }


def run_facts(installation: Installation, dataset: str, shards: Collection[int] | None = None) -> dict[str, int]:
    """Measure and store the missing facts of a dataset by Dagster runs in this process. Return how many texts and
    videos they measured, under the keys text_fact and video_fact. Simple scores that need no model are computed too.
    shards: the numbers of the shards to look at; None for all, in one run. Raises UnknownDataset and UnknownShard.
    """
    described: Counter[str] = Counter()
    with hold_dataset(installation.engine, dataset) as stored_dataset:
        register_partitions(installation.instance, stored_dataset)
        chosen = choose_shards(stored_dataset, shards)
        for keys in group_shards_into_runs(list_shard_keys(stored_dataset), chosen, chosen):
            results = RunResults()
            run_job(installation, "facts_job", keys[0], {}, MODEL_FREE_ASSETS, keys[-1], results)
            described.update({asset: results.find_report(asset, int) or 0 for asset in FACT_ASSETS})
    return dict(described)


def run_calibration(
    installation: Installation,
    dataset: str,
    objective: str,
    labels: str,
    *,
    judge: bool = False,
    judge_limit: int | None = None,
) -> dict[str, Any]:
    """Choose and store the thresholds of ECS on a dataset's labels, score with them, and return the asset's report as
    plain data. objective: f1, youden, mcc or coverage. labels: `calibration` for a fifth of the videos, or `all`.
    judge: use labels by the chat model of the settings, for at most `judge_limit` captions (None: all). Raises
    UnknownDataset and NoJudge.

    Runs three Dagster jobs at most in this process: verdicts that are missing are computed first.
    """
    asset, metric = ecs_thresholds.key.to_user_string(), ECSScorer.metric
    scorer = installation.curation.scorers[metric]
    chosen = {"objective": objective, "labels": labels, "judge": judge, "judge_limit": judge_limit}
    with hold_dataset(installation.engine, dataset) as stored_dataset:
        if judge:
            cast(ECSScorer, scorer).labeller.check_judge()
        register_partitions(installation.instance, stored_dataset)
        keys = list_shard_keys(stored_dataset)
        if outstanding := sorted(list_incomplete_shards(installation.engine, scorer, stored_dataset)):
            run_job(
                installation,
                "scoring_job",
                keys[outstanding[0]],
                {},
                list_scoring_assets([metric]),
                keys[outstanding[-1]],
            )
        result = run_job(installation, "calibration_job", dataset, {"ops": {asset: {"config": chosen}}})
        run_job(installation, "scoring_job", keys[0], {}, [build_score_asset_name(metric)], keys[-1])
    (event,) = result.asset_materializations_for_node(asset)
    return cast("dict[str, Any]", event.metadata[REPORT_KEY].value)


THRESHOLD_ASSETS = ["threshold", "rating_threshold"]


def create_missing_thresholds(
    installation: Installation, dataset: Dataset, recipe: Recipe, tell: Callable[[str], None]
) -> None:
    """Compute and store the thresholds of a dataset by a Dagster run in this process, if a recipe names one of a metric
    that is not stored; else do nothing. tell: called with one line before the run.
    """
    # The report stores those by ratings, and none by shares.
    asked = {(name, least) for name, least in recipe.at_least.items() if isinstance(least, str) and name in SCORERS}
    with installation.engine.connect() as connection:
        if asked <= list_stored_objectives(connection, dataset.dataset_id):
            return
    tell(f"computing the thresholds of {dataset.name}")
    with hold_dataset(installation.engine, dataset.name):
        run_job(installation, "dataset_job", dataset.name, {}, THRESHOLD_ASSETS)
