"""Compares two scorers on one dataset: with each other on common samples, and each with people's judgements."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy.engine import Connection, Engine

from assets.agreement.comparison import ComparedScorer, Comparison, MovedSample, format_missing_scores
from assets.agreement.judged import SEED, STORED_COLUMNS, JudgedSamples, choose_n_resamples, load_judged_samples
from assets.agreement.scorer_names import format_other_scorers, require_named_scorer
from db.manifest.datasets import Dataset
from db.scores.scorers import (
    UNSCORED,
    NamedSample,
    SampleIds,
    StoredScorer,
    list_dataset_samples,
    list_scored_datasets,
    list_scorers,
    load_named_samples,
    load_scorer_values,
)
from metrics_core.agreement import (
    MovedItem,
    PeopleComparison,
    compare_preferences,
    compare_scores,
    compare_with_people,
)
from metrics_core.arrays import FloatArray


class NothingToCompare(ValueError):
    """Raised when two scorers cannot be compared on a dataset; the message has the reason and a remedy."""

    plain = True


@dataclass(frozen=True)
class TwoScorers:
    """Two scorers on one dataset: `samples` are all its samples, and `values` the two scorers' values (n,) for them,
    NaN for none. sides: the two scorers, with how many samples lack a value. judged: the samples that people judged.
    """

    samples: list[SampleIds]
    sides: tuple[ComparedScorer, ComparedScorer]
    values: tuple[FloatArray, FloatArray]
    judged: JudgedSamples


def compare_scorers(engine: Engine, dataset: Dataset, first: str, second: str, n_movers: int) -> Comparison:
    """Compare two scorers on the samples of a dataset that have values of both: how their values differ, which samples
    move most in rank, and which scorer agrees better with people. first, second: names such as `vcs` or `vcs@3`.
    n_movers: how many samples are listed that rise, and how many that fall. Reads one state of the database and writes
    nothing. Raises UnknownScorer or NothingToCompare, with the remedy.
    """
    # One snapshot, so that a run that scores at the same time changes neither scorer's values.
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
        loaded = load_two_scorers(connection, dataset, *_find_pair(connection, dataset, first, second))
        common = np.flatnonzero(np.isfinite(loaded.values[0]) & np.isfinite(loaded.values[1]))
        if common.size == 0:
            raise NothingToCompare(_explain_no_common(dataset.name, loaded.sides))
        kept, values = [loaded.samples[i] for i in common], (loaded.values[0][common], loaded.values[1][common])
        n_resamples = choose_n_resamples(len(kept))
        videos = [sample.video_id for sample in kept]
        scores = compare_scores(*values, videos, n_moved=n_movers, seed=SEED)
        movers = (*scores.moved_up, *scores.moved_down)
        names = load_named_samples(connection, [kept[mover.position].sample_id for mover in movers])
    up, down = (
        tuple(_build_moved_sample(mover, names[kept[mover.position].sample_id], values) for mover in side)
        for side in (scores.moved_up, scores.moved_down)
    )
    return Comparison(
        first=loaded.sides[0],
        second=loaded.sides[1],
        differences=list_differences(loaded.sides[0].scorer, loaded.sides[1].scorer),
        n_left_out=len(loaded.samples) - len(kept),
        constant=(_find_constant(values[0]), _find_constant(values[1])),
        scores=scores,
        up=up,
        down=down,
        people=_compare_people(loaded, n_resamples),
        choices=compare_preferences(
            *_select_judged_values(loaded), loaded.judged.choices, n_resamples=n_resamples, seed=SEED
        ),
        n_judged=loaded.judged.sample_ids.size,
        n_resamples=n_resamples,
    )


def load_two_scorers(connection: Connection, dataset: Dataset, first: StoredScorer, second: StoredScorer) -> TwoScorers:
    """Load the values of two scorers for all samples of a dataset, and people's judgements. A sample without a value,
    for example with a stale score, has NaN, and is counted by its status.
    """
    samples = list_dataset_samples(connection, dataset.dataset_id)
    columns = []
    for scorer in (first, second):
        stored = load_scorer_values(connection, scorer.scorer_id, dataset.dataset_id)
        results = [stored.get(sample.sample_id, (None, UNSCORED)) for sample in samples]
        missing = Counter(status for value, status in results if value is None)
        values = np.array([math.nan if value is None else value for value, _ in results])
        columns.append((ComparedScorer(scorer, dict(missing.most_common())), values))
    judged = load_judged_samples(connection, dataset, ())
    (first_side, first_values), (second_side, second_values) = columns
    return TwoScorers(samples, (first_side, second_side), (first_values, second_values), judged)


def _find_pair(connection: Connection, dataset: Dataset, first: str, second: str) -> tuple[StoredScorer, StoredScorer]:
    """Return the two scorers of these names. Raises NothingToCompare where they are the same, or have no score on the
    dataset.
    """
    scorers = list_scorers(connection)
    first_scorer, second_scorer = (require_named_scorer(scorers, name) for name in (first, second))
    if first_scorer.scorer_id == second_scorer.scorer_id:
        others = format_other_scorers(scorers, first_scorer)
        remedy = f"name another one: {others}" if others else "score with other settings or another metric first"
        raise NothingToCompare(f"{first!r} and {second!r} are the same scorer, {first_scorer.name}: {remedy}")
    for scorer in (first_scorer, second_scorer):
        scored = list_scored_datasets(connection, scorer.scorer_id)
        if dataset.name not in scored:
            elsewhere = f", only on {', '.join(scored)}" if scored else ""
            raise NothingToCompare(
                f"{scorer.name} has no score on {dataset.name}{elsewhere}: set its models and parameters, and run "
                f"reelsieve score --dataset {dataset.name} --metric {scorer.metric}"
            )
    return first_scorer, second_scorer


def _compare_people(loaded: TwoScorers, n_resamples: int) -> tuple[PeopleComparison, ...]:
    """Compare both scorers with people's ratings and labels of the dataset."""
    compared = {side.scorer.metric for side in loaded.sides}
    # A simple score that is compared is no baseline for itself.
    baselines = {
        name: values
        for name, values in loaded.judged.computed_baselines.items()
        if STORED_COLUMNS.get(name) not in compared
    }
    first, second = _select_judged_values(loaded)
    ratings, videos = loaded.judged.ratings, loaded.judged.videos
    return compare_with_people(first, second, ratings, videos, baselines, n_resamples=n_resamples, seed=SEED)


