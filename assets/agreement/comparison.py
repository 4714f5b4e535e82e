"""The result of comparing two scorers on one dataset: numbers, and the conclusions from them in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from db.scores.scorers import NamedSample, StoredScorer
from metrics_core.agreement import MovedItem, PeopleComparison, PreferenceComparison, ScoreComparison
from metrics_core.agreement.conclusions import explain_too_few_videos

SIGNIFICANCE_LEVEL = 0.05
"""A difference with a p-value below this one counts as more than chance."""


@dataclass(frozen=True)
class ComparedScorer:
    """A scorer in a comparison of two. missing_by_status: how many samples of the dataset it has no value for, by
    status.
    """

    scorer: StoredScorer
    missing_by_status: Mapping[str, int]


@dataclass(frozen=True)
class MovedSample:
    """A sample that two scorers rank differently. sample: its key, text and system; values: its values by the first and
    the second scorer; mover: its percentiles by both.
    """

    sample: NamedSample
    values: tuple[float, float]
    mover: MovedItem


@dataclass(frozen=True)
class Comparison:
    """The result of comparing scorer A (`first`) and scorer B (`second`) on the samples of a dataset that have values
    of both. up, down: the samples that B ranks most above, and most below, their rank by A. n_left_out: samples without
    a value of one of the two. constant: for either scorer the value that all samples have, or None where values differ.

    differences: the models and parameters in which two scorers of one metric differ, as (name, of A, of B); empty for
    different metrics. people, choices: both scorers against ratings and labels, and against preferences, by aspect.
    n_judged: the samples that people rated, labelled or compared.
    """

    first: ComparedScorer
    second: ComparedScorer
    differences: tuple[tuple[str, Any, Any], ...]
    n_left_out: int
    constant: tuple[float | None, float | None]
    scores: ScoreComparison
    up: tuple[MovedSample, ...]
    down: tuple[MovedSample, ...]
    people: tuple[PeopleComparison, ...]
    choices: tuple[PreferenceComparison, ...]
    n_judged: int
    n_resamples: int

    @property
    def is_same_metric(self) -> bool:
        """Whether both are scorers of one metric, so that their values have the same unit."""
        return self.first.scorer.metric == self.second.scorer.metric

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as plain data for JSON, where "a" is the first and "b" the second scorer, with its
        conclusions under "sentences". "mean_difference" is None for scorers of different metrics.
        """
        return {
            "a": _convert_side(self.first),
            "b": _convert_side(self.second),
            "differences": [{"name": name, "a": a, "b": b} for name, a, b in self.differences],
            "n": self.scores.n,
            "n_videos": self.scores.n_videos,
            "n_left_out": self.n_left_out,
            "n_resamples": self.n_resamples,
            "correlations": {name: asdict(result) for name, result in self.scores.correlations.items()},
            "mean_difference": asdict(self.scores.mean_difference) if self.is_same_metric else None,
            "up": [_convert_moved_sample(result) for result in self.up],
            "down": [_convert_moved_sample(result) for result in self.down],
            "n_judged": self.n_judged,
            "people": [_convert_people(result) for result in self.people],
            "side_by_side": [_convert_people(result) for result in self.choices],
            "sentences": explain_comparison(self),
        }


def _convert_side(side: ComparedScorer) -> dict[str, Any]:
    return {"name": side.scorer.name, **asdict(side.scorer), "without": dict(side.missing_by_status)}


def _convert_moved_sample(moved: MovedSample) -> dict[str, Any]:
    return {
        "sample": moved.sample.key,
        **{name: getattr(moved.sample, name) for name in ("kind", "system", "text")},
        "a": moved.values[0],
        "b": moved.values[1],
        "a_percentile": moved.mover.first,
        "b_percentile": moved.mover.second,
        "move": moved.mover.move,
    }


def _convert_people(comparison: PeopleComparison | PreferenceComparison) -> dict[str, Any]:
    row = asdict(comparison)
    return {{"first": "a", "second": "b"}.get(name, name): value for name, value in row.items()}


def format_missing_scores(side: ComparedScorer) -> str:
    """Return as text how many samples a scorer has no value for, in total and by status: `40 samples (30 too_short, 10
    stale)`. Without any it is `0 samples ()`.
    """
    reasons = ", ".join(f"{n} {reason}" for reason, n in side.missing_by_status.items())
    n = sum(side.missing_by_status.values())
    return f"{n} sample{'' if n == 1 else 's'} ({reasons})"


