"""Two scorers on one dataset: the samples that both have a value for, and what people say of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sqlalchemy.engine import Connection, Engine

from assets.agreement.rows import MAJORITY, SEED, STORED, by_aspect, choices_of, load_simple_scores, resamples_for
from db.manifest.datasets import Dataset
from db.reports.agreement import JudgedSample, judged_samples, preferences_of, ratings_of
from db.scores.scorers import (
    UNSCORED,
    DatasetSample,
    NamedSample,
    StoredScorer,
    dataset_samples,
    list_scorers,
    named_samples,
    scored_datasets,
    values_of,
)
from metrics_core.agreement import (
    Choices,
    ChoicesCompared,
    Mover,
    PeopleCompared,
    ScoresCompared,
    compare_choices,
    compare_scores,
    compare_with_people,
)
from metrics_core.agreement.verdicts import too_few
from metrics_core.arrays import FloatArray

# What a comparison of two scorers says: its numbers as data, and its conclusions as sentences.

CHANCE = 0.05
"""A difference that chance gives less often than this is called more than chance."""


@dataclass(frozen=True)
class Side:
    """One scorer. without: for each reason, the number of samples that it has no value for."""

    scorer: StoredScorer
    without: Mapping[str, int]


@dataclass(frozen=True)
class MovedSample:
    """A sample that the two scorers rank differently, with both values and percentiles (see `Mover`)."""

    sample: NamedSample
    values: tuple[float, float]
    mover: Mover


@dataclass(frozen=True)
class Comparison:
    """Scorer A (first) and scorer B (second) on a dataset.

    differences: the models and parameters in which two scorers of one metric differ: name, of A, of B; empty for
    different metrics. n_left_out: samples without a value on a side. constant: for each side its only value, or None.
    people, choices: both against ratings and labels, and against preferences. n_judged: the samples that people rated,
    labelled or compared.
    """

    first: Side
    second: Side
    differences: tuple[tuple[str, Any, Any], ...]
    n_left_out: int
    constant: tuple[float | None, float | None]
    scores: ScoresCompared
    up: tuple[MovedSample, ...]
    down: tuple[MovedSample, ...]
    people: tuple[PeopleCompared, ...]
    choices: tuple[ChoicesCompared, ...]
    n_judged: int
    n_resamples: int

    @property
    def same_metric(self) -> bool:
        """Whether both are scorers of one metric, so that their values are in one unit."""
        return self.first.scorer.metric == self.second.scorer.metric

    def as_dict(self) -> dict[str, Any]:
        """The comparison as JSON; first is A and second is B."""
        return {
            "a": _side(self.first),
            "b": _side(self.second),
            "differences": [{"name": name, "a": a, "b": b} for name, a, b in self.differences],
            "n": self.scores.n,
            "n_videos": self.scores.n_videos,
            "n_left_out": self.n_left_out,
            "n_resamples": self.n_resamples,
            "correlations": {name: asdict(each) for name, each in self.scores.correlations.items()},
            "mean_difference": asdict(self.scores.mean_difference) if self.same_metric else None,
            "up": [_scores_moved(each) for each in self.up],
            "down": [_scores_moved(each) for each in self.down],
            "n_judged": self.n_judged,
            "people": [_people(each) for each in self.people],
            "side_by_side": [_people(each) for each in self.choices],
            "sentences": sentences(self),
        }


def _side(side: Side) -> dict[str, Any]:
    return {"name": side.scorer.name, **asdict(side.scorer), "without": dict(side.without)}


def _scores_moved(each: MovedSample) -> dict[str, Any]:
    return {
        "sample": each.sample.key,
        **{name: getattr(each.sample, name) for name in ("kind", "system", "text")},
        "a": each.values[0],
        "b": each.values[1],
        "a_percentile": each.mover.first,
        "b_percentile": each.mover.second,
        "move": each.mover.move,
    }


def _people(each: PeopleCompared | ChoicesCompared) -> dict[str, Any]:
    row = asdict(each)
    return {{"first": "a", "second": "b"}.get(name, name): value for name, value in row.items()}


def differences(first: StoredScorer, second: StoredScorer) -> tuple[tuple[str, Any, Any], ...]:
    """Name the models, parameters and code versions in which two scorers of one metric differ."""
    if first.metric != second.metric:
        return ()
    sides = [
        {**_flat("", scorer.models), **_flat("", scorer.params), "code_version": scorer.code_version}
        for scorer in (first, second)
    ]
    names = dict.fromkeys([*sides[0], *sides[1]])
    return tuple((name, *pair) for name in names if (pair := (sides[0].get(name), sides[1].get(name)))[0] != pair[1])


def _flat(prefix: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Nested settings by their dotted names."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= _flat(f"{prefix}{name}.", value) if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return flat


def left_out(side: Side) -> str:
    """`40 samples (30 too_short, 10 stale)`."""
    reasons = ", ".join(f"{n} {reason}" for reason, n in side.without.items())
    n = sum(side.without.values())
    return f"{n} sample{'' if n == 1 else 's'} ({reasons})"


def sentences(found: Comparison) -> list[str]:
    """What follows from the numbers, one sentence for each thing that a reader should know."""
    said = []
    for side, value in zip((found.first, found.second), found.constant, strict=True):
        if value is not None and found.scores.n > 1:
            said.append(f"{side.scorer.name} is {value:g} for all {found.scores.n} samples: it orders nothing")
    if found.scores.n == 1:
        said.append("one sample has a value of both scorers: correlations need two")
    elif found.scores.n_videos == 1:
        said.append("all samples are of one video: intervals need several")
    if not found.n_judged:
        said.append("no sample has ratings or labels: they would show which scorer is closer to people")
    said += [verdict(each, found) for each in found.people]
    return said + [_of_choices(each, found) for each in found.choices]


def _of_choices(each: ChoicesCompared, found: Comparison) -> str:
    """Does one scorer prefer what people prefer more often, by one aspect?"""
    names = found.first.scorer.name, found.second.scorer.name
    if each.first.value is None or each.second.value is None:
        return (
            f"{each.aspect}, side by side: no pair that people decided has values of both scorers: compare more pairs"
        )
    n = f"{each.n} answer{'' if each.n == 1 else 's'}"
    shares = (
        f"{names[0]} prefers the caption that people prefer in {each.first.value:.0%} of {n}, {names[1]} in "
        f"{each.second.value:.0%}"
    )
    if few := too_few(each.n_videos):
        return f"{each.aspect}, side by side: which is closer to people is open: {few}; {shares}"
    aspects = sum(other.p is not None for other in found.choices)
    corrected = f", corrected for {aspects} aspects" if aspects > 1 else ""
    if each.p_holm is None or each.p_holm >= CHANCE:
        p = "" if each.p_holm is None else f" (p = {each.p_holm:.3f}{corrected})"
        return f"{each.aspect}, side by side: the difference may be chance{p}; {shares}"
    closer = names[1] if each.second.value > each.first.value else names[0]
    p = f"p = {each.p_holm:.3f}{corrected}"
    return f"{each.aspect}, side by side: {closer} is closer to people by more than chance ({p}); {shares}"


def verdict(people: PeopleCompared, found: Comparison) -> str:
    """Is the difference between the scorers more than chance, by one aspect? It is that of Kendall's tau-b."""
    names = found.first.scorer.name, found.second.scorer.name
    tau, r = ((people.first[name].value, people.second[name].value) for name in ("kendall_b", "pearson"))
    n = f"{people.n} sample{'' if people.n == 1 else 's'}"
    if people.n < 2:
        return f"{people.aspect}: {n} with ratings and both values, which is too few to compare: rate more samples"
    if tau[0] is None and tau[1] is None:
        return f"{people.aspect}: the ratings of {n}, or both scorers, are constant, so nothing can be compared"
    if tau[0] is None or tau[1] is None:
        constant = names[0] if tau[0] is None else names[1]
        return f"{people.aspect}: {constant} has one value for {n}, so it orders nothing"
    difference = f"Kendall's tau-b with people is {tau[0]:.3f} for {names[0]} and {tau[1]:.3f} for {names[1]}"
    if r[0] is not None and r[1] is not None:
        difference += f" (Pearson's r {r[0]:.3f} and {r[1]:.3f})"
    if people.strongest and people.strongest.value is not None:
        difference += f"; {people.strongest.name} alone has {people.strongest.value:.3f}"
    if few := too_few(people.n_videos):
        return f"{people.aspect}: which is closer to people is open: {few}; {difference}"
    aspects = sum(each.p is not None for each in found.people)
    corrected = f", corrected for {aspects} aspects" if aspects > 1 else ""
    p = f"p = {people.p_holm:.3f}{corrected}"
    if people.p_holm is None or people.p_holm >= CHANCE:
        return f"{people.aspect}: the difference may be chance ({p}); {difference}"
    closer = names[1] if tau[1] > tau[0] else names[0]
    return f"{people.aspect}: {closer} is closer to people by more than chance ({p}); {difference}"


