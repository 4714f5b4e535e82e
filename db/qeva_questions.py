"""Questions about videos and summaries, and what filtering made of them.

A set of questions belongs to a video, or where it names a sample, to the text of that sample. Its model is all that
writes and filters questions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection, Engine

from db.locking import lock_ids
from db.schema import qeva_question, qeva_question_set, sample, video

_SETS, _QUESTIONS = qeva_question_set.c, qeva_question.c


@dataclass(frozen=True, slots=True)
class MarkRow:
    """What filtering says of a question; no decision: the question is still to be filtered.

    closed_book: the outcome of every vote without a context. open_book: the outcome with the source in sight, None
    where it was not asked. filter_reason: the words of the model that decided, or why there is an error.
    filter_failure: for decision "error", whether the reply was "malformed" or "refused", or never came ("error").
    """

    closed_book: tuple[str, ...] = ()
    open_book: str | None = None
    decision: str | None = None
    filter_reason: str | None = None
    filter_failure: str | None = None


@dataclass(frozen=True, slots=True)
class QuestionRow:
    """A question with its key and its mark. question_id: None before it is stored. `choices` as they were shown."""

    kind: str
    text: str
    answer: str
    choices: tuple[str, ...] = ()
    category: str | None = None
    events: tuple[int, ...] = ()
    statements: tuple[str, ...] = ()
    question_id: int | None = None
    mark: MarkRow = MarkRow()


@dataclass(frozen=True, slots=True)
class QuestionSetRow:
    """The questions of one dimension about a video; about a text of it where sample_id is given.

    source_sha256: the digest of what the questions were written from. reason: why there are no questions, or why the
    status is not "ok".
    """

    dimension: str
    video_id: int
    sample_id: int | None
    source_sha256: bytes
    questions: tuple[QuestionRow, ...] = ()
    n_requested: int = 0
    n_malformed: int = 0
    status: str = "ok"
    reason: str | None = None


def write_question_sets(engine: Engine, model_id: int, run_id: str, sets: Sequence[QuestionSetRow]) -> None:
    """Store sets in one transaction. A good set of the same source stays: two runs on one video share the first set.

    A set from another source, or of status "refused" or "error", is replaced, and its answers go with it. Sets whose
    video or sample has been deleted meanwhile are left out.
    """
    with engine.begin() as connection:
        videos = lock_ids(connection, video.c.video_id, [one.video_id for one in sets])
        samples = lock_ids(connection, sample.c.sample_id, [one.sample_id for one in sets if one.sample_id is not None])
        for one in sorted(sets, key=lambda one: (one.video_id, one.sample_id or 0, one.dimension)):
            if one.video_id in videos and (one.sample_id is None or one.sample_id in samples):
                _write_set(connection, model_id, run_id, one)


def load_question_sets(
    connection: Connection, model_id: int, video_ids: Collection[int], sample_ids: Collection[int]
) -> list[QuestionSetRow]:
    """The model's sets about these videos and about the texts of these samples, whatever they were written from."""
    of_videos = sa.and_(_SETS.sample_id.is_(None), _SETS.video_id.in_(video_ids))
    wanted = sa.and_(_SETS.model_id == model_id, sa.or_(of_videos, _SETS.sample_id.in_(sample_ids)))
    sets = connection.execute(sa.select(qeva_question_set).where(wanted).order_by(_SETS.question_set_id)).all()
    in_sets = _QUESTIONS.question_set_id.in_([row.question_set_id for row in sets])
    by_set: dict[int, list[QuestionRow]] = {}
    for row in connection.execute(sa.select(qeva_question).where(in_sets).order_by(_QUESTIONS.position)):
        by_set.setdefault(row.question_set_id, []).append(_question(row))
    return [_set(row, by_set.get(row.question_set_id, [])) for row in sets]


def mark_questions(engine: Engine, marks: Mapping[int, MarkRow]) -> None:
    """Store what filtering says of questions, by question_id. A decision that another run has stored stays."""
    undecided = sa.or_(_QUESTIONS.decision.is_(None), _QUESTIONS.decision == "error")
    if not marks:
        return
    is_this = sa.and_(_QUESTIONS.question_id == sa.bindparam("marked"), undecided)
    names = [field.name for field in fields(MarkRow)]
    rows = [
        {**asdict(mark), "closed_book": list(mark.closed_book), "marked": question_id}
        for question_id, mark in sorted(marks.items())
    ]
    # One statement for all of them, which goes to the server in one piece.
    marking = sa.update(qeva_question).where(is_this).values({name: sa.bindparam(name) for name in names})
    with engine.begin() as connection:
        connection.execute(marking, rows)


def _write_set(connection: Connection, model_id: int, run_id: str, one: QuestionSetRow) -> None:
    names = ("dimension", "video_id", "sample_id", "source_sha256", "n_requested", "n_malformed", "status", "reason")
    new = insert(qeva_question_set).values(
        model_id=model_id, run_id=run_id, **{name: getattr(one, name) for name in names}
    )
    replaced = {name: new.excluded[name] for name in (*names[3:], "run_id")}
    is_other = sa.or_(_SETS.source_sha256 != new.excluded.source_sha256, _SETS.status != "ok")
    set_id = connection.scalar(
        new.on_conflict_do_update(
            constraint="uq_qeva_question_set_source", set_={**replaced, "written_at": sa.func.now()}, where=is_other
        ).returning(_SETS.question_set_id)
    )
    if set_id is None:
        return
    connection.execute(sa.delete(qeva_question).where(_QUESTIONS.question_set_id == set_id))
    rows = [
        {
            "question_set_id": set_id,
            "position": position,
            "kind": question.kind,
            "text": question.text,
            "choices": list(question.choices),
            "answer": question.answer,
            "category": question.category,
            "events": list(question.events),
            "statements": list(question.statements),
        }
        for position, question in enumerate(one.questions)
    ]
    if rows:
        connection.execute(sa.insert(qeva_question), rows)


def _question(row: Any) -> QuestionRow:
    mark = MarkRow(tuple(row.closed_book or ()), row.open_book, row.decision, row.filter_reason, row.filter_failure)
    lists = (tuple(row.choices), row.category, tuple(row.events), tuple(row.statements))
    return QuestionRow(row.kind, row.text, row.answer, *lists, row.question_id, mark)


def _set(row: Any, questions: Sequence[QuestionRow]) -> QuestionSetRow:
    return QuestionSetRow(
        row.dimension,
        row.video_id,
        row.sample_id,
        bytes(row.source_sha256),
        tuple(questions),
        row.n_requested,
        row.n_malformed,
        row.status,
        row.reason,
    )
