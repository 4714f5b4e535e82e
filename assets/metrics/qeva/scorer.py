"""The scorer of QEVA: coverage, factuality and chronology of a caption, computed from stored questions and answers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from pydantic import BaseModel
from sqlalchemy.engine import Connection

from assets.metrics.qeva.answers import AnsweredQuestions, AnswerSource, StoredAnswer
from assets.metrics.qeva.questions import QuestionSource
from assets.metrics.qeva.roles import QEVAModelFactory
from assets.metrics.qeva.settings import QEVASettings
from assets.scores.base import Explanation, Outcome
from assets.sources.base import Evidence, Source
from db.evidence.qeva import GOOD_STATUSES
from db.schema.inputs import KEYPOINTS, REFERENCES, SEGMENTS, TEXT, VIDEO, Input
from db.scores.pending import PendingSample
from metrics_core.qeva import (
    AnswerOutcome,
    DimensionScore,
    FilterMark,
    QevaScore,
    compute_dimension_score,
    compute_empty_summary_score,
    compute_summary_score,
    is_empty_summary,
)
from metrics_core.qeva.records import DIMENSIONS, Question

# The status of a sample by the status of a dimension without a value, if no model failed. The first match counts.
SAMPLE_STATUSES = {"no_question": "no_questions", "one_event": "too_short", "few_questions": "few_questions"}


_DROPPED = {
    "trivial": "dropped: answered right without the source",
    "low_quality": "dropped: not answered right with the source in sight",
    "error": "set aside: the filter failed",
}
_VERDICT = {"correct": "right", "error": "no answer"}


class QEVAScorer:
    """Scores captions by QEVA, question-based evaluation: the mean of coverage, factuality and chronology, from stored
    questions and answers. A dimension is the share of right answers to its questions.
    """

    metric: ClassVar[str] = "qeva"
    code_version: ClassVar[str] = "2"
    value_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    # The same for all settings: with a video model, a changed reference costs a new score but no new question.
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
        """Make the scorer with the models of the settings, which load or are asked when they are first used."""
        return cls(settings, QEVAModelFactory.from_settings(settings))

    def models(self) -> dict[str, Any]:
        """Return the identities, as dicts by name: video (the form in which models get it), questions, answers and
        sentence_splitter.
        """
        return self._factory.list_identities()

    def params(self) -> dict[str, Any]:
        """Return {"on_error": how failed answers count}; every other parameter is part of the models' identities."""
        return {"on_error": self._settings.qeva_on_error}

    def score(self, samples: Sequence[PendingSample], evidence: Evidence) -> list[Outcome]:
        """Return one outcome for every sample, in order, from its stored questions, filter marks and answers.
        Components have the score and the counts of every dimension. A sample has a status and a reason if one of its
        dimensions is undefined, or its questions are not all filtered and answered.
        """
        answered = evidence[self.answers]
        return [
            self._find_obstacle(sample) or self._score_one(sample, answered[sample.sample_id]) for sample in samples
        ]

    def explain(
        self, connection: Connection, sample: PendingSample, evidence: Evidence, components: Mapping[str, Any]
    ) -> Explanation:
        """Return lines about the video and every dimension, and a row for every question: its answer, or why it was
        dropped. components: those stored with the score. `connection` is not used.
        """
        return _explain_qeva(evidence[self.answers][sample.sample_id], components)

    def refusal(self, sample: PendingSample) -> Outcome | None:
        """Return the outcome, with status and reason, of a sample that cannot have a value, as known before any model
        is asked; else None. Such a sample is no caption, has an empty text or a video that cannot be shown, or gets too
        few questions by the rules.

        Questions about such a sample may still be asked: dimensions with enough questions are components of its score.
        """
        if refused := self._find_obstacle(sample):
            return refused
        if is_empty_summary(sample.text):
            return Outcome(None, "empty_text", "the summary is empty")
        if not (shortages := self._factory.list_shortages(sample)):
            return None
        statuses = {shortage.status for shortage in shortages}
        status = next(shown for status, shown in SAMPLE_STATUSES.items() if status in statuses)
        return Outcome(None, status, "; ".join(str(shortage.reason) for shortage in shortages))

    def _is_scorable(self, sample: PendingSample) -> bool:
        return self._find_obstacle(sample) is None

    def _find_obstacle(self, sample: PendingSample) -> Outcome | None:
        """Return the outcome of a sample that gets no questions, before any model is asked; else None."""
        if sample.kind != "caption":
            return Outcome(None, "not_applicable", "QEVA asks about captions; this is a question-answer pair")
        return self._factory.material.find_refusal(sample)

    def _score_one(self, sample: PendingSample, answered: AnsweredQuestions) -> Outcome:
        if why := _explain_unfinished(answered):
            return Outcome(None, "failed", why)
        sets = {
            name: (question_set.question_set, question_set.filter_marks) for name, question_set in answered.sets.items()
        }
        if is_empty_summary(sample.text):
            result = compute_empty_summary_score(sets["coverage"], sets["chronology"])
        else:
            scored = {
                name: compute_dimension_score(*sets[name], _list_outcomes(answered, name), self._settings.qeva_on_error)
                for name in DIMENSIONS
            }
            result = compute_summary_score(scored, self._factory.count_sentences(sample.text))
        components = _build_components(result, self._factory.material.identity.model_id)
        if result.value is not None:
            return Outcome(result.value, components=components)
        return Outcome(None, _choose_status(result, answered), _explain_no_value(result, answered), components)


