"""QEVA: coverage, factuality and chronology of a caption by questions and answers, without asking a model itself."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from pydantic import BaseModel
from sqlalchemy.engine import Connection

from assets.qeva.answers import Answers, Examined
from assets.qeva.explained import explain_qeva
from assets.qeva.questions import Questions
from assets.qeva.roles import Roles
from assets.qeva.settings import QEVASettings
from assets.qeva.stored import mark_of, outcome_of_answer, question_set_of
from assets.scores.base import Explanation, Outcome
from assets.sources.base import Evidence, Source
from db.inputs import KEYPOINTS, REFERENCES, SEGMENTS, TEXT, VIDEO, Input
from db.qeva_answers import GOOD
from db.qeva_questions import QuestionSetRow
from db.work import PendingSample
from metrics_core.qeva import (
    DimensionScore,
    FilterMark,
    QevaScore,
    dimension_score,
    empty_summary_score,
    is_empty_summary,
    summary_score,
)
from metrics_core.qeva import Outcome as AnswerOutcome
from metrics_core.qeva.records import DIMENSIONS, QuestionSet

# A sample's status by that of a dimension without a value, where no model failed. The first that applies counts.
UNDEFINED = {"no_question": "no_questions", "one_event": "too_short", "few_questions": "few_questions"}


class QEVAScorer:
    """Question-based evaluation of a caption: the mean of coverage, factuality and chronology."""

    metric: ClassVar[str] = "qeva"
    code_version: ClassVar[str] = "2"
    value_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    # Known before the settings are: with a video model alone, a changed reference costs a new score but no question.
    inputs: ClassVar[Collection[Input[Any]]] = (TEXT, VIDEO, REFERENCES, SEGMENTS, KEYPOINTS)
    rests_on: ClassVar[tuple[type[Source[Any]], ...]] = (Answers,)
    settings: ClassVar[type[BaseModel]] = QEVASettings

    def __init__(self, settings: QEVASettings, roles: Roles) -> None:
        self.questions = Questions(roles, self._is_scorable)
        self.answers = Answers(roles, self.questions)
        self.sources: tuple[Source[Any], ...] = (self.answers,)
        self._settings = settings
        self._roles = roles

    @classmethod
    def from_settings(cls, settings: QEVASettings) -> QEVAScorer:
        """The scorer that the settings describe, with its real models, which load when they are first used."""
        return cls(settings, Roles.from_settings(settings))

    def models(self) -> dict[str, Any]:
        """What stands for the video, and the models in their roles."""
        return self._roles.models()

    def params(self) -> dict[str, Any]:
        """What is done with failed answers. All else that moves the value is part of the models' identities."""
        return {"on_error": self._settings.qeva_on_error}

    def score(self, samples: Sequence[PendingSample], evidence: Evidence) -> list[Outcome]:
        """One outcome per sample, from its stored questions, marks and answers."""
        examined = evidence[self.answers]
        return [self._refusal(sample) or self._score_one(sample, examined[sample.sample_id]) for sample in samples]

    def explain(
        self, connection: Connection, sample: PendingSample, evidence: Evidence, components: Mapping[str, Any]
    ) -> Explanation:
        """Every question with its key, the answer and the verdict; of a dropped one, why."""
        return explain_qeva(evidence[self.answers][sample.sample_id], components)

    def _is_scorable(self, sample: PendingSample) -> bool:
        return self._refusal(sample) is None

    def _refusal(self, sample: PendingSample) -> Outcome | None:
        """Why nothing can be asked about a sample, known before any model is."""
        if sample.kind != "caption":
            return Outcome(None, "not_applicable", "QEVA asks about captions; this is a question-answer pair")
        return self._roles.material.refusal(sample)

    def _score_one(self, sample: PendingSample, examined: Examined) -> Outcome:
        if why := _unfinished(examined):
            return Outcome(None, "failed", why)
        sets = {name: _with_marks(row) for name, row in examined.sets.items()}
        if is_empty_summary(sample.text):
            result = empty_summary_score(sets["coverage"], sets["chronology"])
        else:
            scored = {
                name: dimension_score(*sets[name], _outcomes(examined, name), self._settings.qeva_on_error)
                for name in DIMENSIONS
            }
            result = summary_score(scored, self._roles.n_sentences(sample.text))
        components = _components(result, self._roles.material.identity.model_id)
        if result.value is not None:
            return Outcome(result.value, components=components)
        return Outcome(None, _status(result, examined), _reason(result, examined), components)


def _with_marks(row: QuestionSetRow) -> tuple[QuestionSet, list[FilterMark]]:
    return question_set_of(row), [mark_of(question.mark) for question in row.questions]


def _outcomes(examined: Examined, dimension: str) -> list[AnswerOutcome]:
    """The outcomes of the kept questions of a dimension, in order."""
    kept = [question for question in examined.sets[dimension].questions if question.mark.decision == "keep"]
    return [outcome_of_answer(examined.answers[question.question_id or 0]) for question in kept]


def _unfinished(examined: Examined) -> str | None:
    """Why a number would be one of a part of the questions, which the next run completes; None where all is done.

    All systems of a video are scored on the same questions: a question that an error kept from the filter holds back
    the scores of them all.
    """
    questions = [question for row in examined.sets.values() for question in row.questions]
    if unfiltered := [question.mark for question in questions if question.mark.filter_failure == "error"]:
        return f"{len(unfiltered)} of {len(questions)} questions could not be filtered: {unfiltered[0].filter_reason}"
    if examined.n_missing:
        return f"{examined.n_missing} answers are missing, as the questions changed meanwhile: score again"
    return None


def _status(result: QevaScore, examined: Examined) -> str:
    """The status of a sample without a value: "failed" only where another run may mend every dimension without one."""
    undefined = [one for one in result.dimensions if one.value is None]
    statuses = {one.status for one in undefined}
    if "empty_summary" in statuses:
        return "empty_text"
    troubles = [[status for status, _ in _troubles(examined, one.dimension)] for one in undefined]
    if not any(troubles):
        return next(shown for status, shown in UNDEFINED.items() if status in statuses)
    return "failed" if all("error" in of_dimension for of_dimension in troubles) else "unanswered"


def _troubles(examined: Examined, dimension: str) -> list[tuple[str, str | None]]:
    """Status and reason of whatever a model did not write, filter or answer in a dimension."""
    row = examined.sets[dimension]
    written = [(row.status, row.reason)] if row.status != "ok" else []
    marks = [question.mark for question in row.questions if question.mark.decision == "error"]
    filtered = [(str(mark.filter_failure), mark.filter_reason) for mark in marks]
    kept = {question.question_id for question in row.questions if question.mark.decision == "keep"}
    given = [answer for question_id, answer in examined.answers.items() if question_id in kept]
    return [*written, *filtered, *((answer.status, answer.reason) for answer in given if answer.status not in GOOD)]


def _reason(result: QevaScore, examined: Examined) -> str:
    """Why there is no value, with the words of the first trouble."""
    undefined = [one.dimension for one in result.dimensions if one.value is None and one.status != "empty_summary"]
    reasons = (reason for dimension in undefined for _, reason in _troubles(examined, dimension))
    first = next(filter(None, reasons), None)
    return f"{result.reason}; {first}" if first and first not in (result.reason or "") else str(result.reason)


def _components(result: QevaScore, material: str) -> dict[str, Any]:
    return {
        **{one.dimension: one.value for one in result.dimensions},
        "partial_mean": result.partial_mean,
        "video_given_as": material,
        "questions": {one.dimension: _counts(one) for one in result.dimensions},
    }


def _counts(one: DimensionScore) -> dict[str, Any]:
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
