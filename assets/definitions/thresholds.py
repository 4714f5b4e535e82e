"""Dagster assets of thresholds of every metric and simple score: `threshold` by shares, `rating_threshold` by
ratings.
"""

from collections.abc import Mapping, Sequence

import dagster as dg
import numpy as np
from sqlalchemy.engine import Engine

from assets.agreement.scales import RatingSettings
from assets.datasets.lookup import require_dataset
from assets.definitions.curation import Curation
from assets.definitions.lineage import depend_on_all_partitions
from assets.definitions.partitions import DATASETS
from assets.definitions.score_metadata import load_mean_metadata
from assets.definitions.step_errors import explain_failure
from assets.home.settings import read_settings
from assets.metrics.registry import SCORERS, build_score_asset_name
from assets.reports.figures import format_markdown_image, plot_histogram
from assets.scores.sentences import KIND_NAMES, REASON_WIDTH
from assets.thresholds.ratings import explain_rating_threshold, format_estimate, store_rating_thresholds
from assets.words.labels import load_metric_label, load_ratings_note
from assets.words.tables import escape_markdown, format_markdown_table, shorten_text
from assets.words.text import format_count
from db.manifest.datasets import Dataset
from db.manifest.rating_scales import load_turned_aspects
from db.schema import score_threshold
from db.scores.sample_scores import list_dataset_scores, load_active_scorers
from db.scores.score_arrays import ScoreArrays, load_score_arrays
from db.scores.thresholds import METHOD_QUANTILE, store_thresholds
from metrics_core.arrays import FloatArray
from metrics_core.calibration import Threshold, compute_share_thresholds
from metrics_core.calibration.search import KEPT_SHARES
from metrics_core.drift import LEAST_DELTA, GroupShift, measure_shifts
from metrics_core.selection.distribution import compute_distribution, compute_group_means
from metrics_core.selection.strata import count_in_share

ALIKE_CHECK = "shards_alike"
_COLUMNS = ("shard", "objective", "at_least", "n", "n_kept")


@dg.asset(
    group_name="thresholds",
    partitions_def=DATASETS,
    deps=[depend_on_all_partitions(build_score_asset_name(name)) for name in SCORERS],
    kinds={"postgres"},
    check_specs=[
        dg.AssetCheckSpec(
            ALIKE_CHECK,
            asset="threshold",
            partitions_def=DATASETS,
            description="The scores of every shard's videos are distributed as those of all others. The check fails "
            "where a shard differs by more than chance and by more than a negligible effect (p < 0.01 by Mann-Whitney "
            f"with Holm's correction, Cliff's delta {LEAST_DELTA}).",
        )
    ],
)
@explain_failure
def threshold(context: dg.AssetExecutionContext, curation: dg.ResourceParam[Curation]) -> dg.MaterializeResult:
    """For every score the lowest value of the best half, quarter, eighth and sixteenth, of the dataset and of every
    shard. Replaces the earlier thresholds by share of the dataset in table `score_threshold`.

    Captions and question-answer pairs have thresholds of their own, since their scores may have different scales. A
    threshold of the dataset is valid for a shard only where shards are similar: a check names those that are not.
    """
    dataset = require_dataset(curation.engine, context.partition_key)
    with curation.engine.connect() as connection:
        metrics = list_dataset_scores(connection, dataset)
        means = load_mean_metadata(connection, dataset.dataset_id, metrics)
        scorers = {name: one.scorer_id for name, one in load_active_scorers(connection, dataset).items()}
        scores = load_score_arrays(connection, dataset, {name: scorers[name] for name in metrics if name in scorers})
    results = {
        metric: _store_metric_thresholds(curation.engine, dataset, metric, scorers.get(metric), scores)
        for metric in metrics
    }
    shifted = [shift for _, of_metric in results.values() for shift in of_metric]
    check = dg.AssetCheckResult(
        check_name=ALIKE_CHECK,
        passed=not shifted,
        severity=dg.AssetCheckSeverity.WARN,
        description=_explain_shifted_shards(shifted, dataset.n_shards),
    )
    metadata = {name: value for entries, _ in results.values() for name, value in entries.items()}
    return dg.MaterializeResult(metadata={**means, **metadata}, check_results=[check])


def _explain_shifted_shards(shifted: Sequence[tuple[str, GroupShift]], n_shards: int) -> str:
    """Return a sentence on the scores that differ between a shard and all others, the farthest first."""
    if not shifted:
        return "In every shard, scores are distributed as in the others."
    farthest = sorted(shifted, key=lambda item: -abs(item[1].delta))
    named = ", ".join(f"{name} in shard {shift.group} (Cliff's delta {shift.delta:.2f})" for name, shift in farthest)
    n = len({shift.group for _, shift in shifted})
    differ = "differs" if n == 1 else "differ"
    shards = format_count(n_shards, "shard")
    return f"{n:,} of {shards} {differ} from the rest in scores: {shorten_text(named, REASON_WIDTH)}."


