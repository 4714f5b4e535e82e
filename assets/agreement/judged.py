"""The samples of a dataset that people judged: their ratings, labels and preferences, and the scores of the same
samples.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from sqlalchemy.engine import Connection, Engine

from db.manifest.datasets import Dataset
from db.reports.judgements import Judgements, load_judgement_arrays
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
LENGTH, COMMON_WORDS, COSINE = "length in words", "words in common", "cosine of whole texts"
"""The names of the simple scores in table `agreement`."""
STORED_COLUMNS: Mapping[str, str] = dict(zip((COMMON_WORDS, COSINE), SIMPLE_SCORES, strict=True))
"""The column of `sample_scores` that has a simple score, by the score's name in table `agreement`."""
SIMPLE_SCORE_COLUMNS: Mapping[str, str] = {LENGTH: "words", **STORED_COLUMNS}
"""The columns of all simple scores by their names in table `agreement`; the length is a fact, in column `words`."""
MAJORITY = "majority"
"""A baseline that gives every caption the commonest rating, and so ties all pairs: only pairwise accuracies exist."""


@dataclass(frozen=True)
class JudgedSamples(Judgements):
    """The samples of one kind that people judged in a dataset, with their judgements and with the values of all metrics
    for them, (n,), NaN where there is no number. The kind is "caption", or "qa" (question-answer pairs) where no
    caption is judged: scores of different kinds are not comparable. others: judgements of the other kind, by kind.

    metric_values: by metric, for metrics with a result for at least one of the samples. simple_score_values: the same
    by column. scorer_ids, n_stale: by metric and simple score the active scorer, and how many of the samples have a
    stale score, which counts as none. decided_keypoints: decisions on labelled keypoints.
    """

    metric_values: dict[str, FloatArray]
    simple_score_values: dict[str, FloatArray]
    scorer_ids: dict[str, int]
    n_stale: dict[str, int]
    others: Mapping[str, Judgements]
    decided_keypoints: Sequence[KeypointDecision] = ()

    @property
    def by_kind(self) -> dict[str, Judgements]:
        """The judgements of all samples by their kind."""
        return {self.kind: self, **self.others}

    @property
    def n_others(self) -> int:
        """The number of judged samples of the other kind."""
        return sum(each.sample_ids.size for each in self.others.values())

    @cached_property
    def choices(self) -> dict[str, Preferences]:
        """People's preferences between two of the samples, by aspect. They name samples by their index."""
        return {
            aspect: Preferences.build(
                given.first, given.second, given.better, given.raters, [self.videos[place] for place in given.first]
            )
            for aspect, given in self.preferences.items()
        }

    @cached_property
    def baselines(self) -> dict[str, FloatArray]:
        """The baselines (n,) that a metric has to beat, by their names in table `agreement`: length in words, majority
        (0 for every sample), and the simple scores that have a value for at least one sample. Empty without samples.
        """
        if not self.sample_ids.size:
            return {}
        simple = {name: self.simple_score_values.get(column, np.zeros(0)) for name, column in STORED_COLUMNS.items()}
        return {LENGTH: self.words, MAJORITY: np.zeros(self.words.size)} | {
            name: values for name, values in simple.items() if np.isfinite(values).any()
        }

    def select_baselines(self, *metrics: str) -> dict[str, FloatArray]:
        """Return the baselines that can order captions, as values (n,) by name: not the majority, which gives every
        caption the same value, nor a simple score that is among `metrics`.
        """
        left_out = {MAJORITY, *(name for name, column in STORED_COLUMNS.items() if column in metrics)}
        return {name: values for name, values in self.baselines.items() if name not in left_out}


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
    """Load the judged samples of a dataset, of one kind, with their judgements, the values of all its metrics and the
    decisions on labelled keypoints, from one state of the database. See `load_judged_samples`.
    """
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
        judged = load_judged_samples(connection, dataset, list_dataset_metrics(connection, dataset))
        decided = load_keypoint_decisions(connection, dataset.dataset_id) if judged.sample_ids.size else ()
        return replace(judged, decided_keypoints=decided)


def load_judged_samples(connection: Connection, dataset: Dataset, metrics: Sequence[str]) -> JudgedSamples:
    """Load the samples of a dataset that people judged, with their judgements and their values by `metrics` and simple
    scores. Only captions are loaded where any is judged, else question-answer pairs. Values are those of active
    scorers; a metric with no result for any of the samples is left out. Without judged samples, no score is read.
    """
    others = load_judgement_arrays(connection, dataset, lambda text: len(list_words(text)))
    people = others.pop(min(others))
    active = {name: find_active_scorer(connection, name) for name in (*metrics, *SIMPLE_SCORES)}
    scorers = {name: scorer_id for name, scorer_id in active.items() if scorer_id}
    known: dict[str, FloatArray] = {}
    n_stale = {}
    ids = people.sample_ids.tolist()
    for name, scorer_id in scorers.items() if ids else ():
        scores = load_scorer_values(connection, scorer_id, dataset.dataset_id, ids)
        n_stale[name] = sum(status == "stale" for _, status in scores.values())
        if scores:
            values = (scores.get(sample_id, (None, ""))[0] for sample_id in ids)
            known[name] = np.array([math.nan if value is None else value for value in values])
    judged = JudgedSamples(
        **vars(people),
        metric_values={name: values for name, values in known.items() if name not in SIMPLE_SCORES},
        simple_score_values={name: values for name, values in known.items() if name in SIMPLE_SCORES},
        scorer_ids=scorers,
        n_stale=n_stale,
        others=others,
    )
    # Table `agreement` has simple scores by their names in words.
    for name, column in STORED_COLUMNS.items():
        if name in judged.baselines:
            scorers[name], n_stale[name] = scorers[column], n_stale[column]
    return judged


def choose_n_resamples(n: int) -> int:
    """Return how many resamples to draw for n samples: 1,000, or 200 for more than 20,000 samples."""
    return RESAMPLES if n <= MANY_SAMPLES else RESAMPLES_OF_MANY
