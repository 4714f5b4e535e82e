"""One asset per metric. One factory builds them all."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from assets.curation import Curation
from assets.datasets import TOGETHER
from assets.lineage import input_assets
from assets.partitions import SHARDS
from assets.reports.text import spelled
from assets.results import ShardsFailed
from assets.scores.description import described
from assets.scores.registry import SCORERS, asset_name, source_kinds
from assets.scores.said import INTERVALS
from assets.shards import shards_of_run
from assets.sources.base import MissingEvidence
from assets.steps import GivenUp, Step, taken
from db.scores.present import SIMPLE_SCORES
from db.scores.quality import StatusCount


def build_score_asset(metric: str) -> dg.AssetsDefinition:
    """Build the asset that scores a shard with a metric. It can resume, and rests when nothing is left to score."""
    asset, (low, high) = asset_name(metric), SCORERS[metric].value_range

    @dg.asset(
        name=asset,
        group_name="scores",
        partitions_def=SHARDS,
        deps=[*input_assets(SCORERS[metric].inputs), *(kind.asset for kind in SCORERS[metric].rests_on)],
        backfill_policy=dg.BackfillPolicy.multi_run(TOGETHER),
        kinds={"postgres", "numpy"},
        description=f"{_subject(metric)} A run scores every sample of the shard that lacks a score or whose inputs "
        f"changed. A score lies between {low:g} and {high:g}. {INTERVALS}",
    )
    def score(context: dg.AssetExecutionContext, curation: dg.ResourceParam[Curation]) -> dg.MaterializeResult:
        refusals: list[StatusCount] = []
        told: dict[str, dict[str, Any]] = {}
        shards = {shard.key: shard for shard in shards_of_run(context, curation.engine)}
        failed = curation.results.failed(source_kinds([metric]))
        left = tuple(shard for key, shard in shards.items() if key not in failed)
        try:
            for key, done in taken(curation, Step(asset, left, (metric,), context.run.run_id), context.log.info):
                if isinstance(done, MissingEvidence):
                    failed[key] = done
                    continue
                curation.results.add(metric, key, done)
                told[key], counts = described(curation.engine, shards[key], done)
                refusals += [each for each in counts if each.status not in ("ok", "not_applicable")]
        except GivenUp as error:
            failed |= dict.fromkeys(error.shards, error)
        # Simple scores come along unasked.
        if refusals and metric not in SIMPLE_SCORES:
            context.log.warning(_silence(metric, refusals))
        if failed:
            curation.results.fail(asset, failed)
            for key, metadata in told.items():
                context.log_event(dg.AssetMaterialization(asset, partition=key, metadata=metadata))
            raise ShardsFailed(_joined(failed))
        for key, metadata in told.items():
            context.add_asset_metadata(metadata, partition_key=key)
        return dg.MaterializeResult()

    return score


def _subject(metric: str) -> str:
    """The first sentence that the metric's scorer says of itself."""
    return " ".join((SCORERS[metric].__doc__ or f"The metric {metric}.").partition("\n\n")[0].split())


def _silence(metric: str, refusals: Sequence[StatusCount]) -> str:
    """One sentence for all shards of the run: how many samples have no score, and most of them why."""
    reasons: Counter[tuple[str, str | None]] = Counter()
    for refusal in refusals:
        reasons[refusal.status, refusal.reason] += refusal.n
    ((status, reason), n) = reasons.most_common(1)[0]
    return f"{metric} says nothing of {n} samples: {spelled(status)}, {reason}"


def _joined(failed: Mapping[str, RuntimeError]) -> str:
    """The first reason, with the names of all shards that failed where there are several."""
    first = next(iter(failed.values()))
    return f"{first}; so in {len(failed)} shards: {', '.join(failed)}" if len(failed) > 1 else str(first)


score_assets = [build_score_asset(metric) for metric in SCORERS]
