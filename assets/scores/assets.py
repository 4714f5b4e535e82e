"""One asset per metric. One factory builds them all."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import dagster as dg

from assets.curation import Curation
from assets.leases import leased
from assets.lineage import input_assets
from assets.partitions import SHARDS
from assets.progress import sparsely
from assets.scores.description import described
from assets.scores.registry import METRICS, SCORERS, asset_name
from assets.scores.run import score_shard
from assets.shards import TOGETHER, shards_of_run
from assets.sources.base import MissingEvidence


def build_score_asset(metric: str) -> dg.AssetsDefinition:
    """Build the asset that scores a shard with a metric. It can resume, and rests when nothing is left to score."""

    @dg.asset(
        name=asset_name(metric),
        group_name="scores",
        partitions_def=SHARDS,
        deps=[*input_assets(SCORERS[metric].inputs), *(kind.asset for kind in SCORERS[metric].rests_on)],
        backfill_policy=dg.BackfillPolicy.multi_run(TOGETHER),
        kinds={"postgres", "numpy"},
        description=f"The metric {metric} for every sample of the shard that lacks it or whose inputs changed.",
    )
    def score(context: dg.AssetExecutionContext, curation: dg.ResourceParam[Curation]) -> dg.MaterializeResult:
        tell = sparsely(context.log.info)
        refusals: list[Any] = []
        lacking: dict[str, MissingEvidence] = {}
        shards = {shard.key: shard for shard in shards_of_run(context, curation.engine)}
        for key, told in leased(curation.engine, asset_name(metric), shards, tell):
            shard = shards[key]
            try:
                tell_of = partial(_progress, told, metric, key)
                report = score_shard(
                    curation.engine,
                    curation.scorers[metric],
                    shard.dataset,
                    shard.number,
                    run_id=context.run.run_id,
                    progress=tell_of,
                )
            except MissingEvidence as error:
                # An ingest changed the shard meanwhile. The others of the run are scored all the same.
                lacking[shard.key] = error
                continue
            metadata, refusal = described(curation.engine, metric, shard, report)
            context.add_asset_metadata(metadata, partition_key=shard.key)
            refusals += [refusal] if refusal else []
        if refusals:
            context.log.warning(_silence(metric, refusals))
        if lacking:
            raise _joined(lacking)
        return dg.MaterializeResult()

    return score


def _progress(tell: Callable[[str], None], metric: str, shard: str, done: int, total: int) -> None:
    tell(f"{done} of {total} samples of {shard} scored with {metric}")


def _silence(metric: str, refusals: Sequence[Any]) -> str:
    """One sentence for all shards of the run: how many samples have no score, and most of them why."""
    reasons: Counter[tuple[str, str]] = Counter()
    for refusal in refusals:
        reasons[refusal.status, refusal.error] += refusal.n
    ((status, error), n) = reasons.most_common(1)[0]
    return f"{metric} says nothing of {n} samples: {status}, {error}"


def _joined(lacking: Mapping[str, MissingEvidence]) -> MissingEvidence:
    """The first error, with the names of all shards that lack evidence where there are several."""
    first = next(iter(lacking.values()))
    return MissingEvidence(f"{first}; so in {len(lacking)} shards: {', '.join(lacking)}") if len(lacking) > 1 else first


score_assets = [build_score_asset(metric) for metric in METRICS]
