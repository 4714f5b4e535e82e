"""QEVA's questions about videos and captions, the results of filtering them, and the answers; rows are mappings by
column.

A set of questions belongs to a video, or if it names a sample, to the text of that sample. Its model stands for all
models that write and filter questions. The model of an answer, which is about one sample, stands for all models that
answer and judge.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection, Engine

from db.schema import qeva_answer, qeva_question, qeva_question_set, sample, video
from db.server.locking import lock_ids

Row: TypeAlias = Mapping[str, Any]
# Statuses of answers that say something of their context.
GOOD_STATUSES = ("ok", "abstain")
FILTER_COLUMNS = ("closed_book", "open_book", "decision", "filter_reason", "filter_failure")
_SETS, _QUESTIONS, _ANSWERS = qeva_question_set.c, qeva_question.c, qeva_answer.c


def store_question_sets(engine: Engine, model_id: int, run_id: str, sets: Sequence[Row]) -> None:
    """Store sets of questions in one transaction. A stored set of status "ok" that was written from the same text or
    video stays. Another stored set is replaced, and its answers are deleted. A set whose video or sample was deleted in
    the meantime is left out.

    sets: columns of `qeva_question_set`, without model and run, and "questions": in order, the columns of
    `qeva_question` without set, position and FILTER_COLUMNS. source_sha256: the digest of that text or video.
    """
    with engine.begin() as connection:
        videos = lock_ids(connection, video.c.video_id, [question_set["video_id"] for question_set in sets])
        sample_ids = [question_set["sample_id"] for question_set in sets if question_set["sample_id"] is not None]
        samples = lock_ids(connection, sample.c.sample_id, sample_ids)
        for question_set in sorted(
            sets,
            key=lambda question_set: (
                question_set["video_id"],
                question_set["sample_id"] or 0,
                question_set["dimension"],
            ),
        ):
            if question_set["video_id"] in videos and (
                question_set["sample_id"] is None or question_set["sample_id"] in samples
            ):
                _store_set(connection, {**question_set, "model_id": model_id, "run_id": run_id})


def load_question_sets(
    connection: Connection, model_id: int, video_ids: Collection[int], sample_ids: Collection[int]
) -> list[Row]:
    """Load the sets of questions that a model wrote about these videos and about the texts of these samples, ordered by
    id. A row has the columns of its set, and "questions": the rows of `qeva_question` in order. A set stays in the
    result even if its text or video has changed since.
    """
    is_about_video = sa.and_(_SETS.sample_id.is_(None), _SETS.video_id.in_(video_ids))
    condition = sa.and_(_SETS.model_id == model_id, sa.or_(is_about_video, _SETS.sample_id.in_(sample_ids)))
    query = sa.select(qeva_question_set).where(condition).order_by(_SETS.question_set_id)
    sets = [{**row, "questions": []} for row in connection.execute(query).mappings()]
    by_id = {question_set["question_set_id"]: question_set for question_set in sets}
    questions = sa.select(qeva_question).where(_QUESTIONS.question_set_id.in_(by_id)).order_by(_QUESTIONS.position)
    for row in connection.execute(questions).mappings():
        by_id[row["question_set_id"]]["questions"].append(row)
    return list(sets)


def store_filter_results(engine: Engine, marks: Mapping[int, Row]) -> None:
    """Store the results of filtering questions, in one transaction. marks: {question id: values of all FILTER_COLUMNS}.
    A stored decision stays unless it is "error"; an unknown id is ignored.
    """
    undecided = sa.or_(_QUESTIONS.decision.is_(None), _QUESTIONS.decision == "error")
    if not marks:
        return
    is_this = sa.and_(_QUESTIONS.question_id == sa.bindparam("marked"), undecided)
    rows = [{**mark, "marked": question_id} for question_id, mark in sorted(marks.items())]
    # One statement for all of them, which goes to the server in one piece.
    marking = sa.update(qeva_question).where(is_this).values({name: sa.bindparam(name) for name in FILTER_COLUMNS})
    with engine.begin() as connection:
        connection.execute(marking, rows)


def store_answers(engine: Engine, model_id: int, run_id: str, answers: Sequence[Row]) -> int:
    """Store answers in one transaction, in place of older ones, and return how many were stored. A failed answer does
    not replace one of status "ok" or "abstain" from the same text or video. An answer whose question or sample was
    deleted is left out.

    answers: columns of `qeva_answer`, without model and run. context_sha256: the digest of the text or video that was
    answered from.
    """
    with engine.begin() as connection:
        questions = lock_ids(connection, qeva_question.c.question_id, [answer["question_id"] for answer in answers])
        samples = lock_ids(connection, sample.c.sample_id, [answer["sample_id"] for answer in answers])
        rows = [
            {**answer, "model_id": model_id, "run_id": run_id}
            for answer in sorted(answers, key=lambda answer: (answer["question_id"], answer["sample_id"]))
            if answer["question_id"] in questions and answer["sample_id"] in samples
        ]
        if not rows:
            return 0
        new = insert(qeva_answer).values(rows)
        key = ("question_id", "sample_id", "model_id")
        replaced = {name: new.excluded[name] for name in rows[0] if name not in key}
        is_better = sa.or_(
            _ANSWERS.context_sha256 != new.excluded.context_sha256,
            _ANSWERS.status.not_in(GOOD_STATUSES),
            new.excluded.status.in_(GOOD_STATUSES),
        )
        written = new.on_conflict_do_update(
            index_elements=key, set_={**replaced, "answered_at": sa.func.now()}, where=is_better
        )
        return len(connection.scalars(written.returning(_ANSWERS.question_id)).all())


def load_answers(connection: Connection, model_id: int, sample_ids: Collection[int]) -> list[Row]:
    """Load all answers of a model about these samples, ordered by sample id and question id. A row has the columns of
    `qeva_answer`. An answer stays in the result even if its text or video has changed since.
    """
    condition = sa.and_(_ANSWERS.model_id == model_id, _ANSWERS.sample_id.in_(sample_ids))
    query = sa.select(qeva_answer).where(condition).order_by(_ANSWERS.sample_id, _ANSWERS.question_id)
    return [{**row} for row in connection.execute(query).mappings()]


def _store_set(connection: Connection, question_set: Row) -> None:
    columns = {name: value for name, value in question_set.items() if name != "questions"}
    new = insert(qeva_question_set).values(columns)
    key = ("dimension", "video_id", "sample_id", "model_id")
    replaced = {name: new.excluded[name] for name in columns if name not in key}
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
        {**question, "question_set_id": set_id, "position": position}
        for position, question in enumerate(question_set["questions"])
    ]
    if rows:
        connection.execute(sa.insert(qeva_question), rows)
