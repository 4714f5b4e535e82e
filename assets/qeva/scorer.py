"""QEVA: coverage, factuality and chronology of a caption by questions and answers, without asking a model itself."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from pydantic import BaseModel
from sqlalchemy.engine import Connection

from assets.qeva.answers import AnsweredQuestions, AnswerSource, StoredAnswer
from assets.qeva.questions import QuestionSource
from assets.qeva.roles import QEVAModelFactory
from assets.qeva.settings import QEVASettings
from assets.scores.base import Explanation, Outcome
from assets.sources.base import Evidence, Source
from db.evidence.qeva import GOOD_STATUSES
from db.schema.inputs import KEYPOINTS, REFERENCES, SEGMENTS, TEXT, VIDEO, Input
from db.scores.pending import PendingSample
from metrics_core.qeva import AnswerOutcome as AnswerOutcome
from metrics_core.qeva import (
    DimensionScore,
    FilterMark,
    QevaScore,
    compute_dimension_score,
    compute_empty_summary_score,
    compute_summary_score,
    is_empty_summary,
)
from metrics_core.qeva.records import DIMENSIONS, Question

# A sample's status by that of a dimension without a value, where no model failed. The first that applies counts.
SAMPLE_STATUSES = {"no_question": "no_questions", "one_event": "too_short", "few_questions": "few_questions"}


_DROPPED = {
    "trivial": "dropped: answered without the source",
    "low_quality": "dropped: not answered with the source in sight",
    "error": "set aside: the filter failed",
}
_VERDICT = {"correct": "right", "error": "no answer"}


class QEVAScorer:
    """Question-based evaluation of a caption: the mean of coverage, factuality and chronology."""

    metric: ClassVar[str] = "qeva"
    code_version: ClassVar[str] = "2"
    value_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    # Known before the settings are: with a video model alone, a changed reference costs a new score but no question.
    inputs: ClassVar[Collection[Input[Any]]] = (TEXT, VIDEO, REFERENCES, SEGMENTS, KEYPOINTS)
    rests_on: ClassVar[tuple[type[Source[Any]], ...]] = (AnswerSource,)
    settings: ClassVar[type[BaseModel]] = QEVASettings

    def __init__(self, settings: QEVASettings, factory: QEVAModelFactory) -> None:
        self.questions = QuestionSource(factory, self._is_scorable)
        self.answers = AnswerSource(factory, self.questions)
        self.sources: tuple[Source[Any], ...] = (self.answers,)
        self._settings = settings
        self._factory = factory

    @classmethod
    def from_settings(cls, settings: QEVASettings) -> QEVAScorer:
        """The scorer that the settings describe, with its real models, which load when they are first used."""
        return cls(settings, QEVAModelFactory.from_settings(settings))

    def models(self) -> dict[str, Any]:
        """What stands for the video, and the models in their roles."""
        return self._factory.list_identities()

    def params(self) -> dict[str, Any]:
        """What is done with failed answers. All else that moves the value is part of the models' identities."""
        return {"on_error": self._settings.qeva_on_error}

    def score(self, samples: Sequence[PendingSample], evidence: Evidence) -> list[Outcome]:
        """One outcome per sample, from its stored questions, marks and answers."""
        examined = evidence[self.answers]
        return [
            self._find_obstacle(sample) or self._score_one(sample, examined[sample.sample_id]) for sample in samples
        ]

    def explain(
        self, connection: Connection, sample: PendingSample, evidence: Evidence, components: Mapping[str, Any]
    ) -> Explanation:
        """Every question with its key, the answer and the verdict; of a dropped one, why."""
        return explain_qeva(evidence[self.answers][sample.sample_id], components)

    def refusal(self, sample: PendingSample) -> Outcome | None:
        """The outcome of a sample that cannot have a value, known before any model is asked; else None.

        Such a sample may still be asked about: dimensions that have enough questions are components of its score.
        """
        if refused := self._find_obstacle(sample):
            return refused
        if is_empty_summary(sample.text):
            return Outcome(None, "empty_text", "the summary is empty")
        if not (short := self._factory.list_shortages(sample)):
            return None
        statuses = {each.status for each in short}
        status = next(shown for status, shown in SAMPLE_STATUSES.items() if status in statuses)
        return Outcome(None, status, "; ".join(str(each.reason) for each in short))

    def _is_scorable(self, sample: PendingSample) -> bool:
        return self._find_obstacle(sample) is None

    def _find_obstacle(self, sample: PendingSample) -> Outcome | None:
        """Why nothing can be asked about a sample, known before any model is."""
        if sample.kind != "caption":
            return Outcome(None, "not_applicable", "QEVA asks about captions; this is a question-answer pair")
        return self._factory.material.find_refusal(sample)

    def _score_one(self, sample: PendingSample, examined: AnsweredQuestions) -> Outcome:
        if why := _explain_unfinished(examined):
            return Outcome(None, "failed", why)
        sets = {name: (one.question_set, one.filter_marks) for name, one in examined.sets.items()}
        if is_empty_summary(sample.text):
            result = compute_empty_summary_score(sets["coverage"], sets["chronology"])
        else:
            scored = {
                name: compute_dimension_score(*sets[name], _list_outcomes(examined, name), self._settings.qeva_on_error)
                for name in DIMENSIONS
            }
            result = compute_summary_score(scored, self._factory.count_sentences(sample.text))
        components = _build_components(result, self._factory.material.identity.model_id)
        if result.value is not None:
            return Outcome(result.value, components=components)
        return Outcome(None, _choose_status(result, examined), _explain_no_value(result, examined), components)


