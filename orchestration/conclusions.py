"""Conclusions follow the scores: thresholds, subset, agreement and report of a dataset whose scores are newer."""

from collections.abc import Iterator
from datetime import datetime, timezone

import dagster as dg

from assets.curation import Curation
from assets.datasets import shard_keys
from assets.scores.registry import METRICS, asset_name
from db.manifest.datasets import Dataset, list_datasets
from db.scores.quality import has_good_score
from orchestration.attempts import LIMIT, Attempts
from orchestration.dead_runs import close_dead_runs
from orchestration.jobs import CONCLUSIONS, dataset_job
from orchestration.requests import busy_datasets

# The newest event that a run of conclusions knows of: a failed run is tried again, newer scores are not its failures.
KNOWS = "reelsieve/knows"
# What people said is read by agreement and report as well.
JUDGEMENTS = ("rating", "keypoint_label")


@dg.sensor(
    job=dataset_job,
    minimum_interval_seconds=60,
    description="Draws the conclusions of a dataset anew when it has newer scores, and no run of it is under way.",
)
def conclusions(
    context: dg.SensorEvaluationContext, curation: dg.ResourceParam[Curation]
) -> Iterator[dg.RunRequest | dg.SkipReason]:
    """Ask for the conclusions of every dataset whose scores, ratings or labels are newer than they are."""
    close_dead_runs(context.instance)
    asked = False
    busy = busy_datasets(context.instance)
    known = _newest(context.instance, [*map(asset_name, METRICS), *JUDGEMENTS])
    drawn = _newest(context.instance, CONCLUSIONS)
    with curation.engine.connect() as connection:
        for dataset in list_datasets(connection):
            newest = _of(known, dataset, latest=True)
            if dataset.name in busy or newest <= _of(drawn, dataset, latest=False):
                continue
            if not has_good_score(connection, dataset.dataset_id):
                continue
            tags = {KNOWS: f"{dataset.name}:{newest}"}
            attempts = Attempts.of(context.instance, dataset_job.name, tags)
            if attempts.n_failed >= LIMIT:
                context.log.warning(f"conclusions of {dataset.name} failed {LIMIT} times: they wait for newer scores")
            if attempts.is_due(datetime.now(timezone.utc)):
                asked = True
                key = f"{dataset.name}:{newest}:{attempts.n_failed}"
                yield dg.RunRequest(run_key=key, partition_key=dataset.name, tags=tags)
    if not asked:
        yield dg.SkipReason("no dataset has newer scores than conclusions")


def _newest(instance: dg.DagsterInstance, assets: list[str]) -> list[dict[str, int]]:
    """The number of the newest materialisation by partition, for each asset; later ones have greater numbers."""
    storage = instance.event_log_storage
    made = dg.DagsterEventType.ASSET_MATERIALIZATION
    return [dict(storage.get_latest_storage_id_by_partition(dg.AssetKey(asset), made)) for asset in assets]


def _of(newest: list[dict[str, int]], dataset: Dataset, *, latest: bool) -> int:
    """The latest of a dataset's materialisations, or the latest that every asset has; 0 where there is none."""
    partitions = [dataset.name, *shard_keys(dataset)]
    each = [max((numbers[key] for key in partitions if key in numbers), default=0) for numbers in newest]
    return max(each) if latest else min(each)