def _store_metric_thresholds(
    engine: Engine, dataset: Dataset, metric: str, scorer_id: int | None, scores: Mapping[str, ScoreArrays]
) -> tuple[dict[str, dg.MetadataValue], list[tuple[str, GroupShift]]]:
    """Store the thresholds of one metric, and return them as metadata by kind of samples, with the shards that
    differ. scorer_id: of the metric's active scorer, None without one. scores: by kind of samples.
    """
    metadata: dict[str, dg.MetadataValue] = {}
    rows: list[dict[str, object]] = []
    shifted: list[tuple[str, GroupShift]] = []
    with engine.begin() as connection:
        label = load_metric_label(connection, metric)
        has_value = {
            kind: np.isfinite(arrays.values[metric]) for kind, arrays in scores.items() if scorer_id is not None
        }
        scored = {kind: known for kind, known in has_value.items() if known.any()}
        for kind, known in scored.items():
            arrays = scores[kind]
            values, shards = arrays.values[metric][known], arrays.shards[known]
            of_dataset = compute_share_thresholds(values)
            metadata |= _format_distribution(f"{label} of {KIND_NAMES[kind]}s", dataset, values, of_dataset)
            rows += [
                {"kind": kind, **{name: getattr(threshold, name) for name in _COLUMNS}}
                for threshold in (*of_dataset, *compute_share_thresholds(values, shards))
            ]
            if dataset.n_shards > 1:
                means, positions = compute_group_means(values, arrays.video_ids[known])
                name = metric if len(scored) == 1 else f"{metric} of {KIND_NAMES[kind]}s"
                shifted += [(name, shift) for shift in measure_shifts(means, shards[positions]) if shift.is_shifted]
        if scorer_id is not None and rows:
            store_thresholds(connection, score_threshold, scorer_id, dataset.dataset_id, METHOD_QUANTILE, rows)
    none = dg.MetadataValue.text("none: no score with a value on this dataset")
    return metadata or {f"thresholds of {metric}": none}, shifted


def _format_distribution(
    scores: str, dataset: Dataset, values: FloatArray, thresholds: Sequence[Threshold]
) -> dict[str, dg.MetadataValue]:
    """Return a table of thresholds by share and a plot of the distribution of values as metadata. scores: their
    name.
    """
    distribution = compute_distribution(values)
    by_share = list(zip(KEPT_SHARES, thresholds, strict=True))
    rows = [
        [f"{share:.2%}", str(count_in_share(share, one.n)), str(one.n_kept), f"{one.at_least:.4f}"]
        for share, one in by_share
    ]
    lines = {f"{share:g}": one.at_least for share, one in by_share if one.at_least is not None}
    svg = plot_histogram(
        distribution.low, distribution.high, distribution.counts, scores, f"{scores} in {dataset.name}", lines
    )
    picture = format_markdown_image(svg, f"distribution of {scores} with its thresholds")
    return {
        f"thresholds of {scores}": dg.MetadataValue.md(
            format_markdown_table(["share", "asked for", "kept", "at least"], rows)
        ),
        f"distribution of {scores}": dg.MetadataValue.md(picture),
    }


@dg.asset(
    group_name="thresholds",
    partitions_def=DATASETS,
    deps=["rating", "keypoint_label", *[depend_on_all_partitions(build_score_asset_name(name)) for name in SCORERS]],
    kinds={"postgres"},
)
@explain_failure
def rating_threshold(context: dg.AssetExecutionContext, curation: dg.ResourceParam[Curation]) -> dg.MaterializeResult:
    """For every score and aspect the value that best separates samples that people rate as good from the others.
    Replaces the earlier thresholds by ratings of the dataset in table `score_threshold`. Good is a mean rating of at
    least the median of the dataset, or of the value in REELSIEVE_GOOD_RATINGS.

    A dataset without ratings and labels has no such threshold, and a shard with too few has none of its own.
    """
    dataset = require_dataset(curation.engine, context.partition_key)
    judged = curation.judgements.load(context.run.run_id, curation.engine, dataset)
    stored = store_rating_thresholds(curation.engine, dataset, judged, read_settings(RatingSettings).good_ratings)
    dataset_thresholds = [threshold for threshold in stored if threshold.shard is None]
    if not dataset_thresholds:
        none = dg.MetadataValue.text("none: no scored sample has a rating or a label")
        return dg.MaterializeResult(metadata={"ratings": none})
    with curation.engine.connect() as connection:
        metrics = dict.fromkeys(threshold.metric for threshold in dataset_thresholds)
        labels = {metric: load_metric_label(connection, metric) for metric in metrics}
        note = load_ratings_note(connection, dataset.dataset_id)
        turned = load_turned_aspects(connection, dataset.dataset_id)
    metadata = {
        metric: dg.MetadataValue.md(
            _format_rating_thresholds(
                [threshold for threshold in dataset_thresholds if threshold.metric == metric], label, turned
            )
        )
        for metric, label in labels.items()
    }
    n_of_shards = len(stored) - len(dataset_thresholds)
    return dg.MaterializeResult(metadata={**note, **metadata, "thresholds of shards": f"{n_of_shards:,}"})


def _format_rating_thresholds(thresholds: list[Threshold], label: str, turned: Mapping[str, float]) -> str:
    """Return a markdown table of one metric's thresholds by ratings, and a sentence on every aspect."""
    header = [
        *("threshold", "at least", "low", "high", "n", "good", "good that stay", "others that stay"),
        "difference on held-out videos",
    ]
    rows = [
        [
            one.objective,
            *("" if value is None else f"{value:.4g}" for value in (one.at_least, one.low, one.high)),
            *(str(one.n), str(one.n_good), f"{one.kept_good:.1%}", f"{one.kept_others:.1%}"),
            format_estimate(one.held_out),
        ]
        for one in thresholds
        if one.held_out is not None
    ]
    sentences = "\n".join(
        f"- {escape_markdown(explain_rating_threshold(one, label, turned=turned))}" for one in thresholds
    )
    return f"{format_markdown_table(header, rows)}\n\n{sentences}" if rows else sentences
