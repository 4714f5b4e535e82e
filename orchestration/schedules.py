"""When things run by themselves: an hourly look for unscored samples and a weekly clean-up."""

from collections import Counter
from collections.abc import Iterator

import dagster as dg

from assets.curation import Curation
from assets.datasets import shard_keys
from assets.partitions import SHARDS
from assets.scores.pending import activate_if_complete, pending_by_shard
from db.manifest import list_datasets
from orchestration.jobs import prune_job, scoring_job


@dg.schedule(
    cron_schedule="0 * * * *",
    job=scoring_job,
    description="Every hour a run for each shard in which some scorer has something left to score.",
)
def score_missing(
    context: dg.ScheduleEvaluationContext, curation: dg.ResourceParam[Curation]
) -> Iterator[dg.RunRequest | dg.SkipReason]:
    """A run for every shard in which some scorer has something left to score."""
    with curation.engine.connect() as connection:
        datasets = list_datasets(connection)
    pending: Counter[tuple[str, int]] = Counter()
    for scorer in curation.scorers.values():
        counts = pending_by_shard(curation.engine, scorer, datasets)
        activate_if_complete(curation.engine, scorer, datasets, counts)
        pending.update(counts)
    known = set(context.instance.get_dynamic_partitions(str(SHARDS.name)))
    wanted = [
        key
        for dataset in datasets
        for shard, key in enumerate(shard_keys(dataset))
        if key in known and pending[dataset.name, shard]
    ]
    yield from (dg.RunRequest(run_key=key, partition_key=key) for key in wanted)
    if not wanted:
        yield dg.SkipReason("every sample of every dataset is scored")


prune_weekly = dg.ScheduleDefinition(
    name="prune_weekly",
    cron_schedule="30 3 * * 0",
    job=prune_job,
    description="Every Sunday night: delete old runs from Dagster's storage.",
)

SCHEDULES = [score_missing, prune_weekly]
