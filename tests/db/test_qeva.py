"""Questions and answers in the database: what is shared, what is replaced, what goes with what."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from db import schema
from db.models import register_model
from db.qeva_answers import AnswerRow, load_answers, write_answers
from db.qeva_questions import (
    MarkRow,
    QuestionRow,
    QuestionSetRow,
    load_question_sets,
    mark_questions,
    write_question_sets,
)
from tests.db.builders import add_sample, add_video, make_dataset, remove

SOURCE, OTHER = b"s" * 32, b"o" * 32
FIRST = QuestionRow("yes_no", "Does it rain?", "yes", ("yes", "no"), "scene", (), ("It rains.",))
SECOND = QuestionRow("order", "In which order?", "ACB", ("ABC", "ACB"), None, (2, 0, 1), ("a", "b", "c"))


@dataclass
class Shelf:
    engine: Engine
    model_id: int
    video_id: int
    sample_id: int

    def write(self, *sets: QuestionSetRow) -> None:
        write_question_sets(self.engine, self.model_id, "run", sets)

    def sets(self) -> list[QuestionSetRow]:
        with self.engine.connect() as connection:
            return load_question_sets(connection, self.model_id, [self.video_id], [self.sample_id])

    def answers(self) -> list[AnswerRow]:
        with self.engine.connect() as connection:
            return load_answers(connection, self.model_id, [self.sample_id])

    def questions(self) -> list[QuestionRow]:
        return [question for one in self.sets() for question in one.questions]

    def ids(self) -> list[int]:
        return [question.question_id or 0 for question in self.questions()]

    def of_video(self, *questions: QuestionRow, source: bytes = SOURCE, **values: object) -> QuestionSetRow:
        return QuestionSetRow("coverage", self.video_id, None, source, questions, 10, 1, **values)  # type: ignore[arg-type]

    def of_sample(self, *questions: QuestionRow) -> QuestionSetRow:
        return QuestionSetRow("factuality", self.video_id, self.sample_id, SOURCE, questions, 10, 0)

    def answer(self, question_id: int, **values: object) -> AnswerRow:
        return replace(AnswerRow(question_id, self.sample_id, SOURCE, "ok", "Yes.", "yes", True), **values)  # type: ignore[arg-type]


@pytest.fixture
def shelf(engine: Engine) -> Shelf:
    clips = make_dataset(engine)
    video_id = add_video(engine, clips, "v")
    with engine.begin() as connection:
        model_id = register_model(connection, {"model_id": "panel", "revision": "1", "params": {}})
    return Shelf(engine, model_id, video_id, add_sample(engine, clips, video_id, "s"))


def stored(question: QuestionRow, question_id: int) -> QuestionRow:
    return replace(question, question_id=question_id)


def test_sets_come_back_as_they_were_written(shelf: Shelf) -> None:
    shelf.write(shelf.of_sample(), shelf.of_video(FIRST, SECOND))
    of_video, of_sample = shelf.sets()
    first, second = (question.question_id for question in of_video.questions)
    assert first is not None
    assert second is not None
    assert of_video == shelf.of_video(stored(FIRST, first), stored(SECOND, second))
    assert of_sample == shelf.of_sample()


def test_a_good_set_of_the_same_source_stays_and_one_of_another_source_goes(shelf: Shelf) -> None:
    shelf.write(shelf.of_video(FIRST))
    before = shelf.sets()
    shelf.write(shelf.of_video(SECOND))
    assert shelf.sets() == before
    write_answers(shelf.engine, shelf.model_id, "run", [shelf.answer(shelf.ids()[0])])
    shelf.write(shelf.of_video(SECOND, source=OTHER))
    (after,) = shelf.sets()
    assert [question.text for question in after.questions] == [SECOND.text]
    assert after.source_sha256 == OTHER
    assert shelf.answers() == []


@pytest.mark.parametrize("status", ["error", "refused"])
def test_a_set_that_failed_is_replaced(shelf: Shelf, status: str) -> None:
    shelf.write(shelf.of_video(status=status, reason="the server is gone"))
    assert [(one.status, one.reason) for one in shelf.sets()] == [(status, "the server is gone")]
    shelf.write(shelf.of_video(FIRST))
    assert [(one.status, one.reason, len(one.questions)) for one in shelf.sets()] == [("ok", None, 1)]


def test_two_writers_at_once_leave_one_set(shelf: Shelf) -> None:
    writers = [shelf.of_video(FIRST), shelf.of_video(SECOND)] * 4
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(shelf.write, writers))
    (one,) = shelf.sets()
    assert len(one.questions) == 1


def test_a_mark_is_stored_once_but_an_error_is_mended(shelf: Shelf) -> None:
    shelf.write(shelf.of_video(FIRST))
    (question_id,) = shelf.ids()
    for mark in (
        MarkRow(("error",), None, "error", "the server is gone", "error"),
        MarkRow(("wrong", "abstain"), "correct", "keep", "Yes."),
        MarkRow(("correct",), None, "trivial", "Yes."),
    ):
        mark_questions(shelf.engine, {question_id: mark})
    (question,) = shelf.questions()
    assert question.mark == MarkRow(("wrong", "abstain"), "correct", "keep", "Yes.")


def test_answers_come_back_and_newer_ones_replace_them(shelf: Shelf) -> None:
    shelf.write(shelf.of_video(FIRST))
    (question_id,) = shelf.ids()
    for answer in (
        shelf.answer(question_id, status="error", raw="", normalised=None, correct=None, reason="timeout"),
        shelf.answer(question_id, score=0.75, evidence="It rains."),
    ):
        write_answers(shelf.engine, shelf.model_id, "run", [answer])
        assert shelf.answers() == [answer]
    failed = shelf.answer(question_id, status="error", raw="", normalised=None, correct=None, reason="timeout")
    assert write_answers(shelf.engine, shelf.model_id, "other run", [failed]) == 0
    assert shelf.answers() == [answer]
    elsewhere = replace(failed, context_sha256=OTHER)
    assert write_answers(shelf.engine, shelf.model_id, "other run", [elsewhere]) == 1
    assert shelf.answers() == [elsewhere]


def test_what_is_deleted_meanwhile_is_left_out(shelf: Shelf) -> None:
    shelf.write(shelf.of_video(FIRST))
    (question_id,) = shelf.ids()
    write_answers(shelf.engine, shelf.model_id, "run", [shelf.answer(question_id), shelf.answer(question_id + 99)])
    assert [answer.question_id for answer in shelf.answers()] == [question_id]
    remove(shelf.engine, schema.sample, shelf.sample_id)
    assert shelf.answers() == []
    shelf.write(shelf.of_sample(FIRST), shelf.of_video(FIRST))
    write_answers(shelf.engine, shelf.model_id, "run", [shelf.answer(question_id)])
    assert [one.dimension for one in shelf.sets()] == ["coverage"]
    remove(shelf.engine, schema.video, shelf.video_id)
    assert shelf.sets() == []


def test_models_share_nothing(shelf: Shelf) -> None:
    shelf.write(shelf.of_video(FIRST))
    with shelf.engine.begin() as connection:
        other = register_model(connection, {"model_id": "panel", "revision": "2", "params": {}})
    before = shelf.sets()
    shelf.model_id = other
    assert shelf.sets() == []
    shelf.write(shelf.of_video(SECOND))
    assert shelf.questions() != before[0].questions


@pytest.mark.parametrize(
    "values",
    [
        {"status": "ok", "normalised": None},
        {"status": "error", "normalised": None, "correct": False},
        {"status": "lost", "normalised": None, "correct": None},
    ],
)
def test_the_database_refuses_answers_that_contradict_themselves(shelf: Shelf, values: dict[str, object]) -> None:
    shelf.write(shelf.of_video(FIRST))
    row = shelf.answer(shelf.ids()[0], **values)
    columns = {name: getattr(row, name) for name in AnswerRow.__dataclass_fields__}
    with pytest.raises(sa.exc.IntegrityError), shelf.engine.begin() as connection:
        connection.execute(sa.insert(schema.qeva_answer).values(**columns, model_id=shelf.model_id, run_id="run"))
