"""Thresholds of scores by people's ratings: computed by metric and aspect, stored, loaded, and explained in
sentences.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
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


@dataclass(frozen=True)
class RatingThreshold:
    """The threshold of a metric that best separates samples rated as good in one aspect from the others, or why there
    is none.

    is_least_set: whether the least rating of a good sample is set, or the default. shard: None for the whole dataset.
    """

    metric: str
    aspect: str
    is_least_set: bool
    threshold: RatedThreshold
    shard: int | None = None

    @property
    def objective(self) -> str:
        """The name of the threshold in recipes: `good consistency`."""
        return f"good {self.aspect}"


def store_rating_thresholds(
    engine: Engine, dataset: Dataset, judged: JudgedSamples, least: Mapping[str, float]
) -> list[RatingThreshold]:
    """Compute the thresholds by ratings of a dataset and its shards, store those that exist in place of the old ones,
    and return all, also those that could not be computed.

    least: the least mean rating of a good sample, by aspect; other aspects have the default of
    `compute_rating_threshold`.
    """
    of_dataset = [
        cut
        for scores in (judged.metric_values, judged.simple_score_values)
        for cut in compute_rating_thresholds(judged, scores, least)
    ]
    found = [*of_dataset, *compute_shard_thresholds(judged, of_dataset)]
    with engine.begin() as connection:
        is_synthetic = has_synthetic_ratings(connection, dataset.dataset_id)
        for metric, scorer_id in judged.scorer_ids.items():
            # The agreement table's name of a simple score, whose cuts are stored by that of its column.
            if metric in STORED_COLUMNS:
                continue
            stored = [each for each in found if each.metric == metric and each.threshold.status == "ok"]
            cutoffs = [_build_cutoff(each, judged.kind, is_synthetic=is_synthetic) for each in stored]
            store_score_thresholds(connection, scorer_id, dataset.dataset_id, METHOD_RATINGS, cutoffs)
    return found


def compute_rating_thresholds(
    judged: JudgedSamples, scores: Mapping[str, FloatArray], least: Mapping[str, float]
) -> Iterator[RatingThreshold]:
    """Yield the threshold of every score by every aspect, with its performance on held-out videos; one without a
    threshold has the reason. scores: values (n,) by name.
    """
    for metric, values in scores.items():
        # A simple score does not stand beside itself.
        others = {name: each for name, each in judged.computed_baselines.items() if STORED_COLUMNS.get(name) != metric}
        for aspect, ratings in judged.ratings.items():
            cut = calibrate_rated_threshold(
                values,
                compute_mean_ratings(ratings),
                judged.videos,
                others,
                least_rating=_round_least(least, aspect),
                n_resamples=choose_n_resamples(len(judged.videos)),
                seed=SEED,
            )
            yield RatingThreshold(metric, aspect, aspect in least, cut)


def load_rating_thresholds(
    connection: Connection, dataset: Dataset, judged: JudgedSamples, least: Mapping[str, float]
) -> Iterator[RatingThreshold]:
    """Yield the stored threshold of every metric by every aspect of the judged samples, or the reason why there is
    none. A threshold that exists but is not stored, since the judgements are newer, is left out.
    """
    stored = {
        (metric, each.objective): each
        for metric, each in list_score_thresholds(connection, dataset.dataset_id, METHOD_RATINGS)
    }
    for metric, values in judged.metric_values.items():
        for aspect, ratings in judged.ratings.items():
            found = RatingThreshold(
                metric,
                aspect,
                aspect in least,
                find_rated_threshold(
                    values, compute_mean_ratings(ratings), judged.videos, least_rating=_round_least(least, aspect)
                ),
            )
            if cutoff := stored.get((metric, found.objective)):
                yield _parse_threshold(found, cutoff, judged.baselines)
            elif found.threshold.status != "ok":
                yield found


def _round_least(least: Mapping[str, float], aspect: str) -> float | None:
    """Return the least rating, rounded like the means: 13/3 is reached by ratings of 4, 4 and 5. None for the
    default.
    """
    return round(least[aspect], DECIMALS) if aspect in least else None


def compute_shard_thresholds(judged: JudgedSamples, of_dataset: Sequence[RatingThreshold]) -> Iterator[RatingThreshold]:
    """Yield the thresholds within each shard that exist, with the same least rating as in the whole dataset. Nothing
    for a dataset of one shard.
    """
    shard_of = np.array([each.shard for each in judged.samples])
    videos = np.array(judged.videos)
    shards = np.unique(shard_of).tolist()
    scores = judged.metric_values | judged.simple_score_values
    for found in of_dataset if len(shards) > 1 else ():
        means = compute_mean_ratings(judged.ratings[found.aspect])
        for shard in shards:
            rows = shard_of == shard
            cut = calibrate_rated_threshold(
                scores[found.metric][rows],
                means[rows],
                videos[rows].tolist(),
                least_rating=found.threshold.least_rating,
                n_resamples=choose_n_resamples(int(rows.sum())),
                seed=SEED,
            )
            if cut.status == "ok":
                yield replace(found, threshold=cut, shard=shard)


def explain_rating_threshold(found: RatingThreshold, label: str, *, knows: bool = True) -> str:
    """Return a sentence on a threshold: the share of good and other samples that it keeps, its gain on held-out videos
    and over simple scores; or why there is none.

    knows: whether the metric is known to order samples as people do; without that, no threshold is more than chance.
    """
    cut = found.threshold
    if cut.at_least is None or cut.held_out is None or cut.kept_good is None or cut.kept_others is None:
        return f"{found.objective}: no threshold, since {cut.reason}."
    interval = "" if cut.low is None or cut.high is None else f" ({cut.low:.4g} to {cut.high:.4g})"
    rated = f"{cut.least_rating:g}{'' if found.is_least_set else ' (by default)'} or higher"
    return (
        f"{found.objective}: {label} of {cut.at_least:.4g}{interval} or more keeps {cut.kept_good:.0%} of the "
        f"{cut.n_good} samples rated {rated} and {cut.kept_others:.0%} of the {cut.n - cut.n_good} others. "
        f"On videos that a cut was not found on, the difference of these shares is {format_estimate(cut.held_out)}"
        f"{explain_simple_score_gain(cut, knows=knows)}."
    )


def format_estimate(found: YoudenEstimate) -> str:
    """Return a number with its interval as text: `0.31 (0.28 to 0.34)`; without the interval if there is none."""
    interval = "" if found.low is None or found.high is None else f" ({found.low:.2f} to {found.high:.2f})"
    return f"{found.value:.2f}{interval}"


def explain_simple_score_gain(cut: RatedThreshold, *, knows: bool = True) -> str:
    """Return the end of a sentence: how a threshold compares with one on the strongest simple score, or that it may be
    chance. "" where there is no threshold.

    knows: whether the metric is known to order samples as people do. A threshold that keeps everything has a gain of 0.
    """
    if cut.held_out is None:
        return ""
    if not knows or cut.held_out.low is None or cut.held_out.low <= 0:
        return MAY_BE_CHANCE
    if cut.strongest_baseline is None:
        return "; no simple score reaches more than keeping everything does"
    gain = cut.strongest_baseline.gain
    clearly = gain.low is not None and gain.high is not None and (gain.low > 0 or gain.high < 0)
    how = f"{'' if clearly else 'not clearly '}{'more' if gain.value > 0 else 'less'}"
    return f", {how} than by cuts on {cut.strongest_baseline.name}: {format_estimate(cut.strongest_baseline.held_out)}"


def _build_cutoff(found: RatingThreshold, kind: str, *, is_synthetic: bool) -> ScoreThreshold:
    """Build the row of table `score_threshold`."""
    cut = found.threshold
    assert cut.at_least is not None
    assert cut.kept_good is not None
    assert cut.kept_others is not None
    return ScoreThreshold(
        found.shard,
        kind,
        found.objective,
        cut.at_least,
        cut.n,
        # Both are shares of whole numbers, so that rounding gives these back.
        round(cut.kept_good * cut.n_good) + round(cut.kept_others * (cut.n - cut.n_good)),
        cut.low,
        cut.high,
        cut.n_good,
        {**_build_details(found), "synthetic_ratings": is_synthetic},
    )


def _build_details(found: RatingThreshold) -> dict[str, Any]:
    """Return as plain data what the columns of the table do not hold."""
    cut = found.threshold
    return {
        "aspect": found.aspect,
        "least_rating": cut.least_rating,
        "least_rating_is": "set" if found.is_least_set else "default",
        "best_for": "youden",
        "n_videos": cut.n_videos,
        "kept_good": cut.kept_good,
        "kept_others": cut.kept_others,
        "youden": cut.youden,
        "youden_held_out": asdict(cut.held_out) if cut.held_out else None,
        "baselines_held_out": {
            each.name: {**asdict(each.held_out), "gain": asdict(each.gain)} for each in cut.baselines
        },
        "seed": SEED,
    }


def _parse_threshold(found: RatingThreshold, cutoff: ScoreThreshold, baselines: Iterable[str]) -> RatingThreshold:
    """Return the threshold that `_build_cutoff` and `_build_details` stored, with these baselines in their order."""
    details = cutoff.details
    held_out = details["baselines_held_out"]
    cut = RatedThreshold(
        "ok",
        None,
        details["least_rating"],
        cutoff.n,
        cutoff.n_good or 0,
        details["n_videos"],
        cutoff.at_least,
        cutoff.low,
        cutoff.high,
        details["kept_good"],
        details["kept_others"],
        YoudenEstimate(**details["youden_held_out"]),
        tuple(_parse_baseline(name, held_out[name]) for name in baselines if name in held_out),
    )
    return replace(found, is_least_set=details["least_rating_is"] == "set", threshold=cut)


def _parse_baseline(name: str, stored: Mapping[str, Any]) -> BaselineYouden:
    """Return the performance of a simple score that `_build_details` stored."""
    held_out = YoudenEstimate(*(stored[field] for field in ("value", "low", "high")))
    return BaselineYouden(name, held_out, YoudenEstimate(**stored["gain"]))
