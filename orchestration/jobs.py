"""The jobs: ingest a dataset, score a shard, draw the conclusions of a dataset, prune the event log."""

from datetime import datetime, timedelta, timezone

import dagster as dg

from assets.scores.assets import asset_name
from assets.scores.registry import METRICS

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
    selection=dg.AssetSelection.assets("text_embedding", *[asset_name(metric) for metric in METRICS]),
    executor_def=dg.in_process_executor,
    description="Embed and score what a shard lacks, and check the scores.",
)
dataset_job = dg.define_asset_job(
    "dataset_job",
    selection=dg.AssetSelection.assets("threshold", "training_subset", "dataset_report"),
    executor_def=dg.in_process_executor,
    description="Thresholds, training subset and report of a dataset.",
)


@dg.op
def prune_runs(context: dg.OpExecutionContext) -> None:
    """Delete finished runs older than 30 days from Dagster's storage; scores and selections are not touched."""
    before = datetime.now(timezone.utc) - timedelta(days=KEEP_RUNS_DAYS)
    old = context.instance.get_run_records(
        dg.RunsFilter(
            created_before=before,
            statuses=[dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED],
        ),
        limit=1000,
    )
    for record in old:
        context.instance.delete_run(record.dagster_run.run_id)
    context.log.info(f"deleted {len(old)} runs from before {before:%Y-%m-%d}")


@dg.job(executor_def=dg.in_process_executor)
def prune_job() -> None:
    """Keep the event log small."""
    prune_runs()
