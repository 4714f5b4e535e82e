"""Answers to the questions of QEVA, each about one sample. Their model is all that answers and judges."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, fields

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection, Engine

from db.locking import lock_ids
from db.schema import qeva_answer, qeva_question, sample

# Statuses of answers that say something of their context.
GOOD = ("ok", "abstain")
_ANSWERS = qeva_answer.c


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """An answer to a question about one sample. context_sha256: the digest of what it was answered from.

    correct: None where nobody could tell. score, evidence: the probability and the sentence that it rests on.
    """

    question_id: int
    sample_id: int
    context_sha256: bytes
    status: str
    raw: str
    normalised: str | None = None
    correct: bool | None = None
    reason: str | None = None
    score: float | None = None
    evidence: str | None = None


def write_answers(engine: Engine, model_id: int, run_id: str, answers: Sequence[AnswerRow]) -> int:
    """Store answers in one transaction, in place of older ones; returns how many were stored.

    An answer that failed does not replace a good one from the same context, which another run may have got. One whose
    question or sample is gone is left out.
    """
    with engine.begin() as connection:
        questions = lock_ids(connection, qeva_question.c.question_id, [answer.question_id for answer in answers])
        samples = lock_ids(connection, sample.c.sample_id, [answer.sample_id for answer in answers])
        rows = [
            {**asdict(answer), "model_id": model_id, "run_id": run_id}
            for answer in sorted(answers, key=lambda answer: (answer.question_id, answer.sample_id))
            if answer.question_id in questions and answer.sample_id in samples
        ]
        if not rows:
            return 0
        new = insert(qeva_answer).values(rows)
        key = ("question_id", "sample_id", "model_id")
        replaced = {name: new.excluded[name] for name in rows[0] if name not in key}
        is_better = sa.or_(
            _ANSWERS.context_sha256 != new.excluded.context_sha256,
            _ANSWERS.status.not_in(GOOD),
            new.excluded.status.in_(GOOD),
        )
        written = new.on_conflict_do_update(
            index_elements=key, set_={**replaced, "answered_at": sa.func.now()}, where=is_better
        )
        return len(connection.scalars(written.returning(_ANSWERS.question_id)).all())


def load_answers(connection: Connection, model_id: int, sample_ids: Collection[int]) -> list[AnswerRow]:
    """The model's answers about these samples, whatever they were answered from."""
    wanted = sa.and_(_ANSWERS.model_id == model_id, _ANSWERS.sample_id.in_(sample_ids))
    columns = [_ANSWERS[field.name] for field in fields(AnswerRow)]
    rows = connection.execute(sa.select(*columns).where(wanted).order_by(_ANSWERS.sample_id, _ANSWERS.question_id))
    return [AnswerRow(**{**row, "context_sha256": bytes(row["context_sha256"])}) for row in rows.mappings()]
