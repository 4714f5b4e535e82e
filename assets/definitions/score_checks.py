"""The four checks of every score asset: coverage, range, variation and freshness."""

from collections.abc import Iterator

import dagster as dg

from assets.datasets.lookup import RunShard
from assets.definitions.curation import Curation
from assets.definitions.partitions import SHARDS
from assets.definitions.shards import Finding, build_shard_checks, load_run_shards
from assets.metrics.registry import SCORERS, build_score_asset_name
from assets.progress import LineWriter
from assets.scores.pending import find_scorer_id
from assets.scores.sentences import choose_kind_name
from assets.words.text import format_count, format_number, format_portion
from db.manifest.datasets import Dataset
from db.scores.quality import ShardQuality, count_shard_scores, find_first_failure

# Fewer defined scores than this may well be equal by chance.
MIN_SCORES_TO_VARY = 20
# Rounding of float32 vectors may carry a perfect score past 1 by this much.
RANGE_TOLERANCE = 1e-6

_CHECKS = {
    "coverage": "Every sample has a score or a reason why it cannot have one, and none failed.",
    "in_range": "Every defined score lies in the metric's range.",
    "not_constant": "The defined scores are not all the same.",
    "inputs_fresh": "No {inputs} changed after it was scored.",
}

# The checks that only warn.
WARNINGS = ("not_constant",)


def build_score_checks(metric: str) -> dg.AssetChecksDefinition:
    """Build the Dagster checks of a metric's score asset, which one step evaluates for every shard of its run. They are
    coverage (every sample has a score or a reason), in_range, not_constant (the scores differ) and inputs_fresh (no
    score is stale).
    """
    asset = build_score_asset_name(metric)

    def examine(
        context: dg.AssetCheckExecutionContext, curation: Curation
    ) -> Iterator[tuple[RunShard, dict[str, Finding]]]:
        for shard in load_run_shards(context, curation.engine):
            yield shard, examine_scores(curation, metric, shard.dataset, context.log.warning, shard.number)

    return build_shard_checks(
        asset, build_check_specs(metric, dg.AssetKey(asset), SHARDS), WARNINGS, examine, stops=True
    )


def build_check_specs(
    metric: str, asset: dg.AssetKey, partitions: dg.PartitionsDefinition[str] | None = None
) -> list[dg.AssetCheckSpec]:
    """Return the specs of the four checks of `asset`, which has this metric's scores: coverage, in_range, not_constant
    and inputs_fresh. All specs are marked as blocking, although a failed not_constant only warns. partitions: those of
    the asset.
    """
    return [
        dg.AssetCheckSpec(
            name,
            asset=asset,
            description=text.format(inputs=_format_inputs(metric)),
            blocking=True,
            partitions_def=partitions,
        )
        for name, text in _CHECKS.items()
    ]


def examine_scores(
    curation: Curation, metric: str, dataset: Dataset, warn: LineWriter, shard: int | None = None
) -> dict[str, Finding]:
    """Check the stored scores of one shard, or of the whole dataset if `shard` is None, and return the findings by the
    name of the check. warn: takes a line if the scoring of samples failed.
    """
    scorer = curation.scorers[metric]
    with curation.engine.connect() as connection:
        scorer_id = find_scorer_id(connection, scorer)
        quality = count_shard_scores(connection, scorer_id, dataset.dataset_id, shard)
        failure = find_first_failure(connection, scorer_id, dataset.dataset_id, shard)
    if failure:
        failed_samples = format_count(quality.n_failed, "sample")
        warn(f"{failed_samples} failed with {metric}, the first is {failure[0]!r}: {failure[1]}")
    sentences = format_check_sentences(quality, scorer.value_range, _format_inputs(metric))
    return {
        name: Finding(passed, sentences[name][0 if passed else 1])
        for name, passed in evaluate_checks(quality, scorer.value_range).items()
    }


def _format_inputs(metric: str) -> str:
    """Return the names of the metric's inputs as part of a sentence: "text, references or keypoints"."""
    labels = [item.label for item in SCORERS[metric].inputs]
    return " or ".join([", ".join(labels[:-1]), labels[-1]] if len(labels) > 1 else labels)


def format_check_sentences(
    quality: ShardQuality, value_range: tuple[float, float], inputs: str
) -> dict[str, tuple[str, str]]:
    """Return (sentence if the check passes, sentence if it fails) by the name of the check, without a full stop.
    value_range: the lowest and highest score that the metric can give. inputs: the names of the metric's inputs, such
    as "text or references".
    """
    low, high = value_range
    extremes = f"the lowest is {format_number(quality.minimum, 3)}, the highest {format_number(quality.maximum, 3)}"
    all_lie = format_portion(quality.n_ok, quality.n_ok, "score", "lies", "lie")
    stale = _format_sample_count(
        quality,
        quality.n_stale,
        f"was scored before its {inputs} changed",
        f"were scored before their {inputs} changed",
    )
    return {
        "coverage": _format_coverage(quality),
        "in_range": (
            f"{all_lie} between {low:g} and {high:g}: {extremes}" if quality.n_ok else "There is no score",
            f"Scores lie outside {low:g} to {high:g} ({extremes})",
        ),
        "not_constant": (
            "Scores differ"
            if quality.n_ok >= MIN_SCORES_TO_VARY
            else f"Too few scores to check: fewer than {MIN_SCORES_TO_VARY}",
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
    """Return whether the scores pass, by the name of the check: coverage (no sample is unscored or failed),
    in_range, not_constant (scores differ) and inputs_fresh (none is stale). Without scores in_range passes, and with
    fewer than 20 scores not_constant passes. value_range: the lowest and highest score that the metric can give; a
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
