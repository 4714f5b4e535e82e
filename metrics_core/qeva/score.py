"""Compute QEVA of a summary from stored questions, marks and outcomes, without a model (paper 3.4; spec 3.6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from metrics_core.arithmetic import wilson_interval
from metrics_core.qeva.filtering import AnswerOutcome, FilterMark
from metrics_core.qeva.records import Dimension, QuestionSet

DimensionStatus = Literal[
    "ok", "no_question", "few_questions", "generation_failed", "too_many_errors", "one_event", "empty_summary"
]


@dataclass(frozen=True, slots=True)
class DimensionScore:
    """The score of one dimension of one summary. value: the share of right answers among its scored questions, in [0,
    1], with Wilson's 95 % interval from low to high; all None unless status is "ok". reason: why there is no value. The
    fields n_... count questions and answers.

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

    n_generated: the usable questions that were written; after filtering, the sum of n_trivial, n_low_quality,
    n_filter_error and n_kept. n_answer_error: kept questions whose answers failed, were refused or could not be read.
    n_scored: the denominator of value. n_abstain: abstentions, because the context does not give the answer; they count
    as wrong.
    """

    dimension: Dimension
    status: DimensionStatus
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
    """QEVA of one summary, with the scores of its three dimensions. `value` is the mean of the three, None unless all
    are defined. `partial_mean` is the mean of the defined ones only; it is no QEVA, because it cannot be compared
    between summaries with different undefined dimensions.
    """

    coverage: DimensionScore
    factuality: DimensionScore
    chronology: DimensionScore

    @property
    def dimensions(self) -> tuple[DimensionScore, DimensionScore, DimensionScore]:
        """The scores of coverage, factuality and chronology, in this order."""
        return self.coverage, self.factuality, self.chronology

    @property
    def value(self) -> float | None:
        """QEVA, the mean of the three dimensions, in [0, 1]; None where one is undefined."""
        return self.partial_mean if all(score.value is not None for score in self.dimensions) else None

    @property
    def partial_mean(self) -> float | None:
        """The mean of the dimensions that are defined; None where none is. It is no QEVA: two summaries with different
        undefined dimensions cannot be compared by it.
        """
        values = [score.value for score in self.dimensions if score.value is not None]
        return sum(values) / len(values) if values else None

    @property
    def reason(self) -> str | None:
        """The causes why `value` is None, by dimension, joined by "; "; None where it is a number."""
        missing = [f"{score.dimension}: {score.reason}" for score in self.dimensions if score.value is None]
        return "; ".join(missing) or None


OnError = Literal["exclude", "wrong"]
# A dimension with a larger share of failed answers has no score: too little of it was measured.
MAX_ERROR_SHARE = 0.2
# With fewer questions one answer would decide on half of the value or on all of it.
MIN_QUESTIONS = 3
QUESTION_REMEDIES: Mapping[Dimension, str] = {
    "coverage": "give the video more keypoints, or more sentences in references",
    "factuality": "write a summary that states more",
    "chronology": "give the video more events, in segments of a reference or in keypoints with segment_index",
}


def compute_dimension_score(
    questions: QuestionSet,
    marks: Sequence[FilterMark],
    outcomes: Sequence[AnswerOutcome],
    on_error: OnError = "exclude",
) -> DimensionScore:
    """Return the score of one dimension of a summary, or a status where too few questions were kept or too many answers
    failed. marks: one for each question, in order. outcomes: one for each question that the marks keep, in order.
    on_error: "exclude" leaves failed answers out of the denominator, "wrong" counts them as wrong.

    Raises ValueError for another number of marks or outcomes, and for another on_error.
    """
    _check_marks_and_outcomes(questions, marks, outcomes, on_error)
    counts = _count_outcomes(questions, marks, outcomes)
    if questions.status != "ok":
        return replace(counts, status="generation_failed", reason=questions.reason or "the model wrote no questions")
    if counts.n_kept == 0:
        return replace(counts, status="no_question", reason=_explain_none_kept(questions, counts))
    if counts.n_kept < MIN_QUESTIONS:
        return replace(counts, status="few_questions", reason=_explain_few_kept(counts))
    if counts.n_answer_error > MAX_ERROR_SHARE * counts.n_kept:
        reason = f"{counts.n_answer_error} of {counts.n_kept} answers failed, more than {MAX_ERROR_SHARE:.0%}"
        return replace(counts, status="too_many_errors", reason=reason)
    n_scored = counts.n_kept - (counts.n_answer_error if on_error == "exclude" else 0)
    low, high = wilson_interval(counts.n_correct, n_scored)
    return replace(counts, value=counts.n_correct / n_scored, low=low, high=high, n_scored=n_scored)


def _count_outcomes(
    questions: QuestionSet, marks: Sequence[FilterMark], outcomes: Sequence[AnswerOutcome]
) -> DimensionScore:
    """Return the counts of a dimension's questions by decision and of its answers by outcome, as a score without a
    value. Its status is "ok", whatever the counts are. outcomes: of the answers to kept questions.
    """
    n_by_decision, n_by_outcome = Counter(mark.decision for mark in marks), Counter(outcomes)
    return DimensionScore(
        questions.dimension,
        "ok",
        n_generated=len(marks),
        n_trivial=n_by_decision["trivial"],
        n_low_quality=n_by_decision["low_quality"],
        n_filter_error=n_by_decision["error"],
        n_kept=n_by_decision["keep"],
        n_answer_error=n_by_outcome["error"],
        n_correct=n_by_outcome["correct"],
        n_abstain=n_by_outcome["abstain"],
    )


def _explain_none_kept(questions: QuestionSet, counts: DimensionScore) -> str:
    """Return the phrase that explains why a dimension has no question to score: none was written, or filtering kept
    none.
    """
    if counts.n_generated == 0:
        return questions.reason or "no question was written"
    return (
        f"filtering kept none of {counts.n_generated} questions: {counts.n_trivial} trivial, "
        f"{counts.n_low_quality} of low quality, {counts.n_filter_error} set aside by errors"
    )


def _explain_few_kept(counts: DimensionScore) -> str:
    """Return the phrase with how many questions a dimension has, how many it needs, and what would give it more."""
    kept = f"filtering kept {counts.n_kept} of {counts.n_generated} questions, and a score needs {MIN_QUESTIONS}"
    return f"{kept}: {QUESTION_REMEDIES[counts.dimension]}"


def compute_summary_score(scored: Mapping[Dimension, DimensionScore], n_sentences: int) -> QevaScore:
    """Return QEVA of a summary from its three dimensions. Chronology, and with it QEVA, becomes None (status
    "one_event") for a summary of fewer than two sentences that abstains from all its chronology questions. n_sentences:
    the summary's number of sentences.

    A single sentence that answers no question about order is taken to describe one event. The order of one event is not
    wrong but undefined.
    """
    chronology = scored["chronology"]
    is_silent = chronology.value is not None and chronology.n_abstain == chronology.n_scored
    if n_sentences < 2 and is_silent:
        reason = "the summary is a single sentence that gives no order: write two sentences or more"
        chronology = replace(chronology, status="one_event", value=None, low=None, high=None, n_scored=0, reason=reason)
    return QevaScore(scored["coverage"], scored["factuality"], chronology)


def is_empty_summary(summary: str) -> bool:
    """Whether a summary has neither a letter nor a digit, so that it answers nothing.

    >>> is_empty_summary(" ... "), is_empty_summary("A dog.")
    (True, False)
    """
    return not any(map(str.isalnum, summary))


def compute_empty_summary_score(
    coverage: tuple[QuestionSet, Sequence[FilterMark]], chronology: tuple[QuestionSet, Sequence[FilterMark]]
) -> QevaScore:
    """Return QEVA of an empty summary, without a model: coverage and chronology 0, factuality and the value None.
    Coverage and chronology have no value where too few questions were written or kept. coverage, chronology: the
    questions, and one mark for each question.

    An empty summary answers no question, and states nothing that is false.
    """
    answered = [
        compute_dimension_score(questions, marks, ["abstain"] * sum(mark.decision == "keep" for mark in marks))
        for questions, marks in (coverage, chronology)
    ]
    factuality = DimensionScore("factuality", "empty_summary", reason="the summary is empty")
    return QevaScore(answered[0], factuality, answered[1])


def find_question_shortage(questions: QuestionSet) -> DimensionScore | None:
    """Return a score without a value, with its reason, for a dimension with fewer than MIN_QUESTIONS (3) questions
    written; else None. Asks no model.

    None means that the dimension has a value if filtering keeps every question and few answers fail.

    >>> few = find_question_shortage(QuestionSet("chronology", (), n_requested=10, reason="the video has one event"))
    >>> few and few.reason
    'chronology gets 0 of the 3 questions that it needs: give the video more events, in segments of a reference or in \
keypoints with segment_index'
    >>> few and few.status
    'no_question'
    """
    n = len(questions.questions)
    if n >= MIN_QUESTIONS:
        return None
    dimension = questions.dimension
    reason = f"{dimension} gets {n} of the {MIN_QUESTIONS} questions that it needs: {QUESTION_REMEDIES[dimension]}"
    return DimensionScore(dimension, "few_questions" if n else "no_question", n_generated=n, reason=reason)


def _check_marks_and_outcomes(
    questions: QuestionSet, marks: Sequence[FilterMark], outcomes: Sequence[AnswerOutcome], on_error: str
) -> None:
    """Raise ValueError unless every question has a mark, every kept one an outcome, and `on_error` is "exclude" or
    "wrong".
    """
    if len(marks) != len(questions.questions):
        raise ValueError(
            f"The number of marks is {len(marks)}, that of questions {len(questions.questions)}: give one per question."
        )
    n_kept = sum(mark.decision == "keep" for mark in marks)
    if len(outcomes) != n_kept:
        raise ValueError(
            f"The number of outcomes is {len(outcomes)}, that of kept questions {n_kept}: give one per kept question."
        )
    if on_error not in ("exclude", "wrong"):
        raise ValueError(f'on_error is "exclude" or "wrong", not "{on_error}".')
