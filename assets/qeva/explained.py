"""Why a caption has its QEVA: every question with its key, the answer, and what became of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from assets.qeva.answers import Examined
from assets.qeva.stored import outcome_of_answer
from assets.scores.base import Explanation
from db.qeva_answers import AnswerRow
from db.qeva_questions import QuestionRow
from metrics_core.qeva.records import DIMENSIONS

_DROPPED = {
    "trivial": "dropped: answered without the source",
    "low_quality": "dropped: not answered with the source in sight",
    "error": "set aside: the filter failed",
}


def explain_qeva(examined: Examined, components: Mapping[str, Any]) -> Explanation:
    """A line for each dimension with its interval, and a row for each question."""
    lines = [f"the video is given as {components['video_given_as']}", *_lines(components)]
    if components.get("partial_mean") is not None and any(components[name] is None for name in DIMENSIONS):
        lines.append(f"mean of the defined dimensions {components['partial_mean']:.4f}, which is no QEVA")
    rows = [
        _row(dimension, question, examined.answers.get(question.question_id or 0))
        for dimension in DIMENSIONS
        if dimension in examined.sets
        for question in examined.sets[dimension].questions
    ]
    return Explanation(lines, rows)


def _lines(components: Mapping[str, Any]) -> Iterator[str]:
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


def _row(dimension: str, question: QuestionRow, answer: AnswerRow | None) -> dict[str, Any]:
    choices = f" ({' | '.join(question.choices)})" if question.kind in ("choice", "order") else ""
    return {
        "dimension": dimension,
        "question": f"{question.text}{choices}",
        "key": question.answer,
        "answer": _said(answer),
        "verdict": _verdict(question, answer),
        "because": _because(question, answer),
    }


def _said(answer: AnswerRow | None) -> str | None:
    if answer is None:
        return None
    return answer.normalised if answer.status == "ok" else answer.status


def _verdict(question: QuestionRow, answer: AnswerRow | None) -> str | None:
    if question.mark.decision != "keep":
        return _DROPPED.get(question.mark.decision or "", "not filtered yet")
    return (
        None
        if answer is None
        else {"correct": "right", "error": "no answer"}.get(outcome := outcome_of_answer(answer), outcome)
    )


def _because(question: QuestionRow, answer: AnswerRow | None) -> str | None:
    if question.mark.decision != "keep":
        return question.mark.filter_reason
    return None if answer is None else answer.evidence or answer.reason or answer.raw
