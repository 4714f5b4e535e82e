"""The jobs: ingest a dataset, score a shard, draw the conclusions of a dataset, prune the event log."""

from datetime import datetime, timedelta, timezone

import dagster as dg

from assets.ecs.assets import ecs_thresholds
from assets.scores.registry import METRICS, scoring_assets

KEEP_RUNS_DAYS = 30

ingest_job = dg.define_asset_job(
    "ingest_job",
    selection=dg.AssetSelection.groups("ingest"),
    executor_def=dg.in_process_executor,
    description="Read a manifest folder into the database.",
)
# One process from embedding to score: a step in a process of its own would load torch again.
scoring_job = dg.define_asset_job(
    "scoring_job",
    selection=dg.AssetSelection.assets(*scoring_assets(METRICS)),
    executor_def=dg.in_process_executor,
    description="Embed and score what a shard lacks, and check the scores.",
)
calibration_job = dg.define_asset_job(
    "calibration_job",
    selection=dg.AssetSelection.assets(ecs_thresholds),
    executor_def=dg.in_process_executor,
    description="Choose the thresholds of ECS on a dataset's labels; scoring_job then applies them.",
)
dataset_job = dg.define_asset_job(
    "dataset_job",
    selection=dg.AssetSelection.assets("threshold", "training_subset", "agreement", "dataset_report"),
    executor_def=dg.in_process_executor,
    description="Thresholds, training subset, agreement with people and report of a dataset.",
)


@dg.op
def prune_runs(context: dg.OpExecutionContext) -> None:
    """Delete finished runs older than 30 days from Dagster's storage; scores and selections are not touched.

    A run stays as long as it is the last that materialised something.
    """
    before = datetime.now(timezone.utc) - timedelta(days=KEEP_RUNS_DAYS)
    finished = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
    old = context.instance.get_run_ids(dg.RunsFilter(created_before=before, statuses=finished))
    superseded = [run_id for run_id in old if not is_last_to_materialise(context.instance, run_id)]
    for run_id in superseded:
        context.instance.delete_run(run_id)
    context.log.info(f"deleted {len(superseded)} of {len(old)} runs from before {before:%Y-%m-%d}")


def is_last_to_materialise(instance: dg.DagsterInstance, run_id: str) -> bool:
    """Whether a run made the newest materialisation of some partition.

    With the run Dagster would delete the event, then show the partition as missing and ask for it again.
    """
    events = instance.get_records_for_run(run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION).records
    for event in events:
        assert event.asset_key is not None
        partitions = [event.partition_key] if event.partition_key else None
        same = dg.AssetRecordsFilter(asset_key=event.asset_key, asset_partitions=partitions)
        if instance.fetch_materializations(same, limit=1).records[0].run_id == run_id:
            return True
    return False


@dg.job(executor_def=dg.in_process_executor)
def prune_job() -> None:
    """Keep the event log small."""
    prune_runs()