# Scorers by the names that people give them on the command line.

SHOWN = 12
LEAST_DIGITS = 4
"""A digest is named by so many of its first digits or more."""


class UnknownScorer(ValueError):
    """A name that no scorer has, or several have."""

    plain = True


def find_named(scorers: Sequence[StoredScorer], name: str) -> StoredScorer:
    """Find the scorer called METRIC (its active scorer), METRIC@NUMBER, NUMBER, METRIC@DIGEST or DIGEST.

    NUMBER is the `scorer_id` of view score_history, DIGEST the first 4 or more digits of the scorer's fingerprint; a
    name that is both is a number. Raises UnknownScorer, which lists the scorers there are.
    """
    metric, at, which = name.rpartition("@")
    of_metric = [each for each in scorers if not at or each.metric == metric]
    if not at and (same := [each for each in scorers if each.metric == name]):
        active = [each for each in same if each.status == "active"]
        if not active:
            raise UnknownScorer(f"no scorer of {name} is active: name one of {_listed(same)}")
        return active[0]
    numbered = [each for each in of_metric if str(each.scorer_id) == which]
    long_enough = len(which) >= LEAST_DIGITS
    found = numbered or [each for each in of_metric if long_enough and each.fingerprint.startswith(which.lower())]
    if len(found) == 1:
        return found[0]
    if found:
        raise UnknownScorer(f"{name!r} names {len(found)} scorers: name one of {_listed(found)}")
    if not scorers:
        raise UnknownScorer(f"there is no scorer {name!r}, because nothing is scored yet: run reelsieve score first")
    raise UnknownScorer(
        f"there is no scorer {name!r}: name one of {_listed(of_metric or scorers)}, or score with it first"
    )


