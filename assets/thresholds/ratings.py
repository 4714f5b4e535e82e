"""Thresholds of scores by people's ratings: computed by metric and aspect, stored, loaded, and explained in
sentences.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from sqlalchemy.engine import Connection, Engine

from assets.agreement.judged import SEED, STORED_COLUMNS, JudgedSamples, choose_n_resamples
from db.manifest.datasets import Dataset
from db.reports.judgements import count_ratings
from db.schema import score_threshold
from db.scores.thresholds import METHOD_RATINGS, list_thresholds, store_thresholds
from metrics_core.agreement.groupings import DECIMALS
from metrics_core.agreement.raters import compute_mean_ratings
from metrics_core.calibration import BaselineYouden, Threshold, find_rated_threshold
from metrics_core.intervals import Estimate

NONE_TURNED: Mapping[str, float] = MappingProxyType({})
_COLUMNS = ("shard", "kind", "objective", "at_least", "low", "high", "n", "n_kept", "n_good")


def store_rating_thresholds(
    engine: Engine, dataset: Dataset, judged: JudgedSamples, least: Mapping[str, float]
) -> list[Threshold]:
    """Compute the thresholds by ratings of a dataset and its shards, and store those that exist in place of the old
    ones. Return all, also those of the dataset that could not be computed, with the reason. least: the lowest mean
    rating of a good sample, by aspect; other aspects have the default of `find_rated_threshold`.
    """
    thresholds = list(_compute_rating_thresholds(judged, least))
    with engine.begin() as connection:
        is_synthetic = count_ratings(connection, dataset.dataset_id).has_synthetic
        for metric, scorer_id in judged.scorer_ids.items():
            # A simple score is also here under its name in table `agreement`; its thresholds have its column's name.
            if metric in STORED_COLUMNS:
                continue
            rows = [
                {**{name: getattr(threshold, name) for name in _COLUMNS}, "details": details}
                for threshold in thresholds
                if threshold.metric == metric and threshold.status == "ok"
                for details in [{**_build_details(threshold), "synthetic_ratings": is_synthetic}]
            ]
            store_thresholds(connection, score_threshold, scorer_id, dataset.dataset_id, METHOD_RATINGS, rows)
    return thresholds


def load_rating_thresholds(
    connection: Connection, dataset: Dataset, judged: JudgedSamples, least: Mapping[str, float]
) -> Iterator[Threshold]:
    """Yield the stored threshold of every metric by every aspect of the judged samples, or the reason why there is
    none. least: the lowest mean rating of a good sample by aspect; only used to find that reason. A threshold that
    exists but is not stored, since the judgements are newer, is left out.
    """
    rows = list_thresholds(connection, score_threshold, dataset.dataset_id, METHOD_RATINGS)
    stored = {(row["metric"], row["objective"]): row for row in rows}
    for metric, values in judged.metric_values.items():
        for aspect, ratings in judged.ratings.items():
            if row := stored.get((metric, _name_objective(aspect))):
                yield _parse_row(row, judged.baselines)
                continue
            threshold = find_rated_threshold(
                values, compute_mean_ratings(ratings), judged.videos, least_rating=_round_least(least, aspect)
            )
            if threshold.status != "ok":
                yield replace(threshold, metric=metric, aspect=aspect, objective=_name_objective(aspect))


def _compute_rating_thresholds(judged: JudgedSamples, least: Mapping[str, float]) -> Iterator[Threshold]:
    """Yield the threshold of every score by every aspect of the judged samples, with its performance on held-out videos
    and that of simple scores, or the reason why there is none. After it come those within each of several shards, where
    they exist, by the same lowest rating and without simple scores.
    """
    videos, shards = np.array(judged.videos), np.unique(judged.shards).tolist()
    for metric, values in (judged.metric_values | judged.simple_score_values).items():
        baselines = judged.select_baselines(metric)
        for aspect, ratings in judged.ratings.items():
            means = compute_mean_ratings(ratings)
            threshold = replace(
                find_rated_threshold(
                    values,
                    means,
                    judged.videos,
                    baselines,
                    least_rating=_round_least(least, aspect),
                    n_resamples=choose_n_resamples(len(judged.videos)),
                    seed=SEED,
                ),
                metric=metric,
                aspect=aspect,
                objective=_name_objective(aspect),
                kind=judged.kind,
            )
            yield threshold
            for shard in shards if len(shards) > 1 else ():
                rows = judged.shards == shard
                of_shard = find_rated_threshold(
                    values[rows],
                    means[rows],
                    videos[rows].tolist(),
                    least_rating=threshold.least_rating,
                    n_resamples=choose_n_resamples(int(rows.sum())),
                    seed=SEED,
                )
                if of_shard.status == "ok":
                    same = ("metric", "aspect", "objective", "kind", "is_least_set")
                    yield replace(of_shard, shard=shard, **{name: getattr(threshold, name) for name in same})


def _name_objective(aspect: str) -> str:
    """Return the name by which recipes refer to the threshold: `good consistency`."""
    return f"good {aspect}"


def _round_least(least: Mapping[str, float], aspect: str) -> float | None:
    """Return the lowest rating, rounded like the means: 13/3 is reached by ratings of 4, 4 and 5. None for the
    default.
    """
    return round(least[aspect], DECIMALS) if aspect in least else None


def explain_rating_threshold(
    threshold: Threshold, label: str, *, knows: bool = True, turned: Mapping[str, float] = NONE_TURNED
) -> str:
    """Return a sentence on a threshold: the shares of good and of other samples that it keeps, and their difference on
    held-out videos, compared with simple scores; or why there is none. label: the metric's name. knows: whether the
    metric is known to order samples as people do; else it may be chance. turned: as from `load_turned_aspects`.
    """
    at_least, counts, low, high = threshold.at_least, threshold.counts, threshold.low, threshold.high
    if at_least is None or threshold.held_out is None or counts is None:
        return f"{threshold.objective}: no threshold, since {threshold.reason}."
    interval = "" if low is None or high is None else f" ({low:.4g} to {high:.4g})"
    default = "" if threshold.is_least_set else " (by default)"
    least, total = threshold.least_rating or 0.0, turned.get(threshold.aspect)
    rated = f"{least:g}{default} or higher" if total is None else f"{total - least:g}{default} or lower"
    return (
        f"{threshold.objective}: {label} of {at_least:.4g}{interval} or more keeps {threshold.kept_good:.0%} of the "
        f"{counts.n_positive} samples rated {rated} and {threshold.kept_others:.0%} of the "
        f"{counts.n - counts.n_positive} others. On held-out videos, the difference of these shares is "
        f"{format_estimate(threshold.held_out)}{explain_simple_score_gain(threshold, knows=knows)}."
    )


def format_estimate(estimate: Estimate) -> str:
    """Return a number with its interval as text, with two decimals: `0.31 (0.28 to 0.34)`; without the interval if
    there is none.
    """
    interval = "" if estimate.low is None or estimate.high is None else f" ({estimate.low:.2f} to {estimate.high:.2f})"
    return f"{estimate.value:.2f}{interval}"


def explain_simple_score_gain(threshold: Threshold, *, knows: bool = True) -> str:
    """Return the end of a sentence, with the comma or semicolon before it: how a threshold compares with one on the
    strongest simple score, or that it may be chance. knows: whether the metric is known to order samples as people do;
    without that, it may be chance. "" where there is no threshold.

    A threshold that keeps everything has a gain of 0.
    """
    if threshold.held_out is None:
        return ""
    if not knows or threshold.held_out.low is None or threshold.held_out.low <= 0:
        return ", which may be chance"
    baseline = threshold.strongest_baseline
    if baseline is None:
        return "; no simple score does better than keeping everything"
    gain = baseline.gain
    clearly = gain.low is not None and gain.high is not None and (gain.low > 0 or gain.high < 0)
    how = f"{'' if clearly else 'not clearly '}{'more' if (gain.value or 0.0) > 0 else 'less'}"
    return f", {how} than with {baseline.name}: {format_estimate(baseline.held_out)}"


def _build_details(threshold: Threshold) -> dict[str, Any]:
    """Return as plain data what the columns of the table do not hold."""
    return {
        "aspect": threshold.aspect,
        "least_rating": threshold.least_rating,
        "least_rating_is": "set" if threshold.is_least_set else "default",
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


def _parse_row(row: Mapping[str, Any], baselines: Iterable[str]) -> Threshold:
    """Return the threshold that `store_rating_thresholds` stored as this row, with these baselines in their order."""
    details = row["details"]
    compared = details["baselines_held_out"]
    return Threshold(
        **{name: row[name] for name in ("metric", *_COLUMNS)},
        **{name: details[name] for name in ("aspect", "least_rating", "n_videos")},
        # A share of whole numbers, so that rounding gives the number back.
        n_kept_good=round(details["kept_good"] * row["n_good"]),
        is_least_set=details["least_rating_is"] == "set",
        held_out=Estimate(**details["youden_held_out"]),
        baselines=tuple(
            BaselineYouden(
                name,
                Estimate(*(compared[name][field] for field in ("value", "low", "high"))),
                Estimate(**compared[name]["gain"]),
            )
            for name in baselines
            if name in compared
        ),
    )
