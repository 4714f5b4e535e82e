"""Wrong words of captions: marks of one rater and text, which never overlap, and what agreement makes of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from db.manifest.answers import (
    REPEAT_EVERY,
    Question,
    Rater,
    Span,
    TextChanged,
    delete_mark,
    find_due_repeat,
    list_marks,
    store_mark,
)
from db.manifest.datasets import Dataset
from db.reports.judgements import SPANS_ASPECT
from db.schema import rating, sample, wrong_span
from db.schema.views import create_views
from tests.db.answering import ask_about, give_answer, require, seen_caption
from tests.db.builders import TWO_METRICS, add_sample, add_video, change_text, make_dataset, remove, wait_for_lock
from tests.db.judging import list_ratings

TEXT = "\U0001f415 a red\r\ndog  barks"
RED, DOG, RED_DOG = (4, 7), (9, 12), (4, 12)


@pytest.fixture
def clips(engine: Engine) -> tuple[Dataset, list[int]]:
    dataset = make_dataset(engine)
    video = add_video(engine, dataset, "v")
    return dataset, [add_sample(engine, dataset, video, f"c{number}", TEXT) for number in range(14)]


def caption_of(engine: Engine, rater: Rater, sample_id: int) -> Question:
    with engine.connect() as connection:
        return ask_about(connection, rater, [sample_id])


def mark(engine: Engine, rater: Rater, seen: Question, span: Span) -> bool:
    with engine.begin() as connection:
        return store_mark(connection, rater, require(connection, rater, seen), span)


def rows(engine: Engine, query: str) -> list[tuple[Any, ...]]:
    with engine.connect() as connection:
        return [tuple(row) for row in connection.exec_driver_sql(query)]


def test_marks_do_not_overlap_and_are_taken_back_one_by_one(engine: Engine, clips: tuple[Dataset, list[int]]) -> None:
    dataset, ids = clips
    ann, bob = (Rater(dataset, name, "fun", spans=True) for name in ("ann", "bob"))
    caption = caption_of(engine, ann, ids[0])
    assert mark(engine, ann, caption, DOG)
    for span in (DOG, RED_DOG, (10, 11), (11, 18)):
        assert not mark(engine, ann, caption, span)
    assert mark(engine, ann, caption, RED)
    assert mark(engine, bob, caption, RED_DOG), "of another rater"
    with engine.begin() as connection:
        assert list_marks(connection, ann, caption) == [RED, DOG]
        assert list_marks(connection, ann._replace(aspect="truth"), caption) == [RED, DOG], "of every aspect"
        assert not delete_mark(connection, ann, caption, RED_DOG)
        assert delete_mark(connection, ann, caption, DOG)
        assert not delete_mark(connection, ann, caption, DOG)
        assert list_marks(connection, ann, caption) == [RED]
        assert list_marks(connection, bob, caption) == [RED_DOG]
    assert rows(engine, "SELECT rater, words FROM wrong_span ORDER BY rater") == [("ann", "red"), ("bob", "red\r\ndog")]


def test_marks_from_two_windows_at_once_do_not_overlap(engine: Engine, clips: tuple[Dataset, list[int]]) -> None:
    rater = Rater(clips[0], "ann", "fun", spans=True)
    caption = caption_of(engine, rater, clips[1][0])
    with ThreadPoolExecutor(1) as pool:
        with engine.begin() as connection:
            assert store_mark(connection, rater, require(connection, rater, caption), RED_DOG)
            second = pool.submit(mark, engine, rater, caption, DOG)
            wait_for_lock(engine, second)
        assert not second.result()


def test_marks_of_an_older_text_are_kept_and_not_counted(engine: Engine, clips: tuple[Dataset, list[int]]) -> None:
    dataset, ids = clips
    with engine.begin() as connection:
        create_views(connection, TWO_METRICS)
    ann = Rater(dataset, "ann", "fun", spans=True)
    caption = caption_of(engine, ann, ids[0])
    assert mark(engine, ann, caption, RED)
    planted, moved = (seen_caption(ids[0], text)._replace(planted_id=ids[1]) for text in ("a cat", "a dog"))
    assert mark(engine, ann, planted, (2, 5))
    assert mark(engine, ann, moved, (2, 5))
    exported = "SELECT dataset, sample, system, rater, start_at, end_at, words, is_stale FROM wrong_spans"
    row = ("clips", "c0", "brief", "ann", *RED, "red")
    assert rows(engine, exported) == [(*row, False)], "what is marked in a planted caption is not of this one"
    change_text(engine, ids[0], "a fox")
    assert rows(engine, exported) == [(*row, True)]
    change_text(engine, ids[0], "a dog")
    assert sorted(rows(engine, exported)) == [("clips", "c0", "brief", "ann", 2, 5, "dog", False), (*row, True)]
    with engine.connect() as connection:
        assert list_marks(connection, ann, moved) == [(2, 5)], "the page shows what counts"
    with pytest.raises(TextChanged):
        mark(engine, ann, seen_caption(0, TEXT), RED)
    remove(engine, sample, ids[0])
    assert rows(engine, exported) == []


def test_agreement_takes_captions_that_were_rated_where_words_are_marked(
    engine: Engine, clips: tuple[Dataset, list[int]]
) -> None:
    dataset, ids = clips
    asked = {"scale": "1-5", "seed": 0, "spans": True}
    extras: list[dict[str, Any]] = [
        asked,
        asked,
        {"seed": 0},
        {**asked, "to_settle": {"question": "a:b"}},
        asked,
        {"spans": True},
    ]
    for aspect in ("fun", "truth"):
        rater = Rater(dataset, "ann", aspect, spans=True)
        for sample_id, extra in zip(ids, extras, strict=False):
            with engine.begin() as connection:
                assert give_answer(connection, rater, seen_caption(sample_id, TEXT), 2.0, extra)
    for sample_id in (*ids[:1], *ids[2:4], ids[6]):
        assert mark(engine, rater, caption_of(engine, rater, sample_id), RED)
    assert mark(engine, rater._replace(name="bob"), caption_of(engine, rater, ids[1]), RED), "not rated by bob"

    def spans() -> list[tuple[int, str, float]]:
        with engine.connect() as connection:
            listed = list_ratings(connection, dataset)
            return [(row[0], row[1], row[3]) for row in listed if row[2] == SPANS_ASPECT]

    assert spans() == [(ids[0], "ann", 0.0), (ids[1], "ann", 1.0), (ids[4], "ann", 1.0)]
    change_text(engine, ids[0], "a red cat")
    assert spans() == [(ids[1], "ann", 1.0), (ids[4], "ann", 1.0)]
    with engine.begin() as connection:
        assert give_answer(connection, rater, seen_caption(ids[0], "a red cat"), 4.0, asked)
    assert spans()[0] == (ids[0], "ann", 1.0), "nothing is marked in the text as it is"
    with engine.begin() as connection:
        connection.execute(sa.delete(rating).where(rating.c.sample_id == ids[0]))
        assert connection.scalar(sa.select(sa.func.count()).select_from(wrong_span)) == 5
    assert spans() == [(ids[1], "ann", 1.0), (ids[4], "ann", 1.0)]


def test_nothing_is_repeated_where_words_are_marked(engine: Engine, clips: tuple[Dataset, list[int]]) -> None:
    dataset, ids = clips
    rater = Rater(dataset, "ann", "fun")
    due = []
    for sample_id in ids[:REPEAT_EVERY]:
        with engine.begin() as connection:
            assert give_answer(connection, rater, seen_caption(sample_id, TEXT), 2.0, {"seed": 0})
            due.append(find_due_repeat(connection, rater) is not None)
            assert find_due_repeat(connection, rater._replace(spans=True)) is None
    assert any(due)
