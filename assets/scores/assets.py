"""One asset per metric. One factory builds them all."""

from collections import Counter
from collections.abc import Mapping, Sequence

import dagster as dg

from assets.curation import Curation
from assets.datasets import TOGETHER
from assets.lineage import input_assets
from assets.partitions import SHARDS
from assets.reports.text import spelled
from assets.scores.description import described
from assets.scores.registry import METRICS, SCORERS, asset_name
from assets.scores.said import INTERVALS
from assets.shards import shards_of_run
from assets.sources.base import MissingEvidence
from assets.steps import Step, taken
from db.scores.quality import StatusCount


def build_score_asset(metric: str) -> dg.AssetsDefinition:
    """Build the asset that scores a shard with a metric. It can resume, and rests when nothing is left to score."""
    low, high = SCORERS[metric].value_range

    @dg.asset(
        name=asset_name(metric),
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
        lacking: dict[str, MissingEvidence] = {}
        shards = {shard.key: shard for shard in shards_of_run(context, curation.engine)}
        step = Step(asset_name(metric), tuple(shards.values()), (metric,), context.run.run_id)
        for key, done in taken(curation, step, context.log.info):
            if isinstance(done, MissingEvidence):
                # The others of the run are scored all the same.
                lacking[key] = done
                continue
            metadata, counts = described(curation.engine, shards[key], done)
            context.add_asset_metadata(metadata, partition_key=key)
            refusals += [each for each in counts if each.status not in ("ok", "not_applicable")]
        if refusals:
            context.log.warning(_silence(metric, refusals))
        if lacking:
            raise _joined(lacking)
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


def _joined(lacking: Mapping[str, MissingEvidence]) -> MissingEvidence:
    """The first error, with the names of all shards that lack evidence where there are several."""
    first = next(iter(lacking.values()))
    return MissingEvidence(f"{first}; so in {len(lacking)} shards: {', '.join(lacking)}") if len(lacking) > 1 else first


score_assets = [build_score_asset(metric) for metric in METRICS]
