"""The four checks of every score asset, over all shards of a run: coverage, range, variation and freshness."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import fields

import dagster as dg

from assets.curation import Curation
from assets.datasets import RunShard
from assets.reports.text import format_count, format_number, format_portion
from assets.results import build_check_errors
from assets.scores.pending import find_scorer_id
from assets.scores.registry import SCORERS, build_score_asset_name
from assets.scores.sentences import choose_kind_name
from assets.shards import build_check_result, load_run_shards
from assets.sources.base import LineWriter
from assets.step_errors import explain_failure
from db.scores.quality import ShardQuality, count_shard_scores, find_first_failure

# Fewer defined scores than this may well be equal by chance.
MIN_SCORES_TO_VARY = 20
# Rounding of float32 vectors may carry a perfect score past 1 by this much.
RANGE_TOLERANCE = 1e-6

_COUNTS = [item.name for item in fields(ShardQuality) if item.name not in ("minimum", "maximum")]
_CHECKS = {
    "coverage": "Every sample has a score or a reason why it cannot have one, and none failed.",
    "in_range": "Every defined score lies in the metric's range.",
    "not_constant": "The defined scores are not all the same.",
    "inputs_fresh": "No {inputs} changed after it was scored.",
}

# The checks that only warn.
_WARNINGS = ("not_constant",)


def build_score_checks(metric: str) -> dg.AssetChecksDefinition:
    """Build the Dagster checks of a metric's score asset, which one step evaluates. They are coverage (every sample has
    a score or a reason), in_range, not_constant (the scores differ) and inputs_fresh (no score is stale).
    """

    @dg.multi_asset_check(
        name=f"{metric}_score_checks", specs=build_check_specs(metric, dg.AssetKey(build_score_asset_name(metric)))
    )
    @explain_failure
    def checks(
        context: dg.AssetCheckExecutionContext, curation: dg.ResourceParam[Curation]
    ) -> Iterator[dg.AssetCheckResult]:
        shards = load_run_shards(context, curation.engine)
        yield from run_score_checks(
            metric, dg.AssetKey(build_score_asset_name(metric)), shards, curation, context.log.warning
        )

    return checks


def build_check_specs(metric: str, asset: dg.AssetKey) -> list[dg.AssetCheckSpec]:
    """Return the specs of the four checks of `asset`, which has this metric's scores: coverage, in_range, not_constant
    and inputs_fresh. All specs are marked as blocking, although a failed not_constant only warns.
    """
    return [
        dg.AssetCheckSpec(name, asset=asset, description=text.format(inputs=_format_inputs(metric)), blocking=True)
        for name, text in _CHECKS.items()
    ]


def run_score_checks(
    metric: str, asset: dg.AssetKey, shards: Sequence[RunShard], curation: Curation, warn: LineWriter
) -> Iterator[dg.AssetCheckResult]:
    """Check the stored scores of shards, and yield one result for every check of the asset, over all these shards. Adds
    an error to `curation.results` for every shard where a check failed that does not only warn. warn: takes one line
    for every shard that has samples whose scoring failed.
    """
    scorer = curation.scorers[metric]
    qualities: dict[str, ShardQuality] = {}
    with curation.engine.connect() as connection:
        scorer_id = find_scorer_id(connection, scorer)
    for shard in shards:
        with curation.engine.connect() as connection:
            quality = count_shard_scores(connection, scorer_id, shard.dataset.dataset_id, shard.number)
            failure = find_first_failure(connection, scorer_id, shard.dataset.dataset_id, shard.number)
        qualities[shard.key] = quality
        if failure:
            failed_samples = format_count(quality.n_failed, "sample")
            warn(f"{failed_samples} failed with {metric}, the first is {failure[0]!r}: {failure[1]}")
    passed_by_shard = {key: evaluate_checks(quality, scorer.value_range) for key, quality in qualities.items()}
    sentences = format_check_sentences(qualities.values(), scorer.value_range, _format_inputs(metric))
    failed = {name: [key for key, passed in passed_by_shard.items() if not passed[name]] for name in _CHECKS}
    blocking = {name: keys for name, keys in failed.items() if name not in _WARNINGS}
    curation.results.add_errors(
        build_score_asset_name(metric), build_check_errors(build_score_asset_name(metric), blocking)
    )
    for name, keys in failed.items():
        good, bad = sentences[name]
        yield build_check_result(asset, name, keys, len(qualities), warns=name in _WARNINGS, good=good, bad=bad)


def _format_inputs(metric: str) -> str:
    """Return the names of the metric's inputs as part of a sentence: "text, references or keypoints"."""
    labels = [item.label for item in SCORERS[metric].inputs]
    return " or ".join([", ".join(labels[:-1]), labels[-1]] if len(labels) > 1 else labels)


