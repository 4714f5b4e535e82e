"""Running the jobs from the command line: in this process, on the instance that the UI shows."""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import dagster as dg
from dagster import DagsterExecutionStepExecutionError

# Neither has a public place.
from dagster._core.errors import DagsterAssetCheckFailedError, DagsterExecutionInterruptedError

from assets.ingest.assets import REPORT
from assets.partitions import DATASETS, announce_partitions, dataset_of_key, shard_keys
from assets.scores.pending import activate_if_complete, pending_by_shard, unverified
from assets.scores.registry import METRICS, asset_name, reads_verdicts, scoring_assets
from assets.thresholds.label_assets import REPORT as CALIBRATION
from db.manifest import Dataset
from db.server import is_alive
from orchestration.definitions import defs
from orchestration.platform import curation, engine, instance
from orchestration.terminal import LOGGER

HOST, PID = "reelsieve/host", "reelsieve/pid"
# Dagster's own tag, which has no public constant.
PARTITION = "dagster/partition"


class RunFailed(RuntimeError):
    """A run that ended badly without a user's mistake behind it; the message says where to look."""


def run_ingest(folder: Path, dataset: str, rows: Path | None, n_shards: int | None) -> dict[str, Any]:
    """Ingest a manifest folder through Dagster and return the report."""
    config = {"folder": str(folder), "rows": str(rows) if rows else None, "n_shards": n_shards}
    instance().add_dynamic_partitions(str(DATASETS.name), [dataset])
    result = run_job("ingest_job", dataset, {"ops": {"ingest": {"config": config}}})
    for event in result.get_asset_materialization_events():
        metadata = event.step_materialization_data.materialization.metadata
        if REPORT in metadata:
            return cast("dict[str, Any]", metadata[REPORT].value)
    raise RunFailed("the ingest ended without a report: look at its run with reelsieve ui")


def run_scoring(
    dataset: str, metrics: Sequence[str], *, early_exit: bool = False
) -> Iterator[tuple[str, dict[str, int]]]:
    """Score every shard of a dataset that lacks something; yields its key and the number written per metric.

    early_exit: whether to stop verifying a keypoint at its threshold, for metrics that read verdicts. Without it, what
    an earlier run so left as lower bounds is completed.
    """
    found = dataset_of_key(engine(), dataset)
    announce_partitions(instance(), found)
    pending: Counter[tuple[str, int]] = Counter()
    for metric in metrics:
        scorer = curation_scorers()[metric]
        counts = pending_by_shard(engine(), scorer, [found])
        activate_if_complete(engine(), scorer, counts)
        pending.update(counts)
    assets = scoring_assets(metrics)
    config = {"ops": {"ecs_verdict": {"config": {"early_exit": True}}}} if early_exit else {}
    incomplete = set() if early_exit else _unverified_shards(found, metrics)
    failed: list[DagsterAssetCheckFailedError] = []
    materialised = [instance().get_materialized_partitions(dg.AssetKey(asset)) for asset in assets]
    for shard, key in enumerate(shard_keys(found)):
        todo = pending[found.name, shard] or shard in incomplete
        if todo or not all(key in keys for keys in materialised) or not _ended_well(key):
            try:
                result = run_job("scoring_job", key, config, assets)
            except DagsterAssetCheckFailedError as error:
                # One bad file must not keep the shards behind it from being scored.
                failed.append(error)
            else:
                yield key, {metric: _written(result, metric) for metric in metrics}
    if failed:
        raise failed[0]


def run_calibration(dataset: str, objective: str, labels: str) -> dict[str, dict[str, Any]]:
    """Choose thresholds on labels and bring the scores up to them; returns by metric what was found.

    Verdicts that are missing, or that an early exit left as lower bounds, are reached first; else no model is needed.
    """
    found = dataset_of_key(engine(), dataset)
    announce_partitions(instance(), found)
    metrics = [metric for metric in METRICS if reads_verdicts(metric)]
    for shard in sorted(_unverified_shards(found, metrics)):
        run_job("scoring_job", shard_keys(found)[shard], {}, scoring_assets(metrics))
    config = {"ops": {"ecs_thresholds": {"config": {"objective": objective, "labels": labels}}}}
    result = run_job("calibration_job", dataset, config)
    for key in shard_keys(found):
        run_job("scoring_job", key, {}, [asset_name(metric) for metric in metrics])
    (event,) = result.asset_materializations_for_node("ecs_thresholds")
    return cast("dict[str, dict[str, Any]]", event.metadata[CALIBRATION].value)


