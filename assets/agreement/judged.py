"""The samples of a dataset that people judged: their ratings, labels and preferences, and the scores of the same
samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from sqlalchemy.engine import Connection, Engine

from db.manifest.datasets import Dataset
from db.reports.agreement import JudgedSample, Preference, list_judged_samples, list_preferences, list_ratings
from db.scores.keypoint_decisions import KeypointDecision, load_keypoint_decisions
from db.scores.sample_scores import SIMPLE_SCORES, list_dataset_metrics
from db.scores.scorers import load_scorer_values
from db.scores.store import find_active_scorer
from metrics_core.agreement import Preferences
from metrics_core.arrays import FloatArray
from metrics_core.facts.texts import list_words

SEED = 0
RESAMPLES, RESAMPLES_OF_MANY = 1000, 200
MANY_SAMPLES = 20_000
"""More samples than these get fewer resamples, so that 100,000 take minutes; their intervals are narrow."""
LABELS_ASPECT = "coverage (labels)"
"""The aspect of labels: the share of a caption's keypoints labelled as covered. All labels are of one rater."""
LENGTH, COMMON_WORDS, COSINE = "length in words", "words in common", "cosine of whole texts"
"""The names of the simple scores in table `agreement`."""
STORED_COLUMNS: Mapping[str, str] = dict(zip((COMMON_WORDS, COSINE), SIMPLE_SCORES, strict=True))
"""The column of `sample_scores` that has a simple score, by the score's name in table `agreement`."""
SIMPLE_SCORE_COLUMNS: Mapping[str, str] = {LENGTH: "words", **STORED_COLUMNS}
"""The columns of all simple scores by their names in table `agreement`; the length is a fact, in column `words`."""
MAJORITY = "majority"
"""A baseline that gives every caption the commonest rating, and so ties all pairs: only pairwise accuracies exist."""


@dataclass(frozen=True)
class AspectRatings:
    """Ratings by one aspect, (n samples, raters), NaN where a rater did not rate a sample. raters: their names, in the
    order of the columns.
    """

    values: FloatArray
    raters: tuple[str, ...]


@dataclass(frozen=True)
class JudgedSamples:
    """The samples of one kind that people judged in a dataset, with their judgements and with the values of all metrics
    for them. kind: "caption", or "qa" (question-answer pairs) where no caption is judged. Arrays are (n,) in the order
    of `samples`, NaN where there is no number. metric_values: by metric, for metrics with a result for at least one of
    the samples. n_others: judged samples of the other kind, which are left out.

    Scores of different kinds are not comparable, so only one kind is kept. simple_score_values: by column. baselines:
    the simple scores that a metric has to beat, by their names in table `agreement`. scorer_ids, n_stale: by metric and
    simple score the active scorer, and how many of the samples have a stale score, which counts as none.
    decided_keypoints: decisions on labelled keypoints. preferences: all of the dataset.
    """

    samples: list[JudgedSample]
    metric_values: dict[str, FloatArray]
    simple_score_values: dict[str, FloatArray]
    scorer_ids: dict[str, int]
    n_stale: dict[str, int]
    aspect_ratings: dict[str, AspectRatings]
    baselines: dict[str, FloatArray]
    decided_keypoints: Sequence[KeypointDecision]
    kind: str
    n_others: int
    preferences: Sequence[Preference]

    @cached_property
    def videos(self) -> list[int]:
        """The video id of every sample, in the order of the samples."""
        return [sample.video_id for sample in self.samples]

    @cached_property
    def ratings(self) -> dict[str, FloatArray]:
        """Ratings by aspect, as arrays (n samples, raters), NaN where a rater did not rate a sample. Labels of
        keypoints are one more aspect with a single rater, LABELS_ASPECT: the share of a sample's labelled keypoints
        that it covers.
        """
        return {aspect: ratings.values for aspect, ratings in self.aspect_ratings.items()}

    @cached_property
    def choices(self) -> dict[str, Preferences]:
        """People's preferences between two of the samples, by aspect. Positions in them are positions in `samples`. A
        preference that involves another sample is left out.
        """
        return group_choices(self.samples, self.preferences)

    @property
    def computed_baselines(self) -> dict[str, FloatArray]:
        """The baselines that order captions, as values (n,) by name: all but the majority, which gives every caption
        the same value.
        """
        return {name: values for name, values in self.baselines.items() if name != MAJORITY}


