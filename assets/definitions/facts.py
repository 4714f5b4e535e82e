"""The Dagster assets that measure facts about texts and videos, with a partition for every shard."""

from collections.abc import Callable
from functools import partial
from typing import Any

import dagster as dg
from sqlalchemy.engine import Engine

from assets.datasets.leases import lease_partitions
from assets.datasets.lookup import SHARDS_PER_GROUP
from assets.definitions.curation import Curation
from assets.definitions.partitions import SHARDS
from assets.definitions.shards import load_run_shards
from assets.definitions.step_errors import explain_failure
from assets.progress import LineWriter, throttle_lines
from assets.sources.facts import measure_texts, measure_videos
from db.manifest.datasets import Dataset
from metrics_core.facts.models import find_fact_models

MeasureShard = Callable[[Engine, Dataset, int, LineWriter], int]
_ASSET_OPTIONS: dict[str, Any] = {
    "group_name": "facts",
    "partitions_def": SHARDS,
    "kinds": {"postgres"},
    "backfill_policy": dg.BackfillPolicy.multi_run(SHARDS_PER_GROUP),
}


@dg.asset(deps=["sample"], **_ASSET_OPTIONS)
@explain_failure
def text_fact(context: dg.AssetExecutionContext, curation: dg.ResourceParam[Curation]) -> dg.MaterializeResult:
    """Facts about each distinct text: words, sentences, repetition, stock phrases, digits, names and language. A run
    measures and stores them for the texts of its shards that have none by the present rules.
    """
    return _measure_shards(context, curation, "text_fact", measure_texts)


@dg.asset(deps=["video"], **_ASSET_OPTIONS)
@explain_failure
def video_fact(context: dg.AssetExecutionContext, curation: dg.ResourceParam[Curation]) -> dg.MaterializeResult:
    """Facts about the frames of each video: motion, change, sharpness, light, cuts, bars, repeats and sound, and with
    the extra `facts`, text on screen and speech. A run measures and stores them for the videos of its shards whose file
    has none by the present rules and models.
    """
    return _measure_shards(context, curation, "video_fact", partial(measure_videos, models=find_fact_models()))


def _measure_shards(
    context: dg.AssetExecutionContext, curation: Curation, asset: str, measure: MeasureShard
) -> dg.MaterializeResult:
    """Measure the facts that are missing in the shards of the run, every shard while no other process works on it."""
    shards = {shard.key: shard for shard in load_run_shards(context, curation.engine)}
    n = sum(
        measure(curation.engine, shards[key].dataset, shards[key].number, tell)
        for keys, tell in lease_partitions(
            curation.engine, asset, shards, context.log.info, throttle_lines(context.log.info)
        )
        for key in keys
    )
    curation.results.keep_report(asset, n)
    return dg.MaterializeResult(metadata={"described by this run": f"{n:,}"})
