"""Checks of every score asset, per shard: coverage, range, spread and freshness."""

from collections.abc import Iterator

import dagster as dg

from assets.curation import Curation
from assets.datasets import shard_of_key
from assets.partitions import SHARDS
from assets.scores.pending import registered
from assets.scores.registry import METRICS, SCORERS, asset_name
from db.quality import ShardQuality, first_failure, shard_quality

# Fewer defined scores than this may well be equal by chance.
ENOUGH_TO_VARY = 20
# Rounding of float32 vectors may carry a perfect score past 1 by this much.
RANGE_TOLERANCE = 1e-6

_CHECKS = {
    "coverage": "Every sample has a score or a reason why it cannot have one, and none failed.",
    "in_range": "Every defined score lies in the metric's range.",
    "not_constant": "The defined scores are not all the same.",
    "inputs_fresh": "No {inputs} changed after it was scored.",
}


def build_score_checks(metric: str) -> dg.AssetChecksDefinition:
    """Build the four checks of a metric's asset. One step evaluates them all."""
    inputs = [item.label for item in SCORERS[metric].inputs]
    named = " or ".join([", ".join(inputs[:-1]), inputs[-1]] if len(inputs) > 1 else inputs)
    specs = [
        dg.AssetCheckSpec(
            name,
            asset=asset_name(metric),
            description=text.format(inputs=named),
            blocking=True,
            partitions_def=SHARDS,
        )
        for name, text in _CHECKS.items()
    ]

    @dg.multi_asset_check(name=f"{metric}_score_checks", specs=specs)
    def checks(
        context: dg.AssetCheckExecutionContext, curation: dg.ResourceParam[Curation]
    ) -> Iterator[dg.AssetCheckResult]:
        dataset, shard = shard_of_key(curation.engine, context.partition_key)
        scorer = curation.scorers[metric]
        with curation.engine.connect() as connection:
            scorer_id = registered(connection, scorer)
            quality = shard_quality(connection, scorer_id, dataset.dataset_id, shard)
            failure = first_failure(connection, scorer_id, dataset.dataset_id, shard)
        if failure:
            context.log.warning(
                f"{quality.n_failed} samples failed with {metric}, {failure[0]!r} for one: {failure[1]}"
            )
        verdicts = judge(quality, scorer.value_range)
        for name in _CHECKS:
            severity = dg.AssetCheckSeverity.WARN if name == "not_constant" else dg.AssetCheckSeverity.ERROR
            yield dg.AssetCheckResult(
                asset_key=asset_name(metric),
                check_name=name,
                passed=verdicts[name],
                severity=severity,
                metadata=quality.as_dict(),
            )

    return checks


def judge(quality: ShardQuality, value_range: tuple[float, float]) -> dict[str, bool]:
    """Decide which checks pass, by the name of the check."""
    low, high = value_range[0] - RANGE_TOLERANCE, value_range[1] + RANGE_TOLERANCE
    in_range = (
        quality.minimum is None or quality.maximum is None or (quality.minimum >= low and quality.maximum <= high)
    )
    return {
        "coverage": quality.n_unscored == 0 and quality.n_failed == 0,
        "in_range": in_range,
        "not_constant": quality.n_ok < ENOUGH_TO_VARY or quality.n_distinct > 1,
        "inputs_fresh": quality.n_stale == 0,
    }


score_checks = [build_score_checks(metric) for metric in METRICS]