def explain_comparison(comparison: Comparison) -> list[str]:
    """Return the conclusions of a comparison as sentences without full stops. First come scorers that give all samples
    one value, too few samples or videos, and missing judgements. Then follows for every aspect which scorer is closer
    to people, or why that is open.
    """
    sentences = []
    for side, value in zip((comparison.first, comparison.second), comparison.constant, strict=True):
        if value is not None and comparison.scores.n > 1:
            sentences.append(
                f"{side.scorer.name} gives all {comparison.scores.n} samples the value {value:g}, so it cannot order "
                "them"
            )
    if comparison.scores.n == 1:
        sentences.append("only one sample has values of both scorers: a correlation needs two")
    elif comparison.scores.n_videos == 1:
        sentences.append("there are no intervals, since all samples belong to one video")
    if not comparison.n_judged:
        sentences.append("which scorer is closer to people is unknown, since no sample has ratings or labels")
    sentences += [_explain_people(result, comparison) for result in comparison.people]
    return sentences + [_explain_choices(result, comparison) for result in comparison.choices]


def _explain_choices(result: PreferenceComparison, comparison: Comparison) -> str:
    """Return a sentence on which scorer prefers what people prefer more often, by one aspect, and whether that is
    chance.
    """
    names = comparison.first.scorer.name, comparison.second.scorer.name
    if result.first.value is None or result.second.value is None:
        return f"{result.aspect}, side by side: no pair with a preference has both values; compare more pairs"
    n = f"{result.n} answer{'' if result.n == 1 else 's'}"
    shares = (
        f"{names[0]} prefers the caption that people prefer in {result.first.value:.0%} of {n}, {names[1]} in "
        f"{result.second.value:.0%}"
    )
    if few := explain_too_few_videos(result.n_videos):
        return f"{result.aspect}, side by side: which is closer to people is open: {few}; {shares}"
    aspects = sum(other.p is not None for other in comparison.choices)
    corrected = f", corrected for {aspects} aspects" if aspects > 1 else ""
    if result.p_holm is None or result.p_holm >= SIGNIFICANCE_LEVEL:
        p = "" if result.p_holm is None else f" (p = {result.p_holm:.3f}{corrected})"
        return f"{result.aspect}, side by side: the difference may be chance{p}; {shares}"
    closer = names[1] if result.second.value > result.first.value else names[0]
    p = f"p = {result.p_holm:.3f}{corrected}"
    return f"{result.aspect}, side by side: {closer} is closer to people by more than chance ({p}); {shares}"


def _explain_people(result: PeopleComparison, comparison: Comparison) -> str:
    """Return a sentence on which scorer has the higher Kendall's tau-b with people, by one aspect, and whether that is
    chance.
    """
    names = comparison.first.scorer.name, comparison.second.scorer.name
    tau, r = ((result.first[name].value, result.second[name].value) for name in ("kendall_b", "pearson"))
    n = f"{result.n} sample{'' if result.n == 1 else 's'}"
    if result.n < 2:
        return (
            f"{result.aspect}: too few samples to compare, {result.n} with ratings and values of both scorers; rate "
            "more samples"
        )
    if tau[0] is None and tau[1] is None:
        return (
            f"{result.aspect}: nothing can be compared, since the ratings of {n} are all equal, or both scorers "
            "are constant"
        )
    if tau[0] is None or tau[1] is None:
        constant = names[0] if tau[0] is None else names[1]
        return f"{result.aspect}: {constant} has the same value for {n}, so it cannot order them"
    difference = f"Kendall's tau-b with people is {tau[0]:.3f} for {names[0]} and {tau[1]:.3f} for {names[1]}"
    if r[0] is not None and r[1] is not None:
        difference += f" (Pearson's r {r[0]:.3f} and {r[1]:.3f})"
    if result.strongest and result.strongest.value is not None:
        difference += f"; the simple score {result.strongest.name} has {result.strongest.value:.3f}"
    if few := explain_too_few_videos(result.n_videos):
        return f"{result.aspect}: which is closer to people is open: {few}; {difference}"
    aspects = sum(other.p is not None for other in comparison.people)
    corrected = f", corrected for {aspects} aspects" if aspects > 1 else ""
    p = f"p = {result.p_holm:.3f}{corrected}"
    if result.p_holm is None or result.p_holm >= SIGNIFICANCE_LEVEL:
        return f"{result.aspect}: the difference may be chance ({p}); {difference}"
    closer = names[1] if tau[1] > tau[0] else names[0]
    return f"{result.aspect}: {closer} is closer to people by more than chance ({p}); {difference}"
