"""When things run by themselves: an hourly look for unscored samples and a weekly clean-up."""

from collections.abc import Iterator

import dagster as dg

from assets.curation import Curation
from assets.partitions import SHARDS, shard_keys
from assets.scores.run import activate_if_complete, n_pending
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
    asked = False
    with curation.engine.connect() as connection:
        datasets = list_datasets(connection)
    for scorer in curation.scorers.values():
        activate_if_complete(curation.engine, scorer, datasets)
    known = set(context.instance.get_dynamic_partitions(str(SHARDS.name)))
    for dataset in datasets:
        for shard, key in enumerate(shard_keys(dataset)):
            if key in known and any(n_pending(curation.engine, s, dataset, shard) for s in curation.scorers.values()):
                asked = True
                yield dg.RunRequest(run_key=key, partition_key=key)
    if not asked:
        yield dg.SkipReason("every sample of every dataset is scored")


prune_weekly = dg.ScheduleDefinition(
    name="prune_weekly",
    cron_schedule="30 3 * * 0",
    job=prune_job,
    description="Every Sunday night: delete old runs from Dagster's storage.",
)

SCHEDULES = [score_missing, prune_weekly]
