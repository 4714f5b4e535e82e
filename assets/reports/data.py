"""Counts for a report's section on data: systems, lengths, people's judgements, and what metrics could and could not
score.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy.engine import Connection

from assets.agreement.progress import RaterConsistency, compute_rater_consistency
from assets.agreement.scales import load_scale_ends
from assets.words.labels import STAND_INS, filter_stand_ins, format_metric_label, format_metric_name
from db.manifest.datasets import Dataset
from db.manifest.rating_scales import load_turned_aspects
from db.reports.judgements import CheckCount, RaterAnswer, count_passed_checks, count_ratings
from db.reports.summary import (
    Origins,
    OwnNumber,
    Spread,
    count_labelled_samples,
    count_origins,
    count_rejects_by_code,
    count_video_statuses,
    find_rating_days,
    load_dataset_summary,
    load_duration_spread,
    load_own_numbers,
    load_word_spreads,
)
from db.scores.imported_scores import IMPORTED_VERSION
from db.scores.quality import StatusCount, count_scores_without_value
from db.scores.score_arrays import ScoreArrays
from db.scores.scorers import StoredScorer


@dataclass(frozen=True, slots=True)
class MetricSummary:
    """A metric that has results on the dataset, with the models and code version of its active scorer, and its numbers
    of samples by kind and status (`statuses`). label: its name with the stand-ins for real models. stand_ins: remedies
    by stand-in. n_defined: samples with a value. ranges: its lowest and highest value, by kind that has one.
    """

    name: str
    label: str
    models: tuple[str, ...]
    code_version: str
    stand_ins: Mapping[str, str]
    statuses: tuple[StatusCount, ...]
    n_defined: int
    ranges: Mapping[str, tuple[float, float]]

    @property
    def is_imported(self) -> bool:
        """Whether the metric's scores were imported from elsewhere, so that no command here can compute them again."""
        return self.code_version == IMPORTED_VERSION

    @property
    def n_stale(self) -> int:
        """The number of samples whose score is stale: computed from an input that has changed since."""
        return sum(count.n for count in self.statuses if count.status == "stale")

    def has_values(self, kind: str) -> bool:
        """Return whether at least one sample of the kind ("caption" or "qa") has a value of the metric."""
        return kind in self.ranges

    def count_values(self, kind: str) -> int:
        """Return how many samples of the kind ("caption" or "qa") have a value of the metric."""
        return sum(count.n for count in self.statuses if (count.kind, count.status) == (kind, "ok"))


@dataclass(frozen=True, slots=True)
class DataSummary:
    """Counts of what a dataset holds: videos by status, samples by system, ratings by rater and by aspect, with
    quantiles of durations and of words. counts: the row of view dataset_summary. refused: rows that ingest refused, by
    code. labelled: samples with a label. n_drawn_apart: ratings of chosen, not random, captions, which only counts
    include. scale_ends: as from `load_scale_ends`.

    rated_between: the days of the first and the last answer in a browser; None without any. repeats: how consistent
    raters are who judged the same sample twice. origins: licences and sources of the videos; None if none is known.
    own_numbers: own fields of the videos that are numbers, such as those of another tool. checks: how many attention
    checks raters passed.
    """

    counts: Mapping[str, int]
    video_statuses: Mapping[str, int]
    duration_s: Spread | None
    words: tuple[Spread, ...]
    systems: tuple[Mapping[str, Any], ...]
    raters: Mapping[str, int]
    ratings: Mapping[str, int]
    refused: Mapping[str, int]
    labelled: int
    synthetic_ratings: bool
    n_drawn_apart: int
    turned_aspects: Mapping[str, float]
    scale_ends: Mapping[str, float]
    rated_between: tuple[str, str] | None = None
    repeats: tuple[RaterConsistency, ...] = ()
    origins: Origins | None = None
    own_numbers: tuple[OwnNumber, ...] = ()
    checks: tuple[CheckCount, ...] = ()


