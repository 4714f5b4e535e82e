"""The sensor that draws conclusions (thresholds, agreement, report) of datasets whose scores are newer.

Dagster's automation conditions cannot do this: `tests/orchestration/test_automation_conditions.py` shows why.
"""

from collections.abc import Iterator

import dagster as dg

from assets.definitions.curation import Curation
from assets.definitions.partitions import DATASET
from assets.metrics.registry import SCORERS, build_score_asset_name
from db.manifest.datasets import list_datasets
from db.scores.quality import has_good_score
from orchestration.attempts import find_due_attempt
from orchestration.conclusions import compute_newest_id, load_newest_materialization_ids
from orchestration.dead_runs import close_dead_runs
from orchestration.jobs import CONCLUSION_ASSETS, dataset_job
from orchestration.requests import list_busy_datasets

# The tag of a run with the newest event it knows of: failed attempts count only until there are newer scores.
NEWEST_EVENT_TAG = ".dagster/reelsieve_knows"
# Agreement and report read judgements of people, and the report shows training trials.
OTHER_INPUTS = ("rating", "keypoint_label", "selection_trial")


@dg.sensor(
    job=dataset_job,
    minimum_interval_seconds=60,
    description="Computes the conclusions of a dataset again when it has newer scores and no run under way.",
)
def conclusions(
    context: dg.SensorEvaluationContext, curation: dg.ResourceParam[Curation]
) -> Iterator[dg.RunRequest | dg.SkipReason]:
    """Yield a run request for every dataset whose scores, ratings, labels or trials are newer than its conclusions, or
    a skip reason. Datasets with an unfinished run or without any score wait. Failed attempts are repeated with growing
    pauses, up to five.
    """
    close_dead_runs(context.instance, curation.engine.url)
    asked = False
    busy = list_busy_datasets(context.instance)
    known = load_newest_materialization_ids(context.instance, [*map(build_score_asset_name, SCORERS), *OTHER_INPUTS])
    drawn = load_newest_materialization_ids(context.instance, CONCLUSION_ASSETS)
    with curation.engine.connect() as connection:
        for dataset in list_datasets(connection):
            latest = compute_newest_id(known, dataset, any_asset=True)
            if dataset.name in busy or latest <= compute_newest_id(drawn, dataset, any_asset=False):
                continue
            if not has_good_score(connection, dataset.dataset_id):
                continue
            tags = {NEWEST_EVENT_TAG: f"{dataset.name}:{latest}"}
            work, until = f"conclusions of {dataset.name}", "they are tried again after newer scores"
            n_failed = find_due_attempt(context, dataset_job.name, tags, work, until)
            if n_failed is not None:
                asked = True
                key = f"{dataset.name}:{latest}:{n_failed}"
                yield dg.RunRequest(run_key=key, partition_key=dataset.name, tags={**tags, DATASET: dataset.name})
    if not asked:
        yield dg.SkipReason("no dataset has scores that are newer than its conclusions")
