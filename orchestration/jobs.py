"""Dagster's jobs: ingest a dataset, score shards, draw conclusions of a dataset, freeze a subset, try it, prune
Dagster's tables.
"""

from datetime import datetime, timedelta, timezone
from functools import partial

import dagster as dg

from assets.definitions.ecs_thresholds import ecs_thresholds
from assets.definitions.step_errors import explain_failure
from assets.metrics.registry import METRICS, SCORERS, build_score_asset_name, list_scoring_assets
from assets.words.text import format_count
from db.scores.sample_scores import SIMPLE_SCORES
from orchestration.retention import KEEP_DAYS, delete_runs_and_ticks, list_superseded_runs

FACT_ASSETS = ["text_fact", "video_fact"]
# The assets that need no model: facts, and the simple scores without one.
MODEL_FREE_ASSETS = [
    *FACT_ASSETS,
    *(build_score_asset_name(name) for name in SIMPLE_SCORES if not SCORERS[name].rests_on),
]
CONCLUSION_ASSETS = ["threshold", "rating_threshold", "agreement", "dataset_report"]
SUBSET_ASSET = "training_subset"

# All steps in the run's own process, where models stay loaded, also in a Dagster whose own executor is another.
_define_job = partial(dg.define_asset_job, executor_def=dg.in_process_executor)

ingest_job = _define_job(
    "ingest_job",
    # All tables of ingest; one of them is in the group of embeddings.
    selection=dg.AssetSelection.groups("ingest").required_multi_asset_neighbors(),
    description="Read a manifest folder into the database.",
)
scoring_job = _define_job(
    "scoring_job",
    selection=dg.AssetSelection.assets(*list_scoring_assets(METRICS)),
    description="Make the missing evidence and scores of a shard, and check the scores.",
)
facts_job = _define_job(
    "facts_job",
    selection=dg.AssetSelection.assets(*MODEL_FREE_ASSETS),
    description="Describe captions and videos, and compare captions with references, without a model.",
)
calibration_job = _define_job(
    "calibration_job",
    selection=dg.AssetSelection.assets(ecs_thresholds),
    description="Choose the thresholds of ECS on a dataset's labels; scoring_job then applies them.",
)
dataset_job = _define_job(
    "dataset_job",
    selection=dg.AssetSelection.assets(*CONCLUSION_ASSETS),
    description="Compute thresholds and agreement with people for a dataset, and write its report.",
)
# A subset is no conclusion: a person must decide how much to take.
subset_job = _define_job(
    "subset_job",
    selection=dg.AssetSelection.assets(SUBSET_ASSET),
    description="Freeze the samples that the configured recipe selects from a dataset, and write them as Parquet.",
)
trial_job = _define_job(
    "trial_job",
    selection=dg.AssetSelection.assets("selection_trial"),
    description="Train small students on a selection and on other captions, and compare them on held-out videos.",
)


# The resource takes the run's lease, so that the run does not look dead.
@dg.op(required_resource_keys={"curation"})
@explain_failure
def prune_runs(context: dg.OpExecutionContext) -> None:
    """Delete finished runs and ticks older than 30 days from Dagster's storage; scores and selections are not touched.

    A run is kept as long as it is the newest that materialised some partition.
    """
    before = datetime.now(timezone.utc) - timedelta(days=KEEP_DAYS)
    superseded = list_superseded_runs(context.instance, before)
    delete_runs_and_ticks(context.instance, context.resources.curation.engine.url, superseded, before)
    context.log.info(f"deleted {format_count(len(superseded), 'run')} from before {before:%Y-%m-%d}")


@dg.job
def prune_job() -> None:
    """Delete finished runs and ticks older than 30 days from Dagster's storage."""
    prune_runs()