def listed_of(scorers: Sequence[StoredScorer], chosen: StoredScorer) -> str:
    """The other scorers, those of the same metric first, as a sentence lists them."""
    others = [each for each in scorers if each.scorer_id != chosen.scorer_id]
    return _listed(sorted(others, key=lambda each: each.metric != chosen.metric))


def _listed(scorers: Sequence[StoredScorer]) -> str:
    """`vcs@1 (retired), vcs@3 (active)`, and how many more."""
    names = ", ".join(f"{each.name} ({each.status})" for each in scorers[:SHOWN])
    return names if len(scorers) <= SHOWN else f"{names} and {len(scorers) - SHOWN} more"


class NothingToCompare(ValueError):
    """Two scorers that cannot be compared on a dataset."""

    plain = True


@dataclass(frozen=True)
class Loaded:
    """A dataset's samples with two scorers' values (n,), NaN for none; of those that people judged more.

    ratings, choices, baselines: of the judged samples, see `Judged`; baselines without the two that are compared.
    """

    samples: list[DatasetSample]
    sides: tuple[Side, Side]
    values: tuple[FloatArray, FloatArray]
    judged: list[JudgedSample]
    ratings: dict[str, FloatArray]
    choices: dict[str, Choices]
    baselines: dict[str, FloatArray]


def compare(engine: Engine, dataset: Dataset, first: str, second: str, n_movers: int) -> Comparison:
    """Compare the scorers of these names. Raises UnknownScorer and NothingToCompare, with the remedy."""
    # One snapshot: a run that scores meanwhile changes nothing between the two scorers.
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
        loaded = load(connection, dataset, *_pair(connection, dataset, first, second))
        common = np.flatnonzero(np.isfinite(loaded.values[0]) & np.isfinite(loaded.values[1]))
        if common.size == 0:
            raise NothingToCompare(_nothing_common(dataset.name, loaded.sides))
        kept, values = [loaded.samples[i] for i in common], (loaded.values[0][common], loaded.values[1][common])
        n_resamples = resamples_for(len(kept))
        videos = [each.video_id for each in kept]
        scores = compare_scores(*values, videos, n_movers=n_movers, seed=SEED)
        movers = (*scores.up, *scores.down)
        names = named_samples(connection, [kept[mover.position].sample_id for mover in movers])
    up, down = (
        tuple(_samples_moved(mover, names[kept[mover.position].sample_id], values) for mover in side)
        for side in (scores.up, scores.down)
    )
    return Comparison(
        first=loaded.sides[0],
        second=loaded.sides[1],
        differences=differences(loaded.sides[0].scorer, loaded.sides[1].scorer),
        n_left_out=len(loaded.samples) - len(kept),
        constant=(_only(values[0]), _only(values[1])),
        scores=scores,
        up=up,
        down=down,
        people=_with_people(loaded, n_resamples),
        choices=compare_choices(*_of_judged(loaded), loaded.choices, seed=SEED),
        n_judged=len(loaded.judged),
        n_resamples=n_resamples,
    )