def merge_qualities(qualities: Collection[ShardQuality]) -> ShardQuality:
    """Return the sums of the counts of several shards, with the least and the greatest of all their scores; these are
    None without a score. n_distinct is also a sum: a value that occurs in two shards counts twice.
    """
    least = [quality.minimum for quality in qualities if quality.minimum is not None]
    greatest = [quality.maximum for quality in qualities if quality.maximum is not None]
    return ShardQuality(
        **{name: sum(getattr(quality, name) for quality in qualities) for name in _COUNTS},
        minimum=min(least, default=None),
        maximum=max(greatest, default=None),
    )


def format_check_sentences(
    qualities: Collection[ShardQuality], value_range: tuple[float, float], inputs: str
) -> dict[str, tuple[str, str]]:
    """Return (sentence if the check passes, sentence if it fails) by the name of the check, without a full stop.
    qualities: the counts of every shard. value_range: the least and greatest score that the metric can give. inputs:
    the names of the metric's inputs, such as "text or references".
    """
    total, (low, high) = merge_qualities(qualities), value_range
    extremes = f"the least is {format_number(total.minimum, 3)}, the greatest {format_number(total.maximum, 3)}"
    all_lie = format_portion(total.n_ok, total.n_ok, "score", "lies", "lie")
    n_enough = sum(quality.n_ok >= MIN_SCORES_TO_VARY for quality in qualities)
    stale = _format_sample_count(
        total, total.n_stale, f"was scored before its {inputs} changed", f"were scored before their {inputs} changed"
    )
    return {
        "coverage": _format_coverage(total),
        "in_range": (
            f"{all_lie} between {low:g} and {high:g}: {extremes}" if total.n_ok else "There is no score",
            f"Scores lie outside {low:g} to {high:g} ({extremes})",
        ),
        "not_constant": (
            f"Scores differ in every shard that has {MIN_SCORES_TO_VARY} or more "
            f"({n_enough:,} of {len(qualities):,} shards)"
            if n_enough
            else f"Too few scores to check: no shard has {MIN_SCORES_TO_VARY}",
            "All scores are the same: the model may be broken, or all captions equal",
        ),
        "inputs_fresh": (stale, f"{stale} (run `reelsieve score` to score them again)"),
    }


def _format_coverage(quality: ShardQuality) -> tuple[str, str]:
    scored = _format_sample_count(quality, quality.n_ok, "has a score", "have a score")
    n_reasons = quality.n_samples - quality.n_not_applicable - quality.n_ok - quality.n_stale
    reasons = f", and {n_reasons:,} cannot have one for a known reason" if n_reasons else ""
    failed = [_format_sample_count(quality, quality.n_failed, "failed", "failed")] if quality.n_failed else []
    unscored = (
        [_format_sample_count(quality, quality.n_unscored, "lacks a score", "lack a score")]
        if quality.n_unscored
        else []
    )
    return scored + reasons, " and ".join(failed + unscored)


def _format_sample_count(quality: ShardQuality, n: int, has: str, have: str) -> str:
    """Return a sentence such as "3 of 4 captions have a score", of the samples that the metric can apply to."""
    n_samples = quality.n_samples - quality.n_not_applicable
    kinds = ["caption"] * (quality.n_qa < n_samples) + ["qa"] * (quality.n_qa > 0)
    return format_portion(n, n_samples, choose_kind_name(kinds), has, have)


def evaluate_checks(quality: ShardQuality, value_range: tuple[float, float]) -> dict[str, bool]:
    """Return whether a shard's scores pass, by the name of the check: coverage (no sample is unscored or failed),
    in_range, not_constant (scores differ) and inputs_fresh (none is stale). Without scores in_range passes, and with
    fewer than 20 scores not_constant passes. value_range: the least and greatest score that the metric can give; a
    score may exceed it by 1e-6.
    """
    low, high = value_range[0] - RANGE_TOLERANCE, value_range[1] + RANGE_TOLERANCE
    in_range = (
        quality.minimum is None or quality.maximum is None or (quality.minimum >= low and quality.maximum <= high)
    )
    return {
        "coverage": quality.n_unscored == 0 and quality.n_failed == 0,
        "in_range": in_range,
        "not_constant": quality.n_ok < MIN_SCORES_TO_VARY or quality.n_distinct > 1,
        "inputs_fresh": quality.n_stale == 0,
    }


score_checks = [build_score_checks(metric) for metric in SCORERS]
