"""The result of comparing two scorers on one dataset: numbers, and the conclusions from them in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from assets.words.text import format_count
from db.scores.scorers import StoredScorer
from metrics_core.agreement import PeopleComparison, ScoreComparison
from metrics_core.agreement.coefficients import KENDALL
from metrics_core.agreement.conclusions import explain_too_few_videos
from metrics_core.agreement.preferences import PREFERENCE_ACCURACY

SIGNIFICANCE_LEVEL = 0.05
"""A difference with a p-value below this one counts as more than chance."""


@dataclass(frozen=True)
class Comparison:
    """The comparison of scorer A (`first`) and scorer B (`second`) on the samples with values of both. missing: samples
    without a value, by scorer and status; n_left_out: without one of the two. constant: by scorer the value that all
    samples have, None where values differ. up, down: the samples that B ranks most above, and below, their rank by A.

    differences: the models and parameters in which two scorers of one metric differ, as (name, of A, of B); empty for
    different metrics. people, choices: both scorers against ratings and labels, and against preferences, by aspect.
    n_judged: the samples that people rated, labelled or compared; n_others: those of another kind, which are left out.
    """

    first: StoredScorer
    second: StoredScorer
    missing: tuple[Mapping[str, int], Mapping[str, int]]
    differences: tuple[tuple[str, Any, Any], ...]
    n_left_out: int
    constant: tuple[float | None, float | None]
    scores: ScoreComparison
    up: tuple[Mapping[str, Any], ...]
    down: tuple[Mapping[str, Any], ...]
    people: tuple[PeopleComparison, ...]
    choices: tuple[PeopleComparison, ...]
    n_judged: int
    n_others: int
    n_resamples: int

    @property
    def is_same_metric(self) -> bool:
        """Whether both are scorers of one metric, so that their values have the same unit."""
        return self.first.metric == self.second.metric

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as plain data for JSON, where "a" is the first and "b" the second scorer, with its
        conclusions under "sentences". "mean_difference" is None for scorers of different metrics.
        """
        return {
            "a": {"name": self.first.name, **asdict(self.first), "without": dict(self.missing[0])},
            "b": {"name": self.second.name, **asdict(self.second), "without": dict(self.missing[1])},
            "differences": [{"name": name, "a": a, "b": b} for name, a, b in self.differences],
            "n": self.scores.n,
            "n_videos": self.scores.n_videos,
            "n_left_out": self.n_left_out,
            "n_resamples": self.n_resamples,
            "correlations": {name: asdict(result) for name, result in self.scores.correlations.items()},
            "mean_difference": asdict(self.scores.mean_difference) if self.is_same_metric else None,
            "up": [*self.up],
            "down": [*self.down],
            "n_judged": self.n_judged,
            "people": [_convert_people(result) for result in self.people],
            "side_by_side": [_convert_choices(result) for result in self.choices],
            "sentences": explain_comparison(self),
        }


def _convert_people(comparison: PeopleComparison) -> dict[str, Any]:
    row = asdict(comparison)
    if strongest := comparison.strongest:
        numbers = {name: getattr(strongest, name) for name in ("value", "low", "high", "n", "p")}
        row["strongest"] = {"name": strongest.metric, **numbers}
    return {{"first": "a", "second": "b"}.get(name, name): value for name, value in row.items()}


def _convert_choices(comparison: PeopleComparison) -> dict[str, Any]:
    """Return a comparison that has one statistic, and no simple score."""
    row = _convert_people(comparison)
    del row["strongest"]
    return {**row, **{name: row[name][PREFERENCE_ACCURACY] for name in ("a", "b", "difference")}}


def format_missing_scores(missing: Mapping[str, int]) -> str:
    """Return as text how many samples a scorer has no value for, in total and by status: `40 samples (30 too_short, 10
    stale)`. Without any it is `0 samples ()`.
    """
    reasons = ", ".join(f"{n:,} {reason}" for reason, n in missing.items())
    return f"{format_count(sum(missing.values()), 'sample')} ({reasons})"


def explain_comparison(comparison: Comparison) -> list[str]:
    """Return the conclusions of a comparison as sentences without full stops. First come warnings of scorers without
    different values, too few samples or videos, and missing judgements, then for every aspect which scorer is closer to
    people, or why that is open.
    """
    sentences = []
    for scorer, value in zip((comparison.first, comparison.second), comparison.constant, strict=True):
        if value is not None and comparison.scores.n > 1:
            sentences.append(
                f"{scorer.name} gives all {comparison.scores.n} samples the value {value:g}, so it cannot order them"
            )
    if comparison.scores.n == 1:
        sentences.append("only one sample has values of both scorers: a correlation needs two")
    elif comparison.scores.n_videos == 1:
        sentences.append("there are no intervals, since all samples belong to one video")
    if not comparison.n_judged:
        sentences.append("which scorer is closer to people is unknown, since no sample has ratings or labels")
    if comparison.n_others:
        others = format_count(comparison.n_others, "question-answer pair")
        sentences.append(f"only captions are compared with people, who also judged {others}")
    sentences += [_explain_people(result, comparison) for result in comparison.people]
    return sentences + [_explain_choices(result, comparison) for result in comparison.choices]


def _explain_choices(result: PeopleComparison, comparison: Comparison) -> str:
    """Return a sentence on which scorer prefers what people prefer more often, by one aspect, and whether that is
    chance.
    """
    where = f"{result.aspect}, side by side"
    first, second = (side[PREFERENCE_ACCURACY].value for side in (result.first, result.second))
    if first is None or second is None:
        return f"{where}: no pair with a preference has both values; compare more pairs"
    n = f"{result.n} answer{'' if result.n == 1 else 's'}"
    shares = (
        f"{comparison.first.name} prefers the caption that people prefer in {first:.0%} of {n}, "
        f"{comparison.second.name} in {second:.0%}"
    )
    return f"{where}: {_explain_closer(result, PREFERENCE_ACCURACY, comparison, comparison.choices)}; {shares}"


def _explain_people(result: PeopleComparison, comparison: Comparison) -> str:
    """Return a sentence on which scorer has the higher Kendall's tau-b with people, by one aspect, and whether that is
    chance.
    """
    names = comparison.first.name, comparison.second.name
    tau, r = ((result.first[name].value, result.second[name].value) for name in (KENDALL, "pearson"))
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
        difference += f"; the simple score {result.strongest.metric} has {result.strongest.value:.3f}"
    return f"{result.aspect}: {_explain_closer(result, KENDALL, comparison, comparison.people)}; {difference}"


def _explain_closer(
    result: PeopleComparison, statistic: str, comparison: Comparison, tested: Sequence[PeopleComparison]
) -> str:
    """Return which scorer is closer to people by a statistic, or that this is open. tested: the comparisons of all
    aspects that p-values are corrected for.
    """
    if few := explain_too_few_videos(result.n_videos):
        return f"which is closer to people is open: {few}"
    aspects = sum(other.p is not None for other in tested)
    corrected = f", corrected for {aspects} aspects" if aspects > 1 else ""
    p = "" if result.p_holm is None else f" (p = {result.p_holm:.3f}{corrected})"
    if result.p_holm is None or result.p_holm >= SIGNIFICANCE_LEVEL:
        return f"the difference may be chance{p}"
    gain = result.difference[statistic].value or 0.0
    closer = comparison.second if gain > 0 else comparison.first
    return f"{closer.name} is closer to people by more than chance{p}"
