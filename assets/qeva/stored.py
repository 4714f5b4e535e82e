"""Questions, marks and answers as rows of the database, and back."""

from __future__ import annotations

from typing import cast

from db.qeva_answers import AnswerRow
from db.qeva_questions import MarkRow, QuestionRow, QuestionSetRow
from metrics_core.qeva import FilterMark, Outcome, outcome_of
from metrics_core.qeva.filtering import FilterFailure
from metrics_core.qeva.records import Decision, Dimension, Judgement, Kind, Question, QuestionSet, Reply, ReplyStatus


def question_row(question: Question) -> QuestionRow:
    """A question before it is filtered."""
    return QuestionRow(
        question.kind,
        question.text,
        question.answer,
        question.choices,
        question.category,
        question.events,
        question.statements,
    )


def question_of(row: QuestionRow, dimension: str) -> Question:
    """The question of a row."""
    return Question(
        cast(Dimension, dimension),
        cast(Kind, row.kind),
        row.text,
        row.answer,
        row.choices,
        row.category,
        row.events,
        row.statements,
    )


def question_set_of(row: QuestionSetRow) -> QuestionSet:
    """The set of a row, with all its questions."""
    assert row.status in ("ok", "refused", "error")
    return QuestionSet(
        cast(Dimension, row.dimension),
        tuple(question_of(question, row.dimension) for question in row.questions),
        row.n_requested,
        row.n_malformed,
        row.status,  # type: ignore[arg-type]  # mypy does not narrow a str to a Literal by `in`
        row.reason,
    )


def mark_row(mark: FilterMark) -> MarkRow:
    """What filtering says of a question."""
    return MarkRow(mark.closed_book, mark.open_book, mark.decision, mark.reason, mark.failure)


def mark_of(row: MarkRow) -> FilterMark:
    """The mark of a filtered question."""
    return FilterMark(
        cast("tuple[Outcome, ...]", row.closed_book),
        cast("Outcome | None", row.open_book),
        cast(Decision, row.decision),
        row.filter_reason,
        cast("FilterFailure | None", row.filter_failure),
    )


def answer_row(
    question_id: int, sample_id: int, context_sha256: bytes, reply: Reply, judgement: Judgement
) -> AnswerRow:
    """An answer to a question about a sample. One that the judge did not judge has the judge's status and reason."""
    is_judged = reply.status != "ok" or judgement.correct is not None
    return AnswerRow(
        question_id,
        sample_id,
        context_sha256,
        reply.status if is_judged else judgement.status,
        reply.raw,
        reply.normalised if is_judged else None,
        judgement.correct,
        reply.reason if is_judged else f"the judge gave no judgement: {judgement.reason}",
        reply.score,
        reply.evidence,
    )


def outcome_of_answer(row: AnswerRow) -> Outcome:
    """Whether a stored answer is right, wrong, withheld or failed."""
    return outcome_of(cast(ReplyStatus, row.status), row.correct)
