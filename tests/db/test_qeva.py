"""Questions and answers in the database: what is shared, what is replaced, what goes with what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from db import schema
from db.evidence.models import register_model
from db.evidence.qeva import (
    FILTER_COLUMNS,
    Row,
    load_answers,
    load_question_sets,
    store_answers,
    store_filter_results,
    store_question_sets,
)
from tests.db.builders import add_sample, add_video, make_dataset, remove

SOURCE, OTHER = b"s" * 32, b"o" * 32
KEPT = (["wrong", "abstain"], "correct", "keep", "Yes.", None)


def question(kind: str, text: str, answer: str, **more: Any) -> Row:
    return {"kind": kind, "text": text, "answer": answer, "category": None, "events": [], **more}


FIRST = question("yes_no", "Does it rain?", "yes", choices=["yes", "no"], category="scene", statements=["It rains."])
SECOND = question(
    "order", "In which order?", "ACB", choices=["ABC", "ACB"], events=[2, 0, 1], statements=["a", "b", "c"]
)


@dataclass
class Shelf:
    engine: Engine
    model_id: int
    video_id: int
    sample_id: int

    def write(self, *sets: Row) -> None:
        store_question_sets(self.engine, self.model_id, "run", sets)

    def sets(self) -> Sequence[Row]:
        with self.engine.connect() as connection:
            return load_question_sets(connection, self.model_id, [self.video_id], [self.sample_id])

    def answers(self) -> list[Row]:
        """The answers, by the columns that were written."""
        with self.engine.connect() as connection:
            rows = load_answers(connection, self.model_id, [self.sample_id])
        return [{name: row[name] for name in self.answer(0)} for row in rows]

    def questions(self) -> list[Row]:
        return [one for each in self.sets() for one in each["questions"]]

    def ids(self) -> list[int]:
        return [one["question_id"] for one in self.questions()]

    def of_video(self, *questions: Row, source: bytes = SOURCE, **values: Any) -> Row:
        return self._set("coverage", None, questions, source_sha256=source, n_malformed=1, **values)

    def of_sample(self, *questions: Row) -> Row:
        return self._set("factuality", self.sample_id, questions, source_sha256=SOURCE, n_malformed=0)

    def _set(self, dimension: str, sample_id: int | None, questions: Sequence[Row], **values: Any) -> Row:
        about = {"dimension": dimension, "video_id": self.video_id, "sample_id": sample_id, "n_requested": 10}
        return {**about, "status": "ok", "reason": None, "questions": list(questions), **values}

    def answer(self, question_id: int, **values: Any) -> Row:
        about = {"question_id": question_id, "sample_id": self.sample_id, "context_sha256": SOURCE}
        given = {"status": "ok", "raw": "Yes.", "normalised": "yes", "correct": True}
        return {**about, **given, "reason": None, "score": None, "evidence": None, **values}


@pytest.fixture
def shelf(engine: Engine) -> Shelf:
    clips = make_dataset(engine)
    video_id = add_video(engine, clips, "v")
    with engine.begin() as connection:
        model_id = register_model(connection, {"model_id": "panel", "revision": "1", "params": {}})
    return Shelf(engine, model_id, video_id, add_sample(engine, clips, video_id, "s"))


def part(row: Row, of: Row) -> Mapping[str, Any]:
    """The columns of a stored row that were written."""
    return {name: row[name] for name in of}


def test_sets_come_back_as_they_were_written(shelf: Shelf) -> None:
    written = [shelf.of_video(FIRST, SECOND), shelf.of_sample()]
    shelf.write(*reversed(written))
    for one, stored in zip(written, shelf.sets(), strict=True):
        columns = {name: value for name, value in one.items() if name != "questions"}
        assert part(stored, columns) == columns
        assert [part(each, FIRST) for each in stored["questions"]] == one["questions"]
    assert [each["position"] for each in shelf.questions()] == [0, 1]
    assert {each[name] for each in shelf.questions() for name in FILTER_COLUMNS} == {None}


def test_a_good_set_of_the_same_source_stays_and_one_of_another_source_goes(shelf: Shelf) -> None:
    shelf.write(shelf.of_video(FIRST))
    before = shelf.sets()
    shelf.write(shelf.of_video(SECOND))
    assert shelf.sets() == before
    store_answers(shelf.engine, shelf.model_id, "run", [shelf.answer(shelf.ids()[0])])
    shelf.write(shelf.of_video(SECOND, source=OTHER))
    (after,) = shelf.sets()
    assert [each["text"] for each in after["questions"]] == [SECOND["text"]]
    assert after["source_sha256"] == OTHER
    assert shelf.answers() == []


@pytest.mark.parametrize("status", ["error", "refused"])
def test_a_set_that_failed_is_replaced(shelf: Shelf, status: str) -> None:
    shelf.write(shelf.of_video(status=status, reason="the server is gone"))
    assert [(one["status"], one["reason"]) for one in shelf.sets()] == [(status, "the server is gone")]
    shelf.write(shelf.of_video(FIRST))
    (one,) = shelf.sets()
    assert (one["status"], one["reason"], len(one["questions"])) == ("ok", None, 1)


def test_two_writers_at_once_leave_one_set(shelf: Shelf) -> None:
    writers = [shelf.of_video(FIRST), shelf.of_video(SECOND)] * 4
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(shelf.write, writers))
    (one,) = shelf.sets()
    assert len(one["questions"]) == 1


def test_a_mark_is_stored_once_but_an_error_is_mended(shelf: Shelf) -> None:
    shelf.write(shelf.of_video(FIRST))
    (question_id,) = shelf.ids()
    for mark in (
        (["error"], None, "error", "the server is gone", "error"),
        KEPT,
        (["correct"], None, "trivial", "Yes.", None),
    ):
        store_filter_results(shelf.engine, {question_id: dict(zip(FILTER_COLUMNS, mark, strict=True))})
    (stored,) = shelf.questions()
    assert tuple(stored[name] for name in FILTER_COLUMNS) == KEPT


def test_answers_come_back_and_newer_ones_replace_them(shelf: Shelf) -> None:
    shelf.write(shelf.of_video(FIRST))
    (question_id,) = shelf.ids()
    for answer in (
        shelf.answer(question_id, status="error", raw="", normalised=None, correct=None, reason="timeout"),
        shelf.answer(question_id, score=0.75, evidence="It rains."),
    ):
        store_answers(shelf.engine, shelf.model_id, "run", [answer])
        assert shelf.answers() == [answer]
    failed = shelf.answer(question_id, status="error", raw="", normalised=None, correct=None, reason="timeout")
    assert store_answers(shelf.engine, shelf.model_id, "other run", [failed]) == 0
    assert shelf.answers() == [answer]
    elsewhere = {**failed, "context_sha256": OTHER}
    assert store_answers(shelf.engine, shelf.model_id, "other run", [elsewhere]) == 1
    assert shelf.answers() == [elsewhere]


def test_what_is_deleted_meanwhile_is_left_out(shelf: Shelf) -> None:
    shelf.write(shelf.of_video(FIRST))
    (question_id,) = shelf.ids()
    store_answers(shelf.engine, shelf.model_id, "run", [shelf.answer(question_id), shelf.answer(question_id + 99)])
    assert [answer["question_id"] for answer in shelf.answers()] == [question_id]
    remove(shelf.engine, schema.sample, shelf.sample_id)
    assert shelf.answers() == []
    shelf.write(shelf.of_sample(FIRST), shelf.of_video(FIRST))
    store_answers(shelf.engine, shelf.model_id, "run", [shelf.answer(question_id)])
    assert [one["dimension"] for one in shelf.sets()] == ["coverage"]
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
    assert shelf.questions() != before[0]["questions"]


def test_the_database_refuses_answers_that_contradict_themselves(shelf: Shelf) -> None:
    shelf.write(shelf.of_video(FIRST))
    contradictions: list[dict[str, object]] = [
        {"status": "ok", "normalised": None},
        {"status": "error", "normalised": None, "correct": False},
        {"status": "lost", "normalised": None, "correct": None},
    ]
    for values in contradictions:
        columns = shelf.answer(shelf.ids()[0], **values)
        with pytest.raises(sa.exc.IntegrityError), shelf.engine.begin() as connection:
            connection.execute(sa.insert(schema.qeva_answer).values(**columns, model_id=shelf.model_id, run_id="run"))