def run_conclusions(dataset: str, selection: Mapping[str, Any] | None = None) -> dict[str, dict[str, Any]]:
    """Thresholds, training subset and report of a dataset; returns the metadata of each asset."""
    dataset_of_key(engine(), dataset)
    config = {"ops": {"training_subset": {"config": dict(selection)}}} if selection else {}
    result = run_job("dataset_job", dataset, config)
    return {
        event.asset_key.to_user_string(): {
            name: value.value for name, value in event.step_materialization_data.materialization.metadata.items()
        }
        for event in result.get_asset_materialization_events()
        if event.asset_key
    }


def run_job(
    name: str, partition: str, run_config: Mapping[str, Any], assets: list[str] | None = None
) -> dg.ExecuteInProcessResult:
    """Run a job in this process; an asset's own error comes out as it was raised."""
    close_dead_runs()
    config = {**run_config, "loggers": {LOGGER: {"config": {}}}}
    try:
        return (
            _definitions()
            .resolve_job_def(name)
            .execute_in_process(
                run_config=config,
                instance=instance(),
                partition_key=partition,
                tags={HOST: socket.gethostname(), PID: str(os.getpid())},
                asset_selection=[dg.AssetKey(asset) for asset in assets] if assets else None,
            )
        )
    except DagsterExecutionStepExecutionError as error:
        raise error.user_exception from None
    except DagsterExecutionInterruptedError:
        raise KeyboardInterrupt from None


def close_dead_runs() -> None:
    """Mark runs whose process on this machine is gone as failed, and free the encoder that they held.

    To be called while this process has no run of its own under way.
    """
    unended = [dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED]
    for run in instance().get_runs(dg.RunsFilter(statuses=unended, tags={HOST: socket.gethostname()})):
        pid = int(run.tags[PID])
        # In a container the id of the process that died is soon given again, often to its successor.
        if pid == os.getpid() or not is_alive(pid):
            instance().report_run_failed(run, "its process ended before it did")
            instance().event_log_storage.free_concurrency_slots_for_run(run.run_id)
    # Those of the web interface's runs: Dagster's daemon frees them too, but only while it runs.
    for run_id in instance().event_log_storage.get_concurrency_run_ids():
        holder = instance().get_run_by_id(run_id)
        if holder is None or holder.is_finished:
            instance().event_log_storage.free_concurrency_slots_for_run(run_id)


@lru_cache(maxsize=1)
def _definitions() -> dg.Definitions:
    return defs()


@lru_cache(maxsize=1)
def curation_scorers() -> dict[str, Any]:
    """The scorers of this installation by metric."""
    return curation().scorers


def _unverified_shards(dataset: Dataset, metrics: Sequence[str]) -> set[int]:
    """The shards where a caption lacks verdicts or has only lower bounds."""
    scorers = [curation_scorers()[metric] for metric in metrics if reads_verdicts(metric)]
    return {
        shard
        for shard in range(dataset.n_shards)
        if any(unverified(engine(), scorer, dataset, shard, in_full=True) for scorer in scorers)
    }


def _ended_well(partition: str) -> bool:
    """False when the last scoring run of a shard died or failed: its checks have not passed then."""
    of_shard = dg.RunsFilter(job_name="scoring_job", tags={PARTITION: partition})
    return all(run.status == dg.DagsterRunStatus.SUCCESS for run in instance().get_runs(of_shard, limit=1))


def _written(result: dg.ExecuteInProcessResult, metric: str) -> int:
    events = result.asset_materializations_for_node(asset_name(metric))
    written = events[0].metadata["scores_written"].value
    assert isinstance(written, int)
    return written
