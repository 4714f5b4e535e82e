"""The assets of facts, one partition per shard."""

from collections.abc import Callable
from typing import Any

import dagster as dg
from sqlalchemy.engine import Engine

from assets.curation import Curation
from assets.datasets import TOGETHER
from assets.facts.describing import describe_texts, measure_videos
from assets.leases import leased
from assets.partitions import SHARDS
from assets.progress import sparsely
from assets.shards import shards_of_run
from assets.sources.base import Tell
from db.manifest.datasets import Dataset

Describe = Callable[[Engine, Dataset, int, Tell], int]
_PLACED: dict[str, Any] = {
    "group_name": "facts",
    "partitions_def": SHARDS,
    "kinds": {"postgres"},
    "backfill_policy": dg.BackfillPolicy.multi_run(TOGETHER),
}


@dg.asset(deps=["sample"], **_PLACED)
def text_fact(context: dg.AssetExecutionContext, curation: dg.ResourceParam[Curation]) -> dg.MaterializeResult:
    """Facts about each distinct text: words, sentences, repetition, stock phrases, digits, names and language."""
    return _described(context, curation, "text_fact", describe_texts)


@dg.asset(deps=["video"], **_PLACED)
def video_fact(context: dg.AssetExecutionContext, curation: dg.ResourceParam[Curation]) -> dg.MaterializeResult:
    """Facts about the pictures of each video: motion, change, sharpness, light, cuts, bars, repeats and sound."""
    return _described(context, curation, "video_fact", measure_videos)


def _described(
    context: dg.AssetExecutionContext, curation: Curation, asset: str, describe: Describe
) -> dg.MaterializeResult:
    """Describe what lacks facts in the shards of the run, each while no other process does."""
    shards = {shard.key: shard for shard in shards_of_run(context, curation.engine)}
    n = sum(
        describe(curation.engine, shards[key].dataset, shards[key].number, tell)
        for keys, tell in leased(curation.engine, asset, shards, context.log.info, sparsely(context.log.info))
        for key in keys
    )
    curation.results.keep_report(asset, n)
    return dg.MaterializeResult(metadata={"described by this run": f"{n:,}"})
