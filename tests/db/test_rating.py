"""Ratings that are given in a browser: their order, and that none is lost, doubled or of another text."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from db.evidence.embeddings import text_sha256
from db.manifest.datasets import Dataset
from db.manifest.rating import Rater, n_rated, next_item, scale_of, store_rating, take_back
from db.schema import rating
from tests.assets.reporting import rate
from tests.db.builders import add_sample, add_video, change_text, make_dataset, remove

N = 12
TEXT = text_sha256("a dog runs")
EXTRA: dict[str, Any] = {"scale": "1-5", "answer": "4", "seed": 0}


@pytest.fixture
def clips(engine: Engine) -> tuple[Dataset, list[int]]:
    """Captions, a question, and a caption of another dataset."""
    dataset, other = make_dataset(engine), make_dataset(engine, "other")
    video = add_video(engine, dataset, "v")
    ids = [add_sample(engine, dataset, video, f"c{number}") for number in range(N)]
    add_sample(engine, dataset, video, "q", kind="qa", question="What?", answer="That.")
    add_sample(engine, other, add_video(engine, other, "v"), "c")
    return dataset, ids


def answer(engine: Engine, rater: Rater, sample_id: int, value: float = 4.0, text: bytes = TEXT) -> bool:
    with engine.begin() as connection:
        return store_rating(connection, rater, sample_id, text, value, EXTRA)


def following(engine: Engine, rater: Rater, skipped: tuple[int, ...] = ()) -> int | None:
    with engine.connect() as connection:
        item = next_item(connection, rater, skipped)
        return None if item is None else item.sample_id


def rate_all(engine: Engine, rater: Rater) -> list[int]:
    order: list[int] = []
    while (item := following(engine, rater)) is not None:
        assert answer(engine, rater, item)
        order.append(item)
    return order


def test_each_caption_comes_once_in_an_order_of_the_seed_alone(
    engine: Engine, clips: tuple[Dataset, list[int]]
) -> None:
    dataset, ids = clips
    order = rate_all(engine, Rater(dataset, "ann", "fun"))
    assert sorted(order) == ids != order
    assert rate_all(engine, Rater(dataset, "bob", "fun")) == order
    assert rate_all(engine, Rater(dataset, "ann", "truth")) == order
    assert sorted(other := rate_all(engine, Rater(dataset, "cid", "fun", seed=1))) == ids
    assert other != order
    with engine.connect() as connection:
        assert n_rated(connection, Rater(dataset, "ann", "fun")) == (N, N)
        stored = connection.execute(sa.select(rating).where(rating.c.rater == "cid").limit(1)).one()
    assert (stored.value, stored.extra["scale"], stored.extra["answer"]) == (4.0, "1-5", "4")
    assert stored.extra["rated_at"].startswith("20")


def test_what_is_skipped_comes_only_where_it_is_asked_for(engine: Engine, clips: tuple[Dataset, list[int]]) -> None:
    rater = Rater(clips[0], "ann", "fun")
    first = following(engine, rater)
    assert first is not None
    assert following(engine, rater, (first,)) not in (None, first)
    assert following(engine, rater, tuple(clips[1])) is None


def test_a_second_answer_and_one_about_another_text_are_not_stored(
    engine: Engine, clips: tuple[Dataset, list[int]]
) -> None:
    dataset, (first, second, third, *_) = clips
    rater = Rater(dataset, "ann", "fun")
    assert answer(engine, rater, first, 2.0)
    assert not answer(engine, rater, first, 5.0)
    change_text(engine, second, "a cat sleeps")
    assert not answer(engine, rater, second)
    remove(engine, rating.metadata.tables["sample"], third)
    assert not answer(engine, rater, third)
    with engine.connect() as connection:
        assert list(connection.scalars(sa.select(rating.c.value))) == [2.0]


def test_only_captions_of_the_dataset_are_rated(engine: Engine, clips: tuple[Dataset, list[int]]) -> None:
    rater = Rater(clips[0], "ann", "fun")
    with engine.connect() as connection:
        others = connection.exec_driver_sql("SELECT sample_id FROM sample WHERE key IN ('q', 'c')").scalars().all()
    assert [answer(engine, rater, other) for other in others] == [False, False]


def test_the_last_answer_is_taken_back_and_nothing_else(engine: Engine, clips: tuple[Dataset, list[int]]) -> None:
    dataset, ids = clips
    ann, bob = Rater(dataset, "ann", "fun"), Rater(dataset, "bob", "fun")
    rate(engine, {ids[0]: (3,)}, "fun")  # of the manifest, by r0
    for rater, sample_id in ((ann, ids[1]), (ann, ids[0]), (bob, ids[2]), (ann._replace(aspect="truth"), ids[3])):
        assert answer(engine, rater, sample_id)
    taken = []
    for rater in (ann, ann, ann, ann._replace(name="r0")):
        with engine.begin() as connection:
            taken.append(take_back(connection, rater))
    assert taken == [True, True, False, False]
    with engine.connect() as connection:
        left = connection.execute(sa.select(rating.c.rater, rating.c.sample_id).order_by(rating.c.rater)).all()
    assert [tuple(row) for row in left] == [("ann", ids[3]), ("bob", ids[2]), ("r0", ids[0])]


def test_undo_goes_back_answer_by_answer(engine: Engine, clips: tuple[Dataset, list[int]]) -> None:
    rater = Rater(clips[0], "ann", "fun")
    first = following(engine, rater)
    assert first is not None
    assert answer(engine, rater, first)
    second = following(engine, rater)
    assert second is not None
    assert answer(engine, rater, second)
    for expected in (second, first):
        with engine.begin() as connection:
            assert take_back(connection, rater)
        assert following(engine, rater) == expected


def test_a_scale_belongs_to_an_aspect_of_a_dataset(engine: Engine, clips: tuple[Dataset, list[int]]) -> None:
    dataset, ids = clips
    rate(engine, {ids[0]: (3,)}, "fun")
    with engine.connect() as connection:
        assert scale_of(connection, dataset, "fun") is None
    assert answer(engine, Rater(dataset, "ann", "fun"), ids[0])
    with engine.connect() as connection:
        assert scale_of(connection, dataset, "fun") == "1-5"
        assert scale_of(connection, dataset, "truth") is None
