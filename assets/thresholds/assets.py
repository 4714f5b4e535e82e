"""Thresholds of every metric and simple score on a dataset: the best share of its scores, and what people find good."""

from collections.abc import Sequence

import dagster as dg
from sqlalchemy.engine import Engine

from assets.curation import Curation
from assets.datasets import dataset_of_key
from assets.lineage import of_all_partitions
from assets.partitions import DATASETS
from assets.reports.labels import metric_label, ratings_note
from assets.reports.plots import counted_histogram, markdown_image
from assets.reports.tables import escaped, excerpt, markdown_table
from assets.scores.description import metrics_told
from assets.scores.registry import SCORERS, asset_name
from assets.scores.said import KINDS, WIDTH
from assets.settings import read_settings
from assets.thresholds.ratings import FoundCut, estimate, sentence, store_rating_cuts
from assets.thresholds.settings import QUANTILE, SHARES, RatingSettings, objective
from db.manifest.datasets import Dataset
from db.scores.distribution import Distribution, collect_defined, distribution, shard_cutoffs, video_means
from db.scores.present import known_scores
from db.scores.stored import active_scorer
from db.scores.thresholds import Cutoff, store_cutoffs
from metrics_core.drift import SMALL, Shift, shifts
from metrics_core.selection.places import count_share

ALIKE = "shards_alike"


@dg.asset(
    group_name="thresholds",
    partitions_def=DATASETS,
    deps=[of_all_partitions(asset_name(name)) for name in SCORERS],
    kinds={"postgres"},
    check_specs=[
        dg.AssetCheckSpec(
            ALIKE,
            asset="threshold",
            partitions_def=DATASETS,
            description="No shard's videos score otherwise than those of all other shards, by more than chance and by "
            f"more than a negligible effect (p < 0.01 by Mann-Whitney with Holm's correction, Cliff's delta {SMALL}).",
        )
    ],
)
def threshold(context: dg.AssetExecutionContext, curation: dg.ResourceParam[Curation]) -> dg.MaterializeResult:
    """For every score the lowest value of the best half, quarter, eighth and sixteenth, of the dataset and each shard.

    Captions and question-answer pairs have thresholds of their own, since their scores may lie on different scales.
    A cut that holds for the dataset holds for a shard only where shards are alike: a check tells which are not.
    """
    dataset = dataset_of_key(curation.engine, context.partition_key)
    with curation.engine.connect() as connection:
        metrics = known_scores(connection, dataset)
        told = metrics_told(connection, dataset.dataset_id, metrics)
    found = {metric: _metric(curation.engine, dataset, metric) for metric in metrics}
    shifted = [shift for _, of_metric in found.values() for shift in of_metric]
    check = dg.AssetCheckResult(
        check_name=ALIKE,
        passed=not shifted,
        severity=dg.AssetCheckSeverity.WARN,
        description=_other_than_the_rest(shifted, dataset.n_shards),
    )
    metadata = {name: shown for entries, _ in found.values() for name, shown in entries.items()}
    return dg.MaterializeResult(metadata={**told, **metadata}, check_results=[check])


def _other_than_the_rest(shifted: Sequence[tuple[str, Shift]], n_shards: int) -> str:
    """Say which scores, by their name, differ in a shard from those of the other shards, the farthest first."""
    if not shifted:
        return "No shard's videos score otherwise than the rest."
    farthest = sorted(shifted, key=lambda each: -abs(each[1].delta))
    named = ", ".join(f"{name} in shard {shift.group} (Cliff's delta {shift.delta:.2f})" for name, shift in farthest)
    n = len({shift.group for _, shift in shifted})
    score = "shard scores" if n == 1 else "shards score"
    return f"{n:,} of {n_shards:,} {score} otherwise than the rest: {excerpt(named, WIDTH)}."


