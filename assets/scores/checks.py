"""Checks of every score asset, over the shards of a run: coverage, range, spread and freshness."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import fields

import dagster as dg

from assets.curation import Curation
from assets.datasets import RunShard
from assets.reports.text import number, quantified
from assets.results import checks_failed
from assets.scores.pending import registered
from assets.scores.registry import SCORERS, asset_name
from assets.scores.said import thing_of
from assets.shards import check_result, shards_of_run
from assets.sources.base import Tell
from db.scores.quality import ShardQuality, first_failure, shard_quality

# Fewer defined scores than this may well be equal by chance.
ENOUGH_TO_VARY = 20
# Rounding of float32 vectors may carry a perfect score past 1 by this much.
RANGE_TOLERANCE = 1e-6

_COUNTS = [item.name for item in fields(ShardQuality) if item.name not in ("minimum", "maximum")]
_CHECKS = {
    "coverage": "Every sample has a score or a reason why it cannot have one, and none failed.",
    "in_range": "Every defined score lies in the metric's range.",
    "not_constant": "The defined scores are not all the same.",
    "inputs_fresh": "No {inputs} changed after it was scored.",
}

# Those that only warn.
_WARNINGS = ("not_constant",)


def build_score_checks(metric: str) -> dg.AssetChecksDefinition:
    """Build the four checks of a metric's asset. One step evaluates them all."""

    @dg.multi_asset_check(name=f"{metric}_score_checks", specs=check_specs(metric, dg.AssetKey(asset_name(metric))))
    def checks(
        context: dg.AssetCheckExecutionContext, curation: dg.ResourceParam[Curation]
    ) -> Iterator[dg.AssetCheckResult]:
        shards = shards_of_run(context, curation.engine)
        yield from check_scores(metric, dg.AssetKey(asset_name(metric)), shards, curation, context.log.warning)

    return checks


def check_specs(metric: str, asset: dg.AssetKey) -> list[dg.AssetCheckSpec]:
    """The four checks of an asset of this metric's scores."""
    return [
        dg.AssetCheckSpec(name, asset=asset, description=text.format(inputs=_inputs(metric)), blocking=True)
        for name, text in _CHECKS.items()
    ]


def check_scores(
    metric: str, asset: dg.AssetKey, shards: Sequence[RunShard], curation: Curation, warn: Tell
) -> Iterator[dg.AssetCheckResult]:
    """Check the scores of shards; yields the results of the asset's four checks. warn: is told of failed samples."""
    scorer = curation.scorers[metric]
    found: dict[str, ShardQuality] = {}
    with curation.engine.connect() as connection:
        scorer_id = registered(connection, scorer)
    for shard in shards:
        with curation.engine.connect() as connection:
            quality = shard_quality(connection, scorer_id, shard.dataset.dataset_id, shard.number)
            failure = first_failure(connection, scorer_id, shard.dataset.dataset_id, shard.number)
        found[shard.key] = quality
        if failure:
            warn(f"{quality.n_failed} samples failed with {metric}, {failure[0]!r} for one: {failure[1]}")
    verdicts = {key: judge(quality, scorer.value_range) for key, quality in found.items()}
    said = sentences(found.values(), scorer.value_range, _inputs(metric))
    failed = {name: [key for key, passed in verdicts.items() if not passed[name]] for name in _CHECKS}
    blocking = {name: keys for name, keys in failed.items() if name not in _WARNINGS}
    curation.results.fail(asset_name(metric), checks_failed(asset_name(metric), blocking))
    for name, keys in failed.items():
        good, bad = said[name]
        yield check_result(asset, name, keys, len(found), warns=name in _WARNINGS, good=good, bad=bad)


def _inputs(metric: str) -> str:
    """The names of what a score is made of."""
    labels = [item.label for item in SCORERS[metric].inputs]
    return " or ".join([", ".join(labels[:-1]), labels[-1]] if len(labels) > 1 else labels)


def merged(qualities: Collection[ShardQuality]) -> ShardQuality:
    """Return the counts of several shards added up, and the least and the greatest score of all."""
    least = [quality.minimum for quality in qualities if quality.minimum is not None]
    greatest = [quality.maximum for quality in qualities if quality.maximum is not None]
    return ShardQuality(
        **{name: sum(getattr(quality, name) for quality in qualities) for name in _COUNTS},
        minimum=min(least, default=None),
        maximum=max(greatest, default=None),
    )


def sentences(
    qualities: Collection[ShardQuality], value_range: tuple[float, float], inputs: str
) -> dict[str, tuple[str, str]]:
    """Say for each check what holds where it passes, and what does not where it fails; a full stop is to follow.

    inputs: the names of what a score is made of.
    """
    found, (low, high) = merged(qualities), value_range
    extremes = f"the least is {number(found.minimum, 3)}, the greatest {number(found.maximum, 3)}"
    all_lie = quantified(found.n_ok, found.n_ok, "score", "lies", "lie")
    n_enough = sum(quality.n_ok >= ENOUGH_TO_VARY for quality in qualities)
    stale = _samples(
        found, found.n_stale, f"was scored before its {inputs} changed", f"were scored before their {inputs} changed"
    )
    return {
        "coverage": _covered(found),
        "in_range": (
            f"{all_lie} between {low:g} and {high:g}: {extremes}" if found.n_ok else "There is no score",
            f"Scores lie outside {low:g} to {high:g} ({extremes})",
        ),
        "not_constant": (
            f"Scores differ in every shard that has {ENOUGH_TO_VARY} or more ({n_enough:,} of {len(qualities):,})"
            if n_enough
            else f"No shard has the {ENOUGH_TO_VARY} scores that it takes to tell",
            "All scores are the same, as those of a broken model or of equal captions",
        ),
        "inputs_fresh": (stale, f"{stale} (reelsieve score scores them again)"),
    }


def _covered(found: ShardQuality) -> tuple[str, str]:
    scored = _samples(found, found.n_ok, "has a score", "have a score")
    n_reasons = found.n_samples - found.n_not_applicable - found.n_ok - found.n_stale
    reasons = f", and a reason explains why {n_reasons:,} cannot have one" if n_reasons else ""
    failed = [_samples(found, found.n_failed, "failed", "failed")] if found.n_failed else []
    unscored = [_samples(found, found.n_unscored, "lacks a score", "lack a score")] if found.n_unscored else []
    return scored + reasons, " and ".join(failed + unscored)


def _samples(found: ShardQuality, n: int, has: str, have: str) -> str:
    """Say of how many of the samples that the metric concerns something holds."""
    n_samples = found.n_samples - found.n_not_applicable
    kinds = ["caption"] * (found.n_qa < n_samples) + ["qa"] * (found.n_qa > 0)
    return quantified(n, n_samples, thing_of(kinds), has, have)


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


score_checks = [build_score_checks(metric) for metric in SCORERS]