def _list_outcomes(examined: AnsweredQuestions, dimension: str) -> list[AnswerOutcome]:
    """The outcomes of the kept questions of a dimension, in order."""
    return [examined.answers[question_id].outcome for question_id in examined.sets[dimension].kept]


def _explain_unfinished(examined: AnsweredQuestions) -> str | None:
    """Why a number would be one of a part of the questions, which the next run completes; None where all is done.

    All systems of a video are scored on the same questions: a question that an error kept from the filter holds back
    the scores of them all.
    """
    marks = [mark for one in examined.sets.values() for mark in one.filter_marks]
    if unfiltered := [mark for mark in marks if mark.failure == "error"]:
        return f"{len(unfiltered)} of {len(marks)} questions could not be filtered: {unfiltered[0].reason}"
    if examined.n_missing:
        return f"{examined.n_missing} answers are missing, as the questions changed meanwhile: score again"
    return None


def _choose_status(result: QevaScore, examined: AnsweredQuestions) -> str:
    """The status of a sample without a value: "failed" only where another run may mend every dimension without one."""
    undefined = [one for one in result.dimensions if one.value is None]
    statuses = {one.status for one in undefined}
    if "empty_summary" in statuses:
        return "empty_text"
    troubles = [[status for status, _ in _list_failures(examined, one.dimension)] for one in undefined]
    if not any(troubles):
        return next(shown for status, shown in SAMPLE_STATUSES.items() if status in statuses)
    return "failed" if all("error" in of_dimension for of_dimension in troubles) else "unanswered"


def _list_failures(examined: AnsweredQuestions, dimension: str) -> list[tuple[str, str | None]]:
    """Status and reason of whatever a model did not write, filter or answer in a dimension."""
    one = examined.sets[dimension]
    written = [(str(one.question_set.status), one.question_set.reason)] if one.question_set.status != "ok" else []
    filtered = [(str(mark.failure), mark.reason) for mark in one.filter_marks if mark.decision == "error"]
    given = [answer.reply for question_id, answer in examined.answers.items() if question_id in one.kept]
    return [
        *written,
        *filtered,
        *((str(reply.status), reply.reason) for reply in given if reply.status not in GOOD_STATUSES),
    ]


def _explain_no_value(result: QevaScore, examined: AnsweredQuestions) -> str:
    """Why there is no value, with the words of the first trouble."""
    undefined = [one.dimension for one in result.dimensions if one.value is None and one.status != "empty_summary"]
    reasons = (reason for dimension in undefined for _, reason in _list_failures(examined, dimension))
    first = next(filter(None, reasons), None)
    return f"{result.reason}; {first}" if first and first not in (result.reason or "") else str(result.reason)


def _build_components(result: QevaScore, material: str) -> dict[str, Any]:
    return {
        **{one.dimension: one.value for one in result.dimensions},
        "partial_mean": result.partial_mean,
        "video_given_as": material,
        "questions": {one.dimension: _build_counts(one) for one in result.dimensions},
    }


def _build_counts(one: DimensionScore) -> dict[str, Any]:
    return {
        "generated": one.n_generated,
        "trivial": one.n_trivial,
        "low_quality": one.n_low_quality,
        "filter_error": one.n_filter_error,
        "kept": one.n_kept,
        "answer_error": one.n_answer_error,
        "scored": one.n_scored,
        "correct": one.n_correct,
        "abstained": one.n_abstain,
        "low": one.low,
        "high": one.high,
    }


def explain_qeva(examined: AnsweredQuestions, components: Mapping[str, Any]) -> Explanation:
    """A line for each dimension with its interval, and a row for each question."""
    lines = [f"the video is given as {components['video_given_as']}", *_format_lines(components)]
    if components.get("partial_mean") is not None and any(components[name] is None for name in DIMENSIONS):
        lines.append(f"mean of the defined dimensions {components['partial_mean']:.4f}, which is no QEVA")
    rows = [
        _build_row(question, mark, examined.answers.get(question_id))
        for dimension in DIMENSIONS
        if dimension in examined.sets
        for question_id, question, mark in examined.sets[dimension]
    ]
    return Explanation(lines, rows)


def _format_lines(components: Mapping[str, Any]) -> Iterator[str]:
    for dimension in DIMENSIONS:
        counts, value = components["questions"][dimension], components[dimension]
        dropped = (
            f"{counts['generated']} questions, {counts['trivial']} trivial, {counts['low_quality']} of low quality"
        )
        if value is None:
            yield f"{dimension} undefined: {dropped}, {counts['filter_error']} set aside, {counts['kept']} kept"
        else:
            yield (
                f"{dimension} {value:.4f} ({counts['low']:.2f} to {counts['high']:.2f}): {counts['correct']} of "
                f"{counts['scored']} right, {counts['abstained']} not answered; {dropped}"
            )


def _build_row(question: Question, mark: FilterMark | None, answer: StoredAnswer | None) -> dict[str, Any]:
    choices = f" ({' | '.join(question.choices)})" if question.kind in ("choice", "order") else ""
    shown = {"dimension": question.dimension, "question": f"{question.text}{choices}", "key": question.answer}
    if mark is None or mark.decision != "keep":
        verdict = "not filtered yet" if mark is None else _DROPPED[mark.decision]
        return {**shown, "answer": None, "verdict": verdict, "because": mark and mark.reason}
    if answer is None:
        return {**shown, "answer": None, "verdict": None, "because": None}
    reply, verdict = answer.reply, _VERDICT.get(answer.outcome, answer.outcome)
    said = reply.normalised if reply.status == "ok" else reply.status
    return {**shown, "answer": said, "verdict": verdict, "because": reply.evidence or reply.reason or reply.raw}
