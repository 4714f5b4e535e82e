"""The result of QEVA for one summary. Nothing undefined is a number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from metrics_core.qeva.records import Dimension

ScoreStatus = Literal[
    "ok", "no_question", "few_questions", "generation_failed", "too_many_errors", "one_event", "empty_summary"
]


@dataclass(frozen=True, slots=True)
class DimensionScore:
    """The share of right answers among the kept questions of a dimension, in [0, 1]; None unless status is "ok".

    =================  ==============================================================
    status             meaning
    =================  ==============================================================
    ok                 scored
    no_question        no question was written, or filtering kept none
    few_questions      filtering kept fewer than 3 questions
    generation_failed  the model that writes the questions refused or failed
    too_many_errors    more than 20 % of the answers failed
    one_event          chronology of a summary of one sentence that answers no question about order
    empty_summary      factuality of a summary that states nothing
    =================  ==============================================================

    low, high: Wilson's 95 % interval of value. n_generated: the usable questions that were written, the sum of
    n_trivial, n_low_quality, n_filter_error and n_kept. n_answer_error: kept questions whose answers failed, were
    refused or could not be read. n_scored: the denominator of value. n_abstain: answers that say the context does not
    tell; they count as wrong. reason: why there is no value.
    """

    dimension: Dimension
    status: ScoreStatus
    value: float | None = None
    low: float | None = None
    high: float | None = None
    n_generated: int = 0
    n_trivial: int = 0
    n_low_quality: int = 0
    n_filter_error: int = 0
    n_kept: int = 0
    n_answer_error: int = 0
    n_scored: int = 0
    n_correct: int = 0
    n_abstain: int = 0
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class QevaScore:
    """QEVA of a summary, in [0, 1]: the mean of the three dimensions, None unless all three are defined.

    partial_mean: the mean of those that are defined, which equals `value` where all are; None where none is. It is
    no QEVA: two summaries with different undefined dimensions cannot be compared by it.
    """

    coverage: DimensionScore
    factuality: DimensionScore
    chronology: DimensionScore

    @property
    def dimensions(self) -> tuple[DimensionScore, DimensionScore, DimensionScore]:
        """Coverage, factuality and chronology."""
        return self.coverage, self.factuality, self.chronology

    @property
    def value(self) -> float | None:
        """QEVA; None where a dimension is undefined."""
        return self.partial_mean if all(one.value is not None for one in self.dimensions) else None

    @property
    def partial_mean(self) -> float | None:
        """The mean of the dimensions that are defined."""
        values = [one.value for one in self.dimensions if one.value is not None]
        return sum(values) / len(values) if values else None

    @property
    def reason(self) -> str | None:
        """Why `value` is None, dimension by dimension; None where it is a number."""
        missing = [f"{one.dimension}: {one.reason}" for one in self.dimensions if one.value is None]
        return "; ".join(missing) or None