class RunJudgements:
    """A cache of the judged samples of one run and one dataset, so that all assets of the run use the same state of the
    database.
    """

    def __init__(self) -> None:
        self._loaded: dict[tuple[str, int], JudgedSamples] = {}

    def load(self, run_id: str, engine: Engine, dataset: Dataset) -> JudgedSamples:
        """Return the judged samples of a dataset for the Dagster run `run_id`. The first call for a run and dataset
        loads them from the database, and drops what was loaded for another run or dataset. Later calls return the same
        object.
        """
        key = run_id, dataset.dataset_id
        if key not in self._loaded:
            # A process has one run at a time, so one entry is enough.
            self._loaded = {key: load_judged_snapshot(engine, dataset)}
        return self._loaded[key]


def load_judged_snapshot(engine: Engine, dataset: Dataset) -> JudgedSamples:
    """Load the judged samples of a dataset, of one kind, with their judgements and the values of all its metrics, from
    one state of the database. See `load_judged_samples`.
    """
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
        return load_judged_samples(connection, dataset, list_dataset_metrics(connection, dataset))


def load_judged_samples(connection: Connection, dataset: Dataset, metrics: Sequence[str]) -> JudgedSamples:
    """Load the samples of a dataset that people judged, with their judgements and their values by `metrics` and simple
    scores. Only captions are loaded where any is judged, else question-answer pairs. Values are those of active
    scorers; a metric with no result for any of the samples is left out. Without judged samples, no score is read.
    """
    all_samples = list_judged_samples(connection, dataset.dataset_id)
    kind = min((sample.kind for sample in all_samples), default="caption")
    samples = [sample for sample in all_samples if sample.kind == kind]
    ids = [sample.sample_id for sample in samples]
    active = {name: find_active_scorer(connection, name) for name in (*metrics, *SIMPLE_SCORES)}
    scorers = {name: scorer_id for name, scorer_id in active.items() if scorer_id}
    loaded = {
        name: load_stored_values(connection, dataset.dataset_id, scorer_id, ids)
        for name, scorer_id in scorers.items()
        if ids
    }
    known = {name: stored.values for name, stored in loaded.items() if stored.has_rows}
    baselines = build_baselines(samples, known)
    # Table `agreement` has simple scores by their names in words.
    columns = {name: STORED_COLUMNS[name] for name in baselines if name in STORED_COLUMNS}
    return JudgedSamples(
        samples,
        {name: values for name, values in known.items() if name not in SIMPLE_SCORES},
        {name: values for name, values in known.items() if name in SIMPLE_SCORES},
        scorers | {name: scorers[column] for name, column in columns.items()},
        {name: stored.n_stale for name, stored in loaded.items()}
        | {name: loaded[column].n_stale for name, column in columns.items()},
        group_ratings(samples, list_ratings(connection, dataset.dataset_id)) if samples else {},
        baselines,
        load_keypoint_decisions(connection, dataset.dataset_id) if samples else (),
        kind,
        len(all_samples) - len(samples),
        list_preferences(connection, dataset.dataset_id) if samples else (),
    )


class StoredValues(NamedTuple):
    """The values (n,) that a scorer stored for n samples, NaN where there is none. n_stale: how many of its scores are
    stale, which have no value. has_rows: whether it has a result for any of the samples, with or without a value.
    """

    values: FloatArray
    n_stale: int
    has_rows: bool


def load_stored_values(
    connection: Connection, dataset_id: int, scorer_id: int, sample_ids: Sequence[int]
) -> StoredValues:
    """Load the values that a scorer stored for the given samples of a dataset, in the order of `sample_ids`. A sample
    without a score, with a stale one or with one that is undefined has NaN.
    """
    scores = load_scorer_values(connection, scorer_id, dataset_id, sample_ids)
    values = np.array([_convert_none(scores.get(sample_id, (None, ""))[0]) for sample_id in sample_ids])
    return StoredValues(values, sum(status == "stale" for _, status in scores.values()), bool(scores))


