"""The Dagster assets that score samples: one for every metric, all built by the same function."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from assets.datasets.lookup import SHARDS_PER_GROUP
from assets.definitions.curation import Curation, Step
from assets.definitions.lineage import build_score_lineage, list_input_assets
from assets.definitions.partitions import SHARDS
from assets.definitions.results import ShardsFailed
from assets.definitions.score_metadata import build_shard_metadata
from assets.definitions.shards import load_run_shards
from assets.definitions.step_errors import explain_failure
from assets.definitions.steps import StepAbandoned, run_step
from assets.metrics.registry import SCORERS, build_score_asset_name, list_source_classes
from assets.scores.sentences import INTERVAL_NOTE
from assets.sources.base import MissingEvidence
from assets.words.text import format_count, format_name
from db.scores.quality import StatusCount
from db.scores.sample_scores import SIMPLE_SCORES
from db.selection.draws import NOT_DRAWN

# Nobody needs to be warned of samples with these.
_EXPECTED_STATUSES = ("ok", "not_applicable", NOT_DRAWN)


def build_score_asset(metric: str) -> dg.AssetsDefinition:
    """Build the Dagster asset METRIC_score, which has a partition for every shard, for the metric of this name. The
    asset scores the samples of its shards that lack a current score, and stores the scores. If shards failed, it
    raises ShardsFailed at its end; the scores of the other shards are kept.

    A run that was interrupted continues where it stopped, and a run with nothing left to score writes no score.
    """
    asset, (low, high) = build_score_asset_name(metric), SCORERS[metric].value_range
    lineage = build_score_lineage(SCORERS[metric])

    @dg.asset(
        name=asset,
        group_name="scores",
        partitions_def=SHARDS,
        deps=[*list_input_assets(SCORERS[metric].inputs), *(kind.asset for kind in SCORERS[metric].rests_on)],
        backfill_policy=dg.BackfillPolicy.multi_run(SHARDS_PER_GROUP),
        kinds={"postgres", "numpy"},
        description=f"{_format_subject(metric)} A run scores every sample of the shard that has no score or whose "
        f"inputs changed. A score lies between {low:g} and {high:g}. {INTERVAL_NOTE}",
    )
    @explain_failure
    def score(context: dg.AssetExecutionContext, curation: dg.ResourceParam[Curation]) -> dg.MaterializeResult:
        refusals: list[StatusCount] = []
        metadata_by_shard: dict[str, dict[str, Any]] = {}
        shards = {shard.key: shard for shard in load_run_shards(context, curation.engine)}
        failed = curation.results.collect_errors(list_source_classes([metric]))
        left = tuple(shard for key, shard in shards.items() if key not in failed)
        try:
            for key, done in run_step(curation, Step(asset, left, (metric,), context.run.run_id), context.log.info):
                if isinstance(done, MissingEvidence):
                    failed[key] = done
                    continue
                curation.results.add_scores(metric, key, done)
                metadata, counts = build_shard_metadata(curation.engine, shards[key], done)
                metadata_by_shard[key] = {**metadata, "dagster/column_lineage": lineage}
                refusals += [count for count in counts if count.status not in _EXPECTED_STATUSES]
        except StepAbandoned as error:
            failed |= dict.fromkeys(error.shards, error)
        # Nobody asked for the simple scores: they are made with those of the metrics.
        if refusals and metric not in SIMPLE_SCORES:
            context.log.warning(_explain_missing_scores(metric, refusals))
        if failed:
            curation.results.add_errors(asset, failed)
            for key, metadata in metadata_by_shard.items():
                context.log_event(dg.AssetMaterialization(asset, partition=key, metadata=metadata))
            raise ShardsFailed(_format_failures(failed))
        for key, metadata in metadata_by_shard.items():
            context.add_asset_metadata(metadata, partition_key=key)
        return dg.MaterializeResult()

    return score


def _format_subject(metric: str) -> str:
    """Return the first paragraph of the docstring of the metric's scorer, in one line."""
    return " ".join((SCORERS[metric].__doc__ or f"The metric {metric}.").partition("\n\n")[0].split())


def _explain_missing_scores(metric: str, refusals: Sequence[StatusCount]) -> str:
    """Return a sentence with the number of samples without a score, and their most frequent status and reason."""
    reasons: Counter[tuple[str, str | None]] = Counter()
    for refusal in refusals:
        reasons[refusal.status, refusal.reason] += refusal.n
    ((status, reason), n) = reasons.most_common(1)[0]
    return f"{metric} has no score for {format_count(n, 'sample')}: {format_name(status)}, {reason}"


def _format_failures(failed: Mapping[str, RuntimeError]) -> str:
    """Return the message of the first error, with the job that makes missing evidence; if several shards failed, also
    their number and keys.
    """
    first = next(iter(failed.values()))
    remedy = ", or launch scoring_job, which makes both" if isinstance(first, MissingEvidence) else ""
    more = f"; {len(failed)} shards failed: {', '.join(failed)}" if len(failed) > 1 else ""
    return f"{first}{remedy}{more}"


score_assets = [build_score_asset(metric) for metric in SCORERS]
