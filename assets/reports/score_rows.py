"""Rows of a report's section on scores: histograms, and thresholds by shares of the samples, by people's ratings and by
labels of keypoints.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from sqlalchemy.engine import Connection

from assets.agreement.judged import JudgedSamples
from assets.agreement.scales import RatingSettings
from assets.home.settings import read_settings
from assets.reports.data import MetricSummary
from assets.reports.trust import AspectAgreement
from assets.thresholds.ratings import explain_rating_threshold, explain_simple_score_gain, load_rating_thresholds
from db.manifest.datasets import Dataset
from db.manifest.rating_scales import load_turned_aspects
from db.reports.judgements import LABELS_ASPECT, SPANS_ASPECT, Judgements
from db.schema import keypoint_threshold
from db.scores.keypoint_decisions import LABEL_METHOD
from db.scores.score_arrays import ScoreArrays
from db.scores.thresholds import list_thresholds
from metrics_core.agreement.conclusions import CLAIMS
from metrics_core.arrays import FloatArray, IntArray
from metrics_core.calibration import compute_share_thresholds
from metrics_core.calibration.search import KEPT_SHARES
from metrics_core.selection.distribution import compute_distribution
from metrics_core.selection.strata import count_in_share

# The numbers of a threshold by ratings that the page and its file of numbers show.
_SHOWN = (
    *("status", "reason", "least_rating", "n", "n_good", "n_videos", "at_least", "low", "high"),
    *("kept_good", "kept_others", "held_out", "baselines"),
)
Row = dict[str, Any]
"""A histogram or a threshold as the page and `report.json` show it."""
_N_BINS = 40


def compute_spread_rows(samples: Mapping[str, ScoreArrays], metrics: Sequence[MetricSummary]) -> tuple[Row, ...]:
    """Compute the histogram of every metric's values, by kind of samples: the counts of 40 equal bins from `low` to
    `high`. Values that are all equal are in the middle of a histogram that is 1 wide.
    """
    return tuple(
        _compute_spread_row(metric.name, kind, samples[kind].values[metric.name])
        for metric in metrics
        for kind in sorted(metric.ranges)
    )


def _compute_spread_row(metric: str, kind: str, values: FloatArray) -> Row:
    """Compute the histogram of one metric for one kind of samples."""
    made = compute_distribution(values[np.isfinite(values)], bins=_N_BINS)
    low, high, counts = made.low, made.high, made.counts
    if low == high:
        low, high, counts = low - 0.5, high + 0.5, (*(0,) * (_N_BINS // 2), made.n, *(0,) * (_N_BINS // 2 - 1))
    return {"metric": metric, "kind": kind, "low": low, "high": high, "counts": counts}


def compute_share_threshold_rows(
    samples: Mapping[str, ScoreArrays],
    metrics: Sequence[MetricSummary],
    judgements: Mapping[str, Judgements],
) -> tuple[Row, ...]:
    """Compute the thresholds that keep the best half, quarter, eighth and sixteenth, by kind of samples and metric, how
    much they keep of every system, and the mean ratings of kept and dropped samples. samples, judgements: by kind;
    labels of keypoints and words that raters marked as wrong are left out.

    n_asked: the share as a number of samples; n_kept: how many reach the value, more where several samples share it.
    n_at: how many have exactly the value. by_system: (kept, all) samples. ratings: by aspect, (kept, dropped).
    """
    return tuple(
        row
        for kind, arrays in samples.items()
        for ratings in [_list_ratings(arrays, judgements[kind]) if kind in judgements else {}]
        for metric in metrics
        if metric.has_values(kind)
        for row in _compute_share_rows(metric.name, kind, arrays, ratings)
    )


def _list_ratings(arrays: ScoreArrays, given: Judgements) -> dict[str, tuple[IntArray, FloatArray]]:
    """Return all ratings by aspect, as places of samples and values."""
    is_held = np.isin(given.sample_ids, arrays.sample_ids)
    places = np.searchsorted(arrays.sample_ids, given.sample_ids[is_held])
    by_aspect = {}
    for aspect in sorted(given.ratings.keys() - {LABELS_ASPECT, SPANS_ASPECT}):
        ratings = given.ratings[aspect][is_held]
        is_given = np.isfinite(ratings)
        by_aspect[aspect] = places[is_given.nonzero()[0]], ratings[is_given]
    return by_aspect


def _compute_share_rows(
    metric: str, kind: str, arrays: ScoreArrays, ratings: Mapping[str, tuple[IntArray, FloatArray]]
) -> Iterator[Row]:
    """Yield the thresholds of one metric for one kind of samples. ratings: by aspect, places of samples and values."""
    values = arrays.values[metric]
    known = np.isfinite(values)
    n_of_system = np.bincount(arrays.system_places[known], minlength=len(arrays.systems)).tolist()
    for share, threshold in zip(KEPT_SHARES, compute_share_thresholds(values[known]), strict=True):
        cut = threshold.at_least
        assert cut is not None
        passes = values >= cut
        n_kept = np.bincount(arrays.system_places[passes], minlength=len(arrays.systems)).tolist()
        rows = sorted(zip(arrays.systems, n_kept, n_of_system, strict=True))
        yield {
            "metric": metric,
            "kind": kind,
            "share": share,
            "n_asked": count_in_share(share, threshold.n),
            "n_kept": threshold.n_kept,
            "n_at": int(np.count_nonzero(values == cut)),
            "n": threshold.n,
            "value": cut,
            "by_system": {system: (kept, n) for system, kept, n in rows if n},
            "ratings": {
                aspect: (
                    _compute_mean(given[passes[places]]),
                    _compute_mean(given[values[places] < cut]),
                )
                for aspect, (places, given) in ratings.items()
                if known[places].any()
            },
        }


def _compute_mean(values: FloatArray) -> float | None:
    return float(values.mean()) if values.size else None


def load_rating_threshold_rows(
    connection: Connection,
    dataset: Dataset,
    judged: JudgedSamples,
    metrics: Sequence[MetricSummary],
    trust: Sequence[AspectAgreement],
) -> tuple[Row, ...]:
    """Load the thresholds by ratings that asset `rating_threshold` stored, with sentences; a metric without one has the
    reason. judged: gives the metrics and aspects. trust: the conclusions on metrics; where none shows that a metric
    orders as people do, its threshold may be chance. Reads REELSIEVE_GOOD_RATINGS. Raises SettingsError where it is
    unusable.
    """
    labels = {metric.name: metric.label for metric in metrics}
    turned = load_turned_aspects(connection, dataset.dataset_id)
    trusted = {
        (aspect.aspect, name): threshold.level in CLAIMS
        for aspect in trust
        for name, threshold in aspect.verdicts.items()
    }
    return tuple(
        dict(  # noqa: C408  # the names are those of report.json, one of which is no word for sentences
            metric=threshold.metric,
            aspect=threshold.aspect,
            objective=threshold.objective,
            cut={name: getattr(threshold, name) for name in _SHOWN},
            sentence=explain_rating_threshold(threshold, labels[threshold.metric], knows=is_trusted, turned=turned),
            beside=explain_simple_score_gain(threshold, knows=is_trusted).lstrip(",; "),
        )
        for threshold in load_rating_thresholds(connection, dataset, judged, read_settings(RatingSettings).good_ratings)
        for is_trusted in [trusted.get((threshold.aspect, threshold.metric), False)]
        if threshold.metric in labels
    )


def load_label_threshold_rows(connection: Connection, dataset: Dataset) -> tuple[Row, ...]:
    """Load the thresholds of active scorers that were chosen on labels of the dataset, sorted by metric and dimension.
    Empty without any. value: the probability from which a keypoint counts as covered.
    """
    rows = list_thresholds(connection, keypoint_threshold, dataset.dataset_id, LABEL_METHOD)
    return tuple(
        {
            **{name: row[name] for name in ("metric", "dimension")},
            "value": row["threshold"],
            **{name: row[name] for name in ("objective", "n", "n_positive")},
        }
        for row in sorted(rows, key=lambda row: (row["metric"], row["dimension"]))
    )