def load_baselines(connection: Connection, dataset_id: int, samples: Sequence[JudgedSample]) -> dict[str, FloatArray]:
    """Load the baselines (n,) that a metric has to beat on these samples, by name: length in words, majority, and the
    stored simple scores that have a value. Empty without samples; see `build_baselines`.
    """
    ids = [sample.sample_id for sample in samples]
    active = {name: find_active_scorer(connection, name) for name in SIMPLE_SCORES} if ids else {}
    scorers = {name: scorer_id for name, scorer_id in active.items() if scorer_id}
    return build_baselines(
        samples,
        {
            name: load_stored_values(connection, dataset_id, scorer_id, ids).values
            for name, scorer_id in scorers.items()
        },
    )


def build_baselines(samples: Sequence[JudgedSample], stored: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Build the baselines (n,) of these samples by name: length in words, majority (0 for every sample), and the simple
    scores that have a value for at least one of them. stored: values (n,) of simple scores by column, NaN for none.
    Empty without samples.
    """
    if not samples:
        return {}
    # As in column `words`, which is filled only after facts were computed.
    lengths = np.array([len(list_words(sample.text)) for sample in samples], dtype=np.float64)
    simple = {name: stored[column] for name, column in STORED_COLUMNS.items() if column in stored}
    return {LENGTH: lengths, MAJORITY: np.zeros(len(samples))} | {
        name: values for name, values in simple.items() if np.isfinite(values).any()
    }


def choose_n_resamples(n: int) -> int:
    """Return how many resamples to draw for n samples: 1,000, or 200 for more than 20,000 samples."""
    return RESAMPLES if n <= MANY_SAMPLES else RESAMPLES_OF_MANY


def _convert_none(value: float | None) -> float:
    """Return a value as a float, NaN for None."""
    return math.nan if value is None else value


def group_ratings(
    samples: Sequence[JudgedSample], ratings: Iterable[tuple[int, str, str, float]]
) -> dict[str, AspectRatings]:
    """Return the ratings of these samples by aspect, as arrays (n samples, raters), NaN where a rater did not rate a
    sample. ratings: (sample id, rater, aspect, value); those of other samples are left out. If any sample has labels of
    keypoints, these are one more aspect, LABELS_ASPECT, of a rater "labels".
    """
    rows_by_id = {sample.sample_id: row for row, sample in enumerate(samples)}
    by_aspect: dict[str, dict[str, FloatArray]] = {}
    for sample_id, rater, aspect, value in ratings:
        if sample_id not in rows_by_id:
            continue
        by_rater = by_aspect.setdefault(aspect, {})
        if rater not in by_rater:
            by_rater[rater] = np.full(len(samples), math.nan)
        by_rater[rater][rows_by_id[sample_id]] = value
    grouped = {
        aspect: AspectRatings(np.stack(list(by_rater.values()), axis=1), tuple(by_rater))
        for aspect, by_rater in by_aspect.items()
    }
    if any(sample.covered is not None for sample in samples):
        grouped[LABELS_ASPECT] = AspectRatings(
            np.array([[_convert_none(sample.covered)] for sample in samples]), ("labels",)
        )
    return grouped


def group_choices(samples: Sequence[JudgedSample], preferences: Iterable[Preference]) -> dict[str, Preferences]:
    """Return the preferences between two of these samples by aspect. Positions in them are positions in `samples`. A
    preference that involves any other sample is left out.
    """
    rows_by_id = {sample.sample_id: row for row, sample in enumerate(samples)}
    by_aspect: dict[str, list[Preference]] = {}
    for preference in preferences:
        if preference.sample_id in rows_by_id and preference.other_id in rows_by_id:
            by_aspect.setdefault(preference.aspect, []).append(preference)
    return {
        aspect: Preferences.build(
            [rows_by_id[preference.sample_id] for preference in aspect_preferences],
            [rows_by_id[preference.other_id] for preference in aspect_preferences],
            [preference.better for preference in aspect_preferences],
            [preference.rater for preference in aspect_preferences],
            [samples[rows_by_id[preference.sample_id]].video_id for preference in aspect_preferences],
        )
        for aspect, aspect_preferences in by_aspect.items()
    }