def _list_outcomes(answered: AnsweredQuestions, dimension: str) -> list[AnswerOutcome]:
    """Return the outcomes of the answers to a dimension's kept questions, in the order of the questions."""
    return [answered.answers[question_id].outcome for question_id in answered.sets[dimension].kept]


def _explain_unfinished(answered: AnsweredQuestions) -> str | None:
    """Return why a score would cover only some of the questions, which the next run completes; None if it covers all.

    All systems of a video are scored on the same questions, so a question whose filter failed holds back the scores of
    all of them.
    """
    marks = [mark for question_set in answered.sets.values() for mark in question_set.filter_marks]
    if unfiltered := [mark for mark in marks if mark.failure == "error"]:
        return f"{len(unfiltered)} of {len(marks)} questions could not be filtered: {unfiltered[0].reason}"
    if answered.n_missing:
        missing = "1 answer is" if answered.n_missing == 1 else f"{answered.n_missing} answers are"
        return f"{missing} missing, as the questions changed meanwhile: score again"
    return None


def _choose_status(result: QevaScore, answered: AnsweredQuestions) -> str:
    """Return the status of a sample without a value: "failed" only if another run may complete all its dimensions."""
    undefined = [score for score in result.dimensions if score.value is None]
    statuses = {score.status for score in undefined}
    if "empty_summary" in statuses:
        return "empty_text"
    failures = [[status for status, _ in _list_failures(answered, score.dimension)] for score in undefined]
    if not any(failures):
        return next(shown for status, shown in SAMPLE_STATUSES.items() if status in statuses)
    return "failed" if all("error" in dimension_failures for dimension_failures in failures) else "unanswered"


def _list_failures(answered: AnsweredQuestions, dimension: str) -> list[tuple[str, str | None]]:
    """Return (status, reason) of every question set, filter mark and answer of a dimension that a model failed at."""
    question_set = answered.sets[dimension]
    written = (
        [(str(question_set.question_set.status), question_set.question_set.reason)]
        if question_set.question_set.status != "ok"
        else []
    )
    filtered = [(str(mark.failure), mark.reason) for mark in question_set.filter_marks if mark.decision == "error"]
    given = [answer.reply for question_id, answer in answered.answers.items() if question_id in question_set.kept]
    return [
        *written,
        *filtered,
        *((str(reply.status), reply.reason) for reply in given if reply.status not in GOOD_STATUSES),
    ]


def _explain_no_value(result: QevaScore, answered: AnsweredQuestions) -> str:
    """Return why a sample has no value, and the reason of the first failure of a model."""
    undefined = [
        score.dimension for score in result.dimensions if score.value is None and score.status != "empty_summary"
    ]
    reasons = (reason for dimension in undefined for _, reason in _list_failures(answered, dimension))
    first = next(filter(None, reasons), None)
    return f"{result.reason}; {first}" if first and first not in (result.reason or "") else str(result.reason)


def _build_components(result: QevaScore, material: str) -> dict[str, Any]:
    return {
        **{score.dimension: score.value for score in result.dimensions},
        "partial_mean": result.partial_mean,
        "video_given_as": material,
        "questions": {score.dimension: _build_counts(score) for score in result.dimensions},
    }


def _build_counts(score: DimensionScore) -> dict[str, Any]:
    return {
        "generated": score.n_generated,
        "trivial": score.n_trivial,
        "low_quality": score.n_low_quality,
        "filter_error": score.n_filter_error,
        "kept": score.n_kept,
        "answer_error": score.n_answer_error,
        "scored": score.n_scored,
        "correct": score.n_correct,
        "abstained": score.n_abstain,
        "low": score.low,
        "high": score.high,
    }


def _explain_qeva(answered: AnsweredQuestions, components: Mapping[str, Any]) -> Explanation:
    """Return a line for every dimension with its score, interval and counts, and a row for every question. The first
    line gives the form of the video: frames or notes. answered: the sample's questions and answers. components: those
    stored with its score.
    """
    lines = [f"the models see the video as {components['video_given_as']}", *_format_lines(components)]
    if components.get("partial_mean") is not None and any(components[name] is None for name in DIMENSIONS):
        lines.append(
            f"mean of the defined dimensions {components['partial_mean']:.4f}: no QEVA score, which needs all three"
        )
    rows = [
        _build_row(question, mark, answered.answers.get(question_id))
        for dimension in DIMENSIONS
        if dimension in answered.sets
        for question_id, question, mark in answered.sets[dimension]
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
    given = reply.normalised if reply.status == "ok" else reply.status
    return {**shown, "answer": given, "verdict": verdict, "because": reply.evidence or reply.reason or reply.raw}
