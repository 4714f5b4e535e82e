"""One rule for every kind of answer from a browser: stored once, taken back alone, refused if a text has changed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, NamedTuple

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from db.manifest.answers import (
    Question,
    Rater,
    TextChanged,
    delete_last_answer,
    delete_mark,
    find_due_check,
    find_next_question,
    list_marks,
    require_seen,
    store_answer,
    store_mark,
)
from db.manifest.datasets import Dataset
from db.schema import attention_check, keypoint, keypoint_label, preference, rating, sample, wrong_span
from tests.db.answering import require
from tests.db.builders import (
    add_keypoint,
    add_sample,
    add_video,
    change,
    change_text,
    make_dataset,
    remove,
    wait_for_lock,
)


class Way(NamedTuple):
    """A kind of answer, and the table that has it."""

    name: str
    table: sa.Table
    kind: Literal["rating", "preference", "label"] = "rating"

    def rater(self, dataset: Dataset, name: str) -> Rater:
        aspect = "" if self.kind == "label" else "fun"
        return Rater(dataset, name, aspect, kind=self.kind, spans=self.name == "mark")

    def ask(self, engine: Engine, rater: Rater) -> Question:
        with engine.connect() as connection:
            question = self.find_check(connection, rater) or find_next_question(connection, rater)
        assert question is not None
        return question

    def find_check(self, connection: Connection, rater: Rater) -> Question | None:
        return find_due_check(connection, rater, 1) if self.name == "check" else None

    def give(self, connection: Connection, rater: Rater, seen: Question) -> bool:
        """Answer; or mark the first letter that has no mark, and the first one where another window shows none."""
        question = require(connection, rater, seen)
        if self.name != "mark":
            return store_answer(connection, rater, question, 1.0, {"seed": 0}, has_passed=True)
        n = len(list_marks(connection, rater, question))
        return store_mark(connection, rater, question, (2 * n, 2 * n + 1))

    def take_back(self, connection: Connection, rater: Rater, seen: Question) -> bool:
        if self.name != "mark":
            return delete_last_answer(connection, rater)
        question = require(connection, rater, seen)
        ((*_, last),) = [list_marks(connection, rater, question) or [(0, 1)]]
        return delete_mark(connection, rater, question, last)


WAYS = (
    Way("rating", rating),
    Way("preference", preference, "preference"),
    Way("label", keypoint_label, "label"),
    Way("check", attention_check),
    Way("mark", wrong_span),
)


@pytest.fixture
def clips(engine: Engine) -> Dataset:
    """Two captions and a keypoint of each of four videos."""
    dataset = make_dataset(engine)
    for number in range(4):
        video = add_video(engine, dataset, f"v{number}", content=bytes([number]))
        add_keypoint(engine, dataset, video, f"k{number}")
        for system in "ab":
            add_sample(engine, dataset, video, f"{number}{system}", f"a b c d {number} {system}", system=system)
    return dataset


def rows(engine: Engine, way: Way) -> list[dict[str, Any]]:
    with engine.connect() as connection:
        query = sa.text(f"SELECT to_jsonb(t) FROM {way.table.name} t ORDER BY to_jsonb(t)::text")
        return list(connection.scalars(query))


@pytest.mark.parametrize("way", WAYS, ids=[way.name for way in WAYS])
def test_what_two_windows_send_at_once_is_stored_once(engine: Engine, clips: Dataset, way: Way) -> None:
    ann = way.rater(clips, "ann")
    seen = way.ask(engine, ann)

    def send(connection: Connection) -> bool:
        question = require(connection, ann, seen)
        if way.name == "mark":
            return store_mark(connection, ann, question, (0, 1))
        return store_answer(connection, ann, question, 1.0, {"seed": 0}, has_passed=True)

    def send_again() -> bool:
        with engine.begin() as connection:
            return send(connection)

    with ThreadPoolExecutor(1) as pool:
        with engine.begin() as connection:
            assert send(connection)
            second = pool.submit(send_again)
            wait_for_lock(engine, second)
        assert not second.result()
    stored = rows(engine, way)
    assert not send_again(), "a request that is tried again"
    assert rows(engine, way) == stored
    assert len(stored) == 1


@pytest.mark.parametrize("way", WAYS, ids=[way.name for way in WAYS])
def test_only_the_last_answer_of_this_rater_is_taken_back(engine: Engine, clips: Dataset, way: Way) -> None:
    ann, bob = (way.rater(clips, name) for name in ("ann", "bob"))
    states, asked = [rows(engine, way)], []
    for rater in (ann, ann, bob):
        asked.append(way.ask(engine, rater))
        with engine.begin() as connection:
            assert way.give(connection, rater, asked[-1])
        states.append(rows(engine, way))
    (of_bob,) = [row for row in states[3] if row not in states[2]]
    for state, seen in ((states[1], asked[1]), (states[0], asked[0])):
        with engine.begin() as connection:
            assert way.take_back(connection, ann, seen)
        left = rows(engine, way)
        assert [row for row in left if row != of_bob] == state
        assert of_bob in left
        assert way.ask(engine, ann) == seen, "it is asked again"
    with engine.begin() as connection:
        assert not way.take_back(connection, ann, asked[0])
    assert rows(engine, way) == [of_bob]


def change_caption(engine: Engine, seen: Question) -> None:
    shown = seen.captions[-1].sample_id if seen.planted_id is None else seen.planted_id
    change_text(engine, shown, "another text")


def drop_caption(engine: Engine, seen: Question) -> None:
    remove(engine, sample, seen.captions[-1].sample_id)


def change_keypoint(engine: Engine, seen: Question) -> None:
    change(engine, keypoint, seen.key[0], text="another fact")


@pytest.mark.parametrize(
    ("way", "change_shown"),
    [
        *((way, change_shown) for way in WAYS for change_shown in (change_caption, drop_caption)),
        (WAYS[2], change_keypoint),
    ],
    ids=lambda value: value.name if isinstance(value, Way) else value.__name__,
)
def test_an_answer_about_a_text_of_before_is_refused_in_one_sentence(
    engine: Engine, clips: Dataset, way: Way, change_shown: Any
) -> None:
    ann = way.rater(clips, "ann")
    seen = way.ask(engine, ann)
    change_shown(engine, seen)
    keypoint_id = None if seen.keypoint is None else seen.keypoint[0]
    with engine.begin() as connection:
        due = way.find_check(connection, ann)
        with pytest.raises(TextChanged) as refused:
            require_seen(connection, ann, seen.seen, seen.sample_ids, keypoint_id, due)
    assert str(refused.value) == (
        "your answer was not stored: it was given already, or a text was changed or dropped after it was shown; "
        "open the page again"
    )
    assert rows(engine, way) == []


def test_a_second_answer_to_an_attention_check_is_said_to_be_given_already(engine: Engine, clips: Dataset) -> None:
    way = next(way for way in WAYS if way.name == "check")
    ann = way.rater(clips, "ann")
    seen = way.ask(engine, ann)
    with engine.begin() as connection:
        assert way.give(connection, ann, seen)
    with engine.begin() as connection, pytest.raises(TextChanged, match="it was given already, or a text"):
        require_seen(connection, ann, seen.seen, seen.sample_ids, check=way.find_check(connection, ann))
