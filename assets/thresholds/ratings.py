"""Thresholds of scores by people's ratings: computed by metric and aspect, stored, loaded, and explained in
sentences.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from sqlalchemy.engine import Connection, Engine

from assets.agreement.judged import SEED, STORED_COLUMNS, JudgedSamples, choose_n_resamples
from db.manifest.datasets import Dataset
from db.reports.summary import has_synthetic_ratings
from db.scores.thresholds import ScoreThreshold, list_score_thresholds, store_score_thresholds
from metrics_core.agreement.groupings import DECIMALS
from metrics_core.agreement.raters import compute_mean_ratings
from metrics_core.arrays import FloatArray
from metrics_core.calibration import (
    BaselineYouden,
    RatedThreshold,
    YoudenEstimate,
    calibrate_rated_threshold,
    find_rated_threshold,
)

METHOD_RATINGS = "ratings"
"""The method of these thresholds in table `score_threshold`."""
MAY_BE_CHANCE = ", which may be chance"
NONE_TURNED: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True)
class RatingThreshold:
    """The threshold of a metric or simple score that best separates samples rated as good in one aspect from the
    others, or the reason why there is none, both in `threshold`. is_least_set: whether the least rating of a good
    sample is set by REELSIEVE_GOOD_RATINGS, or the default. shard: None for the whole dataset.
    """

    metric: str
    aspect: str
    is_least_set: bool
    threshold: RatedThreshold
    shard: int | None = None

    @property
    def objective(self) -> str:
        """The name by which recipes refer to the threshold, `good` with the aspect: `good consistency`."""
        return f"good {self.aspect}"


def store_rating_thresholds(
    engine: Engine, dataset: Dataset, judged: JudgedSamples, least: Mapping[str, float]
) -> list[RatingThreshold]:
    """Compute the thresholds by ratings of a dataset and its shards, and store those that exist in place of the old
    ones. Return all, also those of the dataset that could not be computed, with the reason. least: the least mean
    rating of a good sample, by aspect; other aspects have the default of `find_rated_threshold`.
    """
    dataset_thresholds = [
        threshold
        for scores in (judged.metric_values, judged.simple_score_values)
        for threshold in compute_rating_thresholds(judged, scores, least)
    ]
    thresholds = [*dataset_thresholds, *compute_shard_thresholds(judged, dataset_thresholds)]
    with engine.begin() as connection:
        is_synthetic = has_synthetic_ratings(connection, dataset.dataset_id)
        for metric, scorer_id in judged.scorer_ids.items():
            # A simple score is also here under its name in table `agreement`; its thresholds have its column's name.
            if metric in STORED_COLUMNS:
                continue
            rows = [
                _build_score_threshold(threshold, judged.kind, is_synthetic=is_synthetic)
                for threshold in thresholds
                if threshold.metric == metric and threshold.threshold.status == "ok"
            ]
            store_score_thresholds(connection, scorer_id, dataset.dataset_id, METHOD_RATINGS, rows)
    return thresholds


def compute_rating_thresholds(
    judged: JudgedSamples, scores: Mapping[str, FloatArray], least: Mapping[str, float]
) -> Iterator[RatingThreshold]:
    """Yield the threshold of every score by every aspect of the judged samples, with its performance on held-out videos
    and that of simple scores. Where there is none, it has the reason. scores: values (n,) by name, in the order of the
    samples. least: the least mean rating of a good sample by aspect; other aspects have a default.
    """
    for metric, values in scores.items():
        # A simple score is no baseline for itself.
        baselines = {
            name: baseline for name, baseline in judged.computed_baselines.items() if STORED_COLUMNS.get(name) != metric
        }
        for aspect, ratings in judged.ratings.items():
            threshold = calibrate_rated_threshold(
                values,
                compute_mean_ratings(ratings),
                judged.videos,
                baselines,
                least_rating=_round_least(least, aspect),
                n_resamples=choose_n_resamples(len(judged.videos)),
                seed=SEED,
            )
            yield RatingThreshold(metric, aspect, aspect in least, threshold)


def load_rating_thresholds(
    connection: Connection, dataset: Dataset, judged: JudgedSamples, least: Mapping[str, float]
) -> Iterator[RatingThreshold]:
    """Yield the stored threshold of every metric by every aspect of the judged samples, or the reason why there is
    none. least: the least mean rating of a good sample by aspect; only used to find that reason. A threshold that
    exists but is not stored, since the judgements are newer, is left out.
    """
    stored = {
        (metric, row.objective): row
        for metric, row in list_score_thresholds(connection, dataset.dataset_id, METHOD_RATINGS)
    }
    for metric, values in judged.metric_values.items():
        for aspect, ratings in judged.ratings.items():
            computed = RatingThreshold(
                metric,
                aspect,
                aspect in least,
                find_rated_threshold(
                    values, compute_mean_ratings(ratings), judged.videos, least_rating=_round_least(least, aspect)
                ),
            )
            if row := stored.get((metric, computed.objective)):
                yield _parse_threshold(computed, row, judged.baselines)
            elif computed.threshold.status != "ok":
                yield computed


def _round_least(least: Mapping[str, float], aspect: str) -> float | None:
    """Return the least rating, rounded like the means: 13/3 is reached by ratings of 4, 4 and 5. None for the
    default.
    """
    return round(least[aspect], DECIMALS) if aspect in least else None


def compute_shard_thresholds(
    judged: JudgedSamples, dataset_thresholds: Sequence[RatingThreshold]
) -> Iterator[RatingThreshold]:
    """Yield for every shard the thresholds that exist within it, without a comparison with simple scores.
    dataset_thresholds: those of the whole dataset, which give the metrics, aspects and least ratings of good samples.
    Nothing where all judged samples belong to one shard.
    """
    videos = np.array(judged.videos)
    shards = np.unique(judged.shards).tolist()
    scores = judged.metric_values | judged.simple_score_values
    for dataset_threshold in dataset_thresholds if len(shards) > 1 else ():
        means = compute_mean_ratings(judged.ratings[dataset_threshold.aspect])
        for shard in shards:
            rows = judged.shards == shard
            shard_threshold = calibrate_rated_threshold(
                scores[dataset_threshold.metric][rows],
                means[rows],
                videos[rows].tolist(),
                least_rating=dataset_threshold.threshold.least_rating,
                n_resamples=choose_n_resamples(int(rows.sum())),
                seed=SEED,
            )
            if shard_threshold.status == "ok":
                yield replace(dataset_threshold, threshold=shard_threshold, shard=shard)


def explain_rating_threshold(
    rating_threshold: RatingThreshold, label: str, *, knows: bool = True, turned: Mapping[str, float] = NONE_TURNED
) -> str:
    """Return a sentence on a threshold: the shares of good and of other samples that it keeps, and their difference on
    held-out videos, compared with simple scores. Without a threshold, the sentence gives the reason. label: the
    metric's name for people. knows: whether the metric is known to order samples as people do; otherwise the sentence
    adds that the threshold may be chance. turned: as from `load_turned_aspects`, since people gave other numbers then.
    """
    threshold, name = rating_threshold.threshold, rating_threshold.objective
    at_least, kept_good, kept_others = threshold.at_least, threshold.kept_good, threshold.kept_others
    if at_least is None or threshold.held_out is None or kept_good is None or kept_others is None:
        return f"{name}: no threshold, since {threshold.reason}."
    low, high = threshold.low, threshold.high
    interval = "" if low is None or high is None else f" ({low:.4g} to {high:.4g})"
    default = "" if rating_threshold.is_least_set else " (by default)"
    least, total = threshold.least_rating or 0.0, turned.get(rating_threshold.aspect)
    rated = f"{least:g}{default} or higher" if total is None else f"{total - least:g}{default} or lower"
    return (
        f"{name}: {label} of {at_least:.4g}{interval} or more keeps {kept_good:.0%} of the {threshold.n_good} samples "
        f"rated {rated} and {kept_others:.0%} of the {threshold.n - threshold.n_good} others. "
        f"On held-out videos, the difference of these shares is {format_estimate(threshold.held_out)}"
        f"{explain_simple_score_gain(threshold, knows=knows)}."
    )


def format_estimate(estimate: YoudenEstimate) -> str:
    """Return a number with its interval as text, with two decimals: `0.31 (0.28 to 0.34)`; without the interval if
    there is none.
    """
    interval = "" if estimate.low is None or estimate.high is None else f" ({estimate.low:.2f} to {estimate.high:.2f})"
    return f"{estimate.value:.2f}{interval}"


def explain_simple_score_gain(threshold: RatedThreshold, *, knows: bool = True) -> str:
    """Return the end of a sentence, with the comma or semicolon before it: how a threshold compares with one on the
    strongest simple score, or that it may be chance. knows: whether the metric is known to order samples as people do;
    without that, it may be chance. "" where there is no threshold.

    A threshold that keeps everything has a gain of 0.
    """
    if threshold.held_out is None:
        return ""
    if not knows or threshold.held_out.low is None or threshold.held_out.low <= 0:
        return MAY_BE_CHANCE
    if threshold.strongest_baseline is None:
        return "; no simple score does better than keeping everything"
    gain = threshold.strongest_baseline.gain
    clearly = gain.low is not None and gain.high is not None and (gain.low > 0 or gain.high < 0)
    how = f"{'' if clearly else 'not clearly '}{'more' if gain.value > 0 else 'less'}"
    baseline = threshold.strongest_baseline
    return f", {how} than with {baseline.name}: {format_estimate(baseline.held_out)}"


def _build_score_threshold(rating_threshold: RatingThreshold, kind: str, *, is_synthetic: bool) -> ScoreThreshold:
    """Build the row of table `score_threshold`."""
    threshold = rating_threshold.threshold
    assert threshold.at_least is not None
    assert threshold.kept_good is not None
    assert threshold.kept_others is not None
    return ScoreThreshold(
        rating_threshold.shard,
        kind,
        rating_threshold.objective,
        threshold.at_least,
        threshold.n,
        # Both are shares of whole numbers, so that rounding gives these back.
        round(threshold.kept_good * threshold.n_good) + round(threshold.kept_others * (threshold.n - threshold.n_good)),
        threshold.low,
        threshold.high,
        threshold.n_good,
        {**_build_details(rating_threshold), "synthetic_ratings": is_synthetic},
    )


def _build_details(rating_threshold: RatingThreshold) -> dict[str, Any]:
    """Return as plain data what the columns of the table do not hold."""
    threshold = rating_threshold.threshold
    return {
        "aspect": rating_threshold.aspect,
        "least_rating": threshold.least_rating,
        "least_rating_is": "set" if rating_threshold.is_least_set else "default",
        "best_for": "youden",
        "n_videos": threshold.n_videos,
        "kept_good": threshold.kept_good,
        "kept_others": threshold.kept_others,
        "youden": threshold.youden,
        "youden_held_out": asdict(threshold.held_out) if threshold.held_out else None,
        "baselines_held_out": {
            baseline.name: {**asdict(baseline.held_out), "gain": asdict(baseline.gain)}
            for baseline in threshold.baselines
        },
        "seed": SEED,
    }


def _parse_threshold(computed: RatingThreshold, row: ScoreThreshold, baselines: Iterable[str]) -> RatingThreshold:
    """Return the threshold that `_build_score_threshold` stored, with these baselines in their order."""
    details = row.details
    held_out = details["baselines_held_out"]
    threshold = RatedThreshold(
        "ok",
        None,
        details["least_rating"],
        row.n,
        row.n_good or 0,
        details["n_videos"],
        row.at_least,
        row.low,
        row.high,
        details["kept_good"],
        details["kept_others"],
        YoudenEstimate(**details["youden_held_out"]),
        tuple(_parse_baseline(name, held_out[name]) for name in baselines if name in held_out),
    )
    return replace(computed, is_least_set=details["least_rating_is"] == "set", threshold=threshold)


def _parse_baseline(name: str, stored: Mapping[str, Any]) -> BaselineYouden:
    """Return the performance of a simple score that `_build_details` stored."""
    held_out = YoudenEstimate(*(stored[field] for field in ("value", "low", "high")))
    return BaselineYouden(name, held_out, YoudenEstimate(**stored["gain"]))
