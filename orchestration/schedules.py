"""Schedules of Dagster: scoring of unscored samples every hour, and pruning of Dagster's tables every week."""

from collections import Counter
from collections.abc import Iterator

import dagster as dg

from assets.datasets.lookup import list_shard_keys
from assets.definitions.curation import Curation
from assets.definitions.partitions import SHARDS, build_range_tags
from assets.scores.base import find_missing_setting
from assets.scores.pending import count_pending_by_shard, update_active_scorer_if_complete
from assets.words.text import format_count
from db.manifest.datasets import list_datasets
from orchestration.dead_runs import close_dead_runs
from orchestration.jobs import prune_job, scoring_job
from orchestration.requests import group_shards_into_runs, list_busy_datasets


@dg.schedule(
    cron_schedule="0 * * * *",
    job=scoring_job,
    description="Every hour: run the shards of every dataset that have samples without a score.",
)
def score_missing(
    context: dg.ScheduleEvaluationContext, curation: dg.ResourceParam[Curation]
) -> Iterator[dg.RunRequest | dg.SkipReason]:
    """Yield one run request for every dataset with pending samples, from its first to its last shard that has any; or a
    skip reason. Datasets with an unfinished run are left for the next hour. Closes dead runs first.
    """
    close_dead_runs(context.instance, curation.engine.url)
    # Read before the scores: a run that ends in between has then scored its shards.
    busy = list_busy_datasets(context.instance)
    pending = _count_pending_samples(curation)
    free = [key for key in pending if key.rpartition(":")[0] not in busy]
    known = context.instance.get_dynamic_partitions(str(SHARDS.name))
    for shards in group_shards_into_runs(known, known, free):
        yield dg.RunRequest(run_key=f"{shards[0]} to {shards[-1]}", tags=build_range_tags(shards[0], shards[-1]))
    if pending and not free:
        wait = "waits for the run of its dataset" if len(pending) == 1 else "wait for runs of their datasets"
        yield dg.SkipReason(f"{format_count(len(pending), 'shard')} {wait} to end")
    if not pending:
        yield dg.SkipReason("every sample of every dataset is scored")


def _count_pending_samples(curation: Curation) -> dict[str, int]:
    """Count the samples that any scorer has still to score, by shard key; shards without any are left out, and so are
    scorers that lack a setting.
    """
    with curation.engine.connect() as connection:
        datasets = list_datasets(connection)
    pending: Counter[tuple[str, int]] = Counter()
    for scorer in curation.scorers.values():
        if find_missing_setting(scorer):
            continue
        counts = count_pending_by_shard(curation.engine, scorer, datasets)
        update_active_scorer_if_complete(curation.engine, scorer, datasets, counts)
        pending.update(counts)
    return {
        key: pending[dataset.name, shard]
        for dataset in datasets
        for shard, key in enumerate(list_shard_keys(dataset))
        if pending[dataset.name, shard]
    }


prune_weekly = dg.ScheduleDefinition(
    name="prune_weekly",
    cron_schedule="30 3 * * 0",
    job=prune_job,
    description="Every Sunday night: delete old runs and ticks from Dagster's storage.",
)
