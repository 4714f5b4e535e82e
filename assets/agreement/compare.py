"""Compares two scorers on one dataset: with each other on common samples, and each with people's judgements."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sqlalchemy.engine import Connection, Engine

from assets.agreement.comparison import Comparison, format_missing_scores
from assets.agreement.judged import SEED, choose_n_resamples, load_judged_samples
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
    compare_scores,
    compare_with_people,
)
from metrics_core.arrays import FloatArray


class NothingToCompare(ValueError):
    """Raised when two scorers cannot be compared on a dataset; the message has the reason and a remedy."""

    plain = True


def compare_scorers(engine: Engine, dataset: Dataset, first: str, second: str, n_movers: int) -> Comparison:
    """Compare two scorers on the samples of a dataset that have values of both: how their values differ, which samples
    move most in rank, and which scorer agrees better with people. first, second: names such as `vcs` or `vcs@3`.
    n_movers: how many rising, and how many falling samples are listed. Reads one state of the database. Raises
    UnknownScorer or NothingToCompare.
    """
    # One snapshot, so that a run that scores at the same time changes neither scorer's values.
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
        scorers = _find_pair(connection, dataset, first, second)
        samples = list_dataset_samples(connection, dataset.dataset_id)
        columns, missing = zip(*(_load_values(connection, dataset, each, samples) for each in scorers), strict=True)
        common = np.flatnonzero(np.isfinite(columns).all(axis=0))
        if common.size == 0:
            raise NothingToCompare(_explain_no_common(dataset.name, scorers, missing))
        values = columns[0][common], columns[1][common]
        scores = compare_scores(*values, [samples[i].video_id for i in common], n_moved=n_movers, seed=SEED)
        ids = [samples[i].sample_id for i in common]
        names = load_named_samples(connection, [ids[each.position] for each in (*scores.moved_up, *scores.moved_down)])
        judged = load_judged_samples(connection, dataset, ())
    up, down = (
        tuple(_build_mover(each, names[ids[each.position]], values) for each in side)
        for side in (scores.moved_up, scores.moved_down)
    )
    places = np.searchsorted([sample.sample_id for sample in samples], judged.sample_ids)
    judged_values = columns[0][places], columns[1][places]
    baselines = judged.select_baselines(*(scorer.metric for scorer in scorers))
    n_resamples = choose_n_resamples(common.size)
    with_ratings, with_preferences = (
        compare_with_people(*judged_values, people, judged.videos, baselines, n_resamples=n_resamples, seed=SEED)
        for people in (judged.ratings, judged.choices)
    )
    return Comparison(
        first=scorers[0],
        second=scorers[1],
        missing=missing,
        differences=list_differences(*scorers),
        n_left_out=len(samples) - common.size,
        constant=(_find_constant(values[0]), _find_constant(values[1])),
        scores=scores,
        up=up,
        down=down,
        people=with_ratings,
        choices=with_preferences,
        n_judged=judged.sample_ids.size,
        n_others=judged.n_others,
        n_resamples=n_resamples,
    )


def _load_values(
    connection: Connection, dataset: Dataset, scorer: StoredScorer, samples: Sequence[SampleIds]
) -> tuple[FloatArray, Mapping[str, int]]:
    """Load a scorer's values of all samples of a dataset, NaN for none, and count the samples without one, such as with
    a stale score, by status.
    """
    stored = load_scorer_values(connection, scorer.scorer_id, dataset.dataset_id)
    results = [stored.get(sample.sample_id, (None, UNSCORED)) for sample in samples]
    missing = Counter(status for value, status in results if value is None)
    return np.array([math.nan if value is None else value for value, _ in results]), dict(missing.most_common())


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
                f"{scorer.name} has no score on {dataset.name}{elsewhere}: run reelsieve score --dataset "
                f"{dataset.name} --metric {scorer.metric}, with the models and parameters of {scorer.name} in the "
                "settings"
            )
    return first_scorer, second_scorer


def _build_mover(mover: MovedItem, sample: NamedSample, values: tuple[FloatArray, FloatArray]) -> dict[str, Any]:
    """Return a sample that the scorers rank differently as plain data: its names, its values, and its percentiles."""
    return {
        "sample": sample.key,
        "kind": sample.kind,
        "system": sample.system,
        "text": sample.text,
        "a": float(values[0][mover.position]),
        "b": float(values[1][mover.position]),
        "a_percentile": mover.first,
        "b_percentile": mover.second,
        "move": mover.move,
    }


def _find_constant(values: FloatArray) -> float | None:
    """Return the value that all samples have; None where they differ."""
    return float(values[0]) if (values == values[0]).all() else None


def _explain_no_common(dataset: str, scorers: Sequence[StoredScorer], missing: Sequence[Mapping[str, int]]) -> str:
    """Return a sentence on why no sample has values of both scorers."""
    reasons = "; ".join(
        f"{scorer.name} has no value for {format_missing_scores(counts)}"
        for scorer, counts in zip(scorers, missing, strict=True)
        if counts
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