def load(connection: Connection, dataset: Dataset, first: StoredScorer, second: StoredScorer) -> Loaded:
    """Read what two scorers and people say of a dataset's samples."""
    samples = dataset_samples(connection, dataset.dataset_id)
    columns = []
    for scorer in (first, second):
        stored = values_of(connection, scorer.scorer_id, dataset.dataset_id)
        found = [stored.get(each.sample_id, (None, UNSCORED)) for each in samples]
        without = Counter(status for value, status in found if value is None)
        values = np.array([math.nan if value is None else value for value, _ in found])
        columns.append((Side(scorer, dict(without.most_common())), values))
    judged = judged_samples(connection, dataset.dataset_id)
    rated = by_aspect(judged, ratings_of(connection, dataset.dataset_id))
    ratings = {aspect: each.values for aspect, each in rated.items()}
    (one, left), (other, right) = columns
    compared = {side.scorer.metric for side, _ in columns}
    simple = load_simple_scores(connection, dataset.dataset_id, judged)
    # A simple score that is compared does not stand beside itself.
    beside = {name: found.values for name, found in simple.items() if STORED.get(name) not in compared}
    choices = choices_of(judged, preferences_of(connection, dataset.dataset_id))
    return Loaded(samples, (one, other), (left, right), judged, ratings, choices, beside)


def _pair(connection: Connection, dataset: Dataset, first: str, second: str) -> tuple[StoredScorer, StoredScorer]:
    """The two scorers of these names, each with a score on the dataset."""
    scorers = list_scorers(connection)
    one, other = (find_named(scorers, name) for name in (first, second))
    if one.scorer_id == other.scorer_id:
        others = listed_of(scorers, one)
        remedy = f"name another one: {others}" if others else "score with other settings or another metric first"
        raise NothingToCompare(f"{first!r} and {second!r} are the same scorer, {one.name}: {remedy}")
    for scorer in (one, other):
        scored = scored_datasets(connection, scorer.scorer_id)
        if dataset.name not in scored:
            elsewhere = f", only {', '.join(scored)}" if scored else ""
            raise NothingToCompare(
                f"{scorer.name} has not scored {dataset.name}{elsewhere}: with its settings run reelsieve score "
                f"--dataset {dataset.name} --metric {scorer.metric}"
            )
    return one, other


def _with_people(loaded: Loaded, n_resamples: int) -> tuple[PeopleCompared, ...]:
    """Compare both scorers with the ratings and labels of the dataset."""
    videos = [each.video_id for each in loaded.judged]
    first, second = _of_judged(loaded)
    beside = {name: values for name, values in loaded.baselines.items() if name != MAJORITY}
    return compare_with_people(first, second, loaded.ratings, videos, beside, n_resamples=n_resamples, seed=SEED)


def _of_judged(loaded: Loaded) -> tuple[FloatArray, FloatArray]:
    """The two scorers' values of the judged samples."""
    row_of = {each.sample_id: row for row, each in enumerate(loaded.samples)}
    rows = [row_of[each.sample_id] for each in loaded.judged]
    return loaded.values[0][rows], loaded.values[1][rows]


def _samples_moved(mover: Mover, sample: NamedSample, values: tuple[FloatArray, FloatArray]) -> MovedSample:
    """A mover with its names and values."""
    return MovedSample(sample, (float(values[0][mover.position]), float(values[1][mover.position])), mover)


def _only(values: FloatArray) -> float | None:
    """The value that all samples have; None where they differ."""
    return float(values[0]) if (values == values[0]).all() else None


def _nothing_common(dataset: str, sides: tuple[Side, Side]) -> str:
    """Say why no sample has both values."""
    reasons = "; ".join(f"{side.scorer.name} has no value for {left_out(side)}" for side in sides if side.without)
    return f"no sample of {dataset} has a value of both scorers ({reasons}): score what both metrics can score"