def _select_judged_values(loaded: TwoScorers) -> tuple[FloatArray, FloatArray]:
    """Return the two scorers' values of the judged samples."""
    rows_by_id = {sample.sample_id: row for row, sample in enumerate(loaded.samples)}
    rows = [rows_by_id[sample_id] for sample_id in loaded.judged.sample_ids.tolist()]
    return loaded.values[0][rows], loaded.values[1][rows]


def _build_moved_sample(mover: MovedItem, sample: NamedSample, values: tuple[FloatArray, FloatArray]) -> MovedSample:
    """Build the record of a sample that the scorers rank differently, with its names and values."""
    return MovedSample(sample, (float(values[0][mover.position]), float(values[1][mover.position])), mover)


def _find_constant(values: FloatArray) -> float | None:
    """Return the value that all samples have; None where they differ."""
    return float(values[0]) if (values == values[0]).all() else None


def _explain_no_common(dataset: str, sides: tuple[ComparedScorer, ComparedScorer]) -> str:
    """Return a sentence on why no sample has values of both scorers."""
    reasons = "; ".join(
        f"{side.scorer.name} has no value for {format_missing_scores(side)}" for side in sides if side.missing_by_status
    )
    return f"no sample of {dataset} has values of both scorers ({reasons}): score samples that both metrics can score"


def list_differences(first: StoredScorer, second: StoredScorer) -> tuple[tuple[str, Any, Any], ...]:
    """List the models, parameters and code version in which two scorers of one metric differ, as (name, value of the
    first, value of the second). Names of nested settings are joined by dots, and None stands for a missing value. Empty
    where nothing differs, and for scorers of different metrics.
    """
    if first.metric != second.metric:
        return ()
    sides = [
        {**_flatten("", scorer.models), **_flatten("", scorer.params), "code_version": scorer.code_version}
        for scorer in (first, second)
    ]
    names = dict.fromkeys([*sides[0], *sides[1]])
    return tuple((name, *pair) for name in names if (pair := (sides[0].get(name), sides[1].get(name)))[0] != pair[1])


def _flatten(prefix: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested settings as one dict, with dotted names."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= _flatten(f"{prefix}{name}.", value) if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return flat