def _metric(
    engine: Engine, dataset: Dataset, metric: str
) -> tuple[dict[str, dg.MetadataValue], list[tuple[str, Shift]]]:
    """Store the thresholds of one metric and tell them and the distributions, by kind; with the shards that differ."""
    told: dict[str, dg.MetadataValue] = {}
    cutoffs: list[Cutoff] = []
    shifted: list[tuple[str, Shift]] = []
    with engine.begin() as connection:
        scorer_id = active_scorer(connection, metric)
        kinds = [] if scorer_id is None else collect_defined(connection, dataset, scorer_id)
        label = metric_label(connection, metric)
        for kind in kinds:
            found = distribution(connection, kind, SHARES)
            assert found is not None
            told |= _told(f"{label} of {KINDS[kind]}s", dataset, found)
            cutoffs += [
                Cutoff(None, kind, objective(share), value, found.n, found.n_kept[share])
                for share, value in found.cutoffs.items()
            ]
            of_shards = shard_cutoffs(connection, kind, SHARES)
            cutoffs += [
                Cutoff(row.shard, kind, objective(row.share), row.value, row.n, row.n_kept) for row in of_shards
            ]
            means, shards = video_means(connection, kind) if dataset.n_shards > 1 else ([], [])
            name = metric if len(kinds) == 1 else f"{metric} of {KINDS[kind]}s"
            shifted += [(name, shift) for shift in shifts(means, shards) if shift.is_shifted]
        if kinds:
            assert scorer_id is not None
            store_cutoffs(connection, scorer_id, dataset.dataset_id, QUANTILE, cutoffs)
    none = dg.MetadataValue.text("none: no defined score on this dataset")
    return told or {f"thresholds of {metric}": none}, shifted


def _told(scores: str, dataset: Dataset, found: Distribution) -> dict[str, dg.MetadataValue]:
    """A table of thresholds and a picture of the distribution. scores: their name."""
    rows = [
        [f"{share:.2%}", str(count_share(share, found.n)), str(found.n_kept[share]), f"{value:.4f}"]
        for share, value in found.cutoffs.items()
    ]
    lines = {f"{share:g}": value for share, value in found.cutoffs.items()}
    plot = counted_histogram(found.low, found.high, found.counts, scores, f"{scores} in {dataset.name}", lines)
    picture = markdown_image(plot, f"distribution of {scores} with its thresholds")
    return {
        f"thresholds of {scores}": dg.MetadataValue.md(
            markdown_table(["share", "asked for", "kept", "at least"], rows)
        ),
        f"distribution of {scores}": dg.MetadataValue.md(picture),
    }


@dg.asset(
    group_name="thresholds",
    partitions_def=DATASETS,
    deps=["rating", "keypoint_label", *[of_all_partitions(asset_name(name)) for name in SCORERS]],
    kinds={"postgres"},
)
def rating_threshold(context: dg.AssetExecutionContext, curation: dg.ResourceParam[Curation]) -> dg.MaterializeResult:
    """For every score and aspect the value that best tells samples that people find good from the others.

    Good is a mean rating of at least the median of the dataset, or of what REELSIEVE_GOOD_RATINGS says. A dataset
    without ratings and labels has no such threshold, and a shard with too few none of its own.
    """
    dataset = dataset_of_key(curation.engine, context.partition_key)
    judged = curation.judgements.read(context.run.run_id, curation.engine, dataset)
    stored = store_rating_cuts(curation.engine, dataset, judged, read_settings(RatingSettings).good_ratings)
    found = [each for each in stored if each.shard is None]
    if not found:
        none = dg.MetadataValue.text("no ratings and no labels of scored samples")
        return dg.MaterializeResult(metadata={"ratings": none})
    with curation.engine.connect() as connection:
        labels = {metric: metric_label(connection, metric) for metric in dict.fromkeys(each.metric for each in found)}
        note = ratings_note(connection, dataset.dataset_id)
    shown = {
        metric: dg.MetadataValue.md(_by_ratings([each for each in found if each.metric == metric], label))
        for metric, label in labels.items()
    }
    return dg.MaterializeResult(metadata={**note, **shown, "thresholds of shards": f"{len(stored) - len(found):,}"})


def _by_ratings(found: list[FoundCut], label: str) -> str:
    """A table of one metric's thresholds by ratings, and a sentence on each aspect."""
    header = ["threshold", "at least", "low", "high", "n", "good", "good that stay", "others that stay", "elsewhere"]
    rows = [
        [
            each.objective,
            *("" if value is None else f"{value:.4g}" for value in (cut.at_least, cut.low, cut.high)),
            *(str(cut.n), str(cut.n_good), f"{cut.kept_good:.1%}", f"{cut.kept_others:.1%}", estimate(cut.held_out)),
        ]
        for each in found
        if (cut := each.cut).held_out is not None
    ]
    sentences = "\n".join(f"- {escaped(sentence(each, label))}" for each in found)
    return f"{markdown_table(header, rows)}\n\n{sentences}" if rows else sentences
