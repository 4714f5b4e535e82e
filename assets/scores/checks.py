"""Checks of every score asset, over the shards of a run: coverage, range, spread and freshness."""

from collections.abc import Collection, Iterator

import dagster as dg

from assets.curation import Curation
from assets.scores.pending import registered
from assets.scores.registry import METRICS, SCORERS, asset_name
from assets.shards import check_result, shards_of_run
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
        )
        for name, text in _CHECKS.items()
    ]

    @dg.multi_asset_check(name=f"{metric}_score_checks", specs=specs)
    def checks(
        context: dg.AssetCheckExecutionContext, curation: dg.ResourceParam[Curation]
    ) -> Iterator[dg.AssetCheckResult]:
        scorer = curation.scorers[metric]
        found: dict[str, ShardQuality] = {}
        with curation.engine.connect() as connection:
            scorer_id = registered(connection, scorer)
        for shard in shards_of_run(context, curation.engine):
            with curation.engine.connect() as connection:
                quality = shard_quality(connection, scorer_id, shard.dataset.dataset_id, shard.number)
                failure = first_failure(connection, scorer_id, shard.dataset.dataset_id, shard.number)
            found[shard.key] = quality
            if failure:
                context.log.warning(
                    f"{quality.n_failed} samples failed with {metric}, {failure[0]!r} for one: {failure[1]}"
                )
        verdicts = {key: judge(quality, scorer.value_range) for key, quality in found.items()}
        for name in _CHECKS:
            failed = [key for key, passed in verdicts.items() if not passed[name]]
            warns = name == "not_constant"
            metadata = merged(found.values())
            yield check_result(asset_name(metric), name, failed, len(found), warns=warns, metadata=metadata)

    return checks


def merged(qualities: Collection[ShardQuality]) -> dict[str, int | float | None]:
    """Return the counts of several shards added up, and the least and the greatest score of all."""
    counts = ("n_samples", "n_unscored", "n_failed", "n_ok", "n_stale")
    least = [quality.minimum for quality in qualities if quality.minimum is not None]
    greatest = [quality.maximum for quality in qualities if quality.maximum is not None]
    return {
        **{name: sum(getattr(quality, name) for quality in qualities) for name in counts},
        "minimum": min(least, default=None),
        "maximum": max(greatest, default=None),
    }


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