def load_data_summary(
    connection: Connection, dataset: Dataset, samples: Mapping[str, ScoreArrays], answers: Sequence[RaterAnswer]
) -> DataSummary:
    """Count what a dataset holds: videos by status, samples by system, lengths, ratings, refused rows. samples: by
    kind. answers: all answers that raters gave, for their consistency.
    """
    summary = load_dataset_summary(connection, dataset.name)
    dataset_id = dataset.dataset_id
    ratings = count_ratings(connection, dataset_id)
    return DataSummary(
        counts={name: int(value) for name, value in summary.items() if name != "dataset"},
        video_statuses=count_video_statuses(connection, dataset_id),
        duration_s=load_duration_spread(connection, dataset_id),
        words=tuple(load_word_spreads(connection, dataset_id)),
        systems=tuple(row for kind, arrays in samples.items() for row in count_systems(kind, arrays)),
        raters=ratings.by_rater,
        ratings=ratings.by_aspect,
        refused=count_rejects_by_code(connection, dataset_id),
        labelled=count_labelled_samples(connection, dataset_id),
        synthetic_ratings=ratings.has_synthetic,
        rated_between=find_rating_days(connection, dataset_id),
        repeats=compute_rater_consistency(answers),
        n_drawn_apart=ratings.n_chosen,
        turned_aspects=load_turned_aspects(connection, dataset_id),
        scale_ends=load_scale_ends(connection, dataset, ratings.by_aspect),
        origins=count_origins(connection, dataset_id),
        own_numbers=tuple(load_own_numbers(connection, dataset_id)),
        checks=count_passed_checks(connection, dataset_id),
    )


def count_systems(kind: str, arrays: ScoreArrays) -> Iterator[dict[str, Any]]:
    """Yield a row for every system, the most samples first: kind, system, and its numbers of samples and videos."""
    videos, of_sample = np.unique(arrays.video_ids, return_inverse=True)
    n_samples = np.bincount(arrays.system_places).tolist()
    # With counts: NumPy sorts then, which is faster here than its hash table.
    pairs, _ = np.unique(arrays.system_places * videos.size + of_sample, return_counts=True)
    n_videos = np.bincount(pairs // videos.size).tolist()
    for system, n, n_of_videos in zip(arrays.systems, n_samples, n_videos, strict=True):
        yield {"kind": kind, "system": system, "samples": n, "videos": n_of_videos}


def load_metric_summaries(
    connection: Connection, dataset: Dataset, samples: Mapping[str, ScoreArrays], scorers: Mapping[str, StoredScorer]
) -> tuple[MetricSummary, ...]:
    """Describe those of the given metrics that have a result for at least one sample of the dataset: models, code
    version, and numbers of samples by status. samples: by kind, with values by metric. scorers: active, by metric.
    """
    summaries = (_load_metric_summary(connection, dataset, samples, scorer) for scorer in scorers.values())
    return tuple(summary for summary in summaries if any(count.status != "unscored" for count in summary.statuses))


def _load_metric_summary(
    connection: Connection, dataset: Dataset, samples: Mapping[str, ScoreArrays], scorer: StoredScorer
) -> MetricSummary:
    """Describe one metric."""
    counts = count_scores_without_value(connection, dataset, scorer.scorer_id)
    ranges: dict[str, tuple[float, float]] = {}
    n_defined = 0
    for kind, arrays in samples.items():
        values = arrays.values[scorer.metric][np.isfinite(arrays.values[scorer.metric])]
        if values.size:
            n_defined += values.size
            ranges[kind] = float(values.min()), float(values.max())
            counts.append(StatusCount(kind, "ok", values.size, None))
        n_scored = sum(count.n for count in counts if count.kind == kind)
        if n_scored < arrays.sample_ids.size:
            counts.append(StatusCount(kind, "unscored", arrays.sample_ids.size - n_scored, None))
    models = [model["model_id"] for model in scorer.models.values()]
    stand_ins = filter_stand_ins(models)
    return MetricSummary(
        name=scorer.metric,
        label=format_metric_name(format_metric_label(scorer.metric, stand_ins)),
        models=tuple(dict.fromkeys(models)),
        code_version=scorer.code_version,
        stand_ins={name: STAND_INS[name] for name in stand_ins},
        statuses=tuple(sorted(counts, key=lambda count: (count.kind, -count.n, count.status))),
        n_defined=n_defined,
        ranges=ranges,
    )
