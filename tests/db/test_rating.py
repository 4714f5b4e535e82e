"""What people say in a browser: its order, and that nothing is lost, doubled or about another text."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from db.manifest.answers import (
    CHOSEN_FIELD,
    MIN_REPEAT_DISTANCE,
    REPEAT_EVERY,
    Key,
    Question,
    Rater,
    count_answers,
    count_answers_by_rater,
    delete_last_answer,
    find_due_repeat,
    find_next_question,
    find_scale,
)
from db.manifest.datasets import Dataset
from db.manifest.rows import store_rows
from db.reports.judgements import count_ratings, list_answers
from db.reports.samples import load_judgements as ratings_on_page
from db.reports.samples import load_ratings_by_sample
from db.reports.summary import (
    load_dataset_summary,
)
from db.schema import rating, sample
from db.schema.views import create_views
from db.server.engine import open_psycopg_transaction
from tests.assets.reporting import rate
from tests.db.answering import give_answer, seen_caption
from tests.db.builders import TWO_METRICS, add_sample, add_video, change, change_text, make_dataset, remove
from tests.db.judging import list_judged, list_ratings, load

N = 12
TEXT = "a dog runs"
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


def answer(engine: Engine, rater: Rater, sample_id: int, value: float = 4.0, text: str = TEXT) -> bool:
    with engine.begin() as connection:
        return give_answer(connection, rater, seen_caption(sample_id, text), value, EXTRA)


def following(engine: Engine, rater: Rater, skipped: tuple[int, ...] = ()) -> int | None:
    """The next caption, without repeats."""
    rater, keys = rater._replace(spans=True), [(sample_id,) for sample_id in skipped]
    with engine.connect() as connection:
        question = find_next_question(connection, rater, keys)
        return None if question is None else question.sample_ids[0]


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
        assert count_answers(connection, Rater(dataset, "ann", "fun")) == (N, N)
        stored = connection.execute(sa.select(rating).where(rating.c.rater == "cid").limit(1)).one()
    assert (stored.value, stored.extra["scale"], stored.extra["answer"]) == (4.0, "1-5", "4")
    assert stored.extra["rated_at"].startswith("20")


def test_answers_of_all_raters_are_counted_while_they_are_about_the_present_text(
    engine: Engine, clips: tuple[Dataset, list[int]]
) -> None:
    dataset, ids = clips
    for name, given in (("bob", ids[:2]), ("ann", ids[:2]), ("cid", ids[:5])):
        for i in given:
            assert answer(engine, Rater(dataset, name, "fun"), i)
    assert answer(engine, Rater(dataset, "dan", "truth"), ids[0])
    with engine.connect() as connection:
        assert count_answers_by_rater(connection, Rater(dataset, "eve", "fun")) == [("cid", 5), ("ann", 2), ("bob", 2)]
    change_text(engine, ids[0], "another text")
    with engine.connect() as connection:
        assert count_answers_by_rater(connection, Rater(dataset, "eve", "fun")) == [("cid", 4), ("ann", 1), ("bob", 1)]
        assert count_answers_by_rater(connection, Rater(dataset, "eve", "truth")) == []


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


def test_ratings_of_chosen_captions_are_no_random_sample(engine: Engine, clips: tuple[Dataset, list[int]]) -> None:
    dataset, ids = clips
    rater = Rater(dataset, "ann", "fun")
    # The mark of an earlier version, which drew for a question, and a manifest's own field of the name.
    earlier = {"question": "vcs:evqa", "share": 0.5, "key": 0.1, "least": 0.5}
    marks: list[Any] = [{"question": "promise 7"}, earlier, "next week"]
    for sample_id, mark in zip(ids, marks, strict=False):
        with engine.begin() as connection:
            extra = {"seed": 0, CHOSEN_FIELD: mark}
            assert give_answer(connection, rater, seen_caption(sample_id, TEXT), 2.0, extra)
    with engine.connect() as connection:
        assert [row[0] for row in list_ratings(connection, dataset)] == [ids[2]]
        assert list_judged(connection, dataset) == [ids[2]]
        assert count_ratings(connection, dataset.dataset_id).n_chosen == 2


def test_a_rating_of_an_older_text_counts_nowhere_and_its_caption_is_asked_again(
    engine: Engine, clips: tuple[Dataset, list[int]]
) -> None:
    dataset, (first, *_) = clips
    rater = Rater(dataset, "ann", "fun")

    def counted() -> dict[str, Any]:
        """What each reader of ratings takes this one for, and the count of old ones."""
        with engine.begin() as connection:
            create_views(connection, TWO_METRICS)
            means = connection.exec_driver_sql("SELECT mean_ratings->>'fun' FROM sample_scores WHERE sample = 'c0'")
            summary = load_dataset_summary(connection, dataset.name)
            return {
                "mean": means.scalar(),
                "random": list_ratings(connection, dataset),
                "judged": list_judged(connection, dataset),
                "rated": count_answers(connection, rater)[0],
                "raters": count_ratings(connection, dataset.dataset_id).by_rater,
                "shown": load_ratings_by_sample(connection, [first]),
                "counts": (summary["ratings"], summary["old_ratings"]),
                "old": count_ratings(connection, dataset.dataset_id).n_old,
            }

    assert answer(engine, rater, first, 2.0)
    now = counted()
    assert now == {
        "mean": "2",
        "random": [(first, "ann", "fun", 2.0)],
        "judged": [first],
        "rated": 1,
        "raters": {"ann": 1},
        "shown": {first: {"fun": {"ann": 2.0}}},
        "counts": (1, 0),
        "old": 0,
    }
    change_text(engine, first, "a cat sleeps")
    nothing = {"mean": None, "random": [], "judged": [], "rated": 0, "raters": {}, "shown": {}}
    assert counted() == nothing | {"counts": (0, 1), "old": 1}
    with engine.connect() as connection:
        assert [(row["value"], row["is_old"]) for row in ratings_on_page(connection, first)] == [(2.0, True)]
        question = find_next_question(connection, rater, drawn=[first])
        assert question is not None
        assert question.sample_ids == (first,)
    assert following(engine, rater, tuple(clips[1][1:])) == first
    change_text(engine, first, "a dog runs")
    assert counted() == now, "as soon as the text is the old one, the rating counts"
    change_text(engine, first, "a cat sleeps")
    assert not answer(engine, rater, first, 5.0), "an answer about the text of before"
    assert answer(engine, rater, first, 5.0, "a cat sleeps")
    assert counted() == {
        **now,
        "mean": "5",
        "random": [(first, "ann", "fun", 5.0)],
        "shown": {first: {"fun": {"ann": 5.0}}},
    }


def test_a_row_of_a_manifest_counts_for_the_text_beside_which_it_was_given(
    engine: Engine, clips: tuple[Dataset, list[int]]
) -> None:
    dataset, (first, *_) = clips

    def ingest(row: bytes) -> int:
        with open_psycopg_transaction(engine) as driver:
            said = {"sample_id": first, "rater": "ann", "aspect": "fun", "value": 3.0, "extra": None}
            store_rows(driver, "rating", [{**said, "row_sha256": row}], may_exist=True)
        with engine.connect() as connection:
            return len(list_ratings(connection, dataset))

    assert ingest(b"first") == 1
    change_text(engine, first, "a cat sleeps")
    assert ingest(b"first") == 0, "an unchanged row is about the text of before"
    assert ingest(b"second") == 1, "a changed row is about the text of now"


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
            taken.append(delete_last_answer(connection, rater))
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
            assert delete_last_answer(connection, rater)
        assert following(engine, rater) == expected


def test_a_scale_belongs_to_an_aspect_of_a_dataset(engine: Engine, clips: tuple[Dataset, list[int]]) -> None:
    dataset, ids = clips
    rate(engine, {ids[0]: (3,)}, "fun")
    with engine.connect() as connection:
        assert find_scale(connection, dataset, "fun") is None
    assert answer(engine, Rater(dataset, "ann", "fun"), ids[0])
    with engine.connect() as connection:
        assert find_scale(connection, dataset, "fun") == "1-5"
        assert find_scale(connection, dataset, "truth") is None


# Two side by side, and repeats.


@pytest.fixture
def pairs(engine: Engine) -> tuple[Dataset, dict[str, int]]:
    """Three systems on two videos; on the second video two of them say the same."""
    dataset = make_dataset(engine)
    ids = {}
    for key in ("v", "w"):
        video = add_video(engine, dataset, key)
        for system in "abc":
            text = f"{system} says" if key == "v" or system == "c" else "the same"
            ids[key + system] = add_sample(engine, dataset, video, key + system, text, system=system)
        add_sample(engine, dataset, video, f"{key}q", kind="qa", question="What?", answer="That.")
    return dataset, ids


def ask(engine: Engine, rater: Rater, skipped: tuple[Key, ...] = ()) -> Question:
    with engine.connect() as connection:
        question = find_next_question(connection, rater, skipped)
    assert question is not None
    return question


def reply(engine: Engine, rater: Rater, question: Question, value: float) -> bool:
    with engine.begin() as connection:
        return give_answer(connection, rater, question, value, {"answer": str(value), "seed": rater.seed})


def test_pairs_are_of_one_video_by_two_systems_with_two_texts(
    engine: Engine, pairs: tuple[Dataset, dict[str, int]]
) -> None:
    dataset, ids = pairs
    ann = Rater(dataset, "ann", "fun", kind="preference")
    seen = [question.key for question in _all(engine, ann)]
    names = {number: key for key, number in ids.items()}
    assert sorted("".join(names[i] for i in key) for key in seen) == ["vavb", "vavc", "vbvc", "wawc", "wbwc"]
    raters = [Rater(dataset, f"ann{number}", "fun", kind="preference") for number in range(24)]
    left = [ask(engine, rater).sample_ids[0] for rater in raters]
    assert set(left) == set(seen[0])
    assert 4 < left.count(left[0]) < 20, "which one stands on the left is drawn for each rater"


def test_a_preference_counts_while_both_texts_are_those_that_were_compared(
    engine: Engine, pairs: tuple[Dataset, dict[str, int]]
) -> None:
    dataset, _ = pairs
    ann = Rater(dataset, "ann", "fun", kind="preference")
    question = ask(engine, ann)
    assert not reply(engine, ann, question._replace(captions=question.captions[:1] * 2), 1)
    assert reply(engine, ann, question, 1)
    assert not reply(engine, ann, question, -1)
    key = question.key

    def told() -> list[tuple[int, int, int]]:
        with engine.connect() as connection:
            judged = load(connection, dataset)["caption"]
        return [
            (int(judged.sample_ids[first]), int(judged.sample_ids[second]), int(better))
            for given in judged.preferences.values()
            for first, second, better in zip(*given[:3], strict=True)
        ]

    assert told() == [(*key, 1)]
    assert ask(engine, ann) != question
    change_text(engine, key[1], "another text")
    assert told() == []
    assert not reply(engine, ann, question, -1), "it is about a text that is no more"
    (changed,) = (each for each in _all(engine, ann) if each.key == key)
    assert reply(engine, ann, changed, -1)
    assert told() == [(*key, -1)]
    remove(engine, rating.metadata.tables["sample"], key[0])
    assert told() == []
    assert not reply(engine, ann, question, 1)


def _all(engine: Engine, rater: Rater) -> list[Question]:
    """All that a rater could be asked now."""
    found: list[Question] = []
    with engine.connect() as connection:
        while question := find_next_question(connection, rater, [each.key for each in found]):
            found.append(question)
    return found


@pytest.mark.parametrize("name", ["ann", "bob"])
def test_some_captions_come_twice_and_keep_both_answers(
    engine: Engine, clips: tuple[Dataset, list[int]], name: str
) -> None:
    dataset, _ = clips
    video = add_video(engine, dataset, "more")
    for number in range(30):
        add_sample(engine, dataset, video, f"more{number}")
    rater, order = Rater(dataset, name, "fun", seed=2**63 - 1), []
    for place in range(40):
        question = ask(engine, rater)
        assert reply(engine, rater, question, float(1 + place % 5))
        order += question.sample_ids
    repeated = [place for place, i in enumerate(order) if i in order[:place]]
    assert [place // REPEAT_EVERY for place in repeated] == [0, 1, 2, 3], "one of ten"
    assert all(place - order.index(order[place]) > MIN_REPEAT_DISTANCE for place in repeated)
    assert len({order[place] for place in repeated}) == len(repeated), "none comes a third time"
    with engine.connect() as connection:
        assert count_answers(connection, rater) == (36, 42)
        stored = {row.sample_id: row for row in connection.execute(sa.select(rating))}
        answers = list_answers(connection, dataset.dataset_id)
    for place in repeated:
        row, first = stored[order[place]], order.index(order[place])
        assert (row.value, row.extra["again"]["value"]) == (1 + first % 5, 1 + place % 5)
    assert sorted((each.first_value, each.value) for each in answers if each.first_value is not None) == sorted(
        (1 + order.index(order[place]) % 5, 1 + place % 5) for place in repeated
    )
    for place in reversed(range(40)):
        with engine.begin() as connection:
            assert delete_last_answer(connection, rater)
        assert ask(engine, rater).sample_ids == (order[place],), "undo goes back through repeats"
    with engine.begin() as connection:
        assert not delete_last_answer(connection, rater)


def test_a_repeat_is_stored_once_and_never_of_a_text_that_changed(
    engine: Engine, clips: tuple[Dataset, list[int]]
) -> None:
    dataset, _ = clips
    rater = Rater(dataset, "ann", "fun")

    def repeat() -> Key | None:
        with engine.connect() as connection:
            return find_due_repeat(connection, rater)

    order = []
    while repeat() is None:
        question = ask(engine, rater)
        assert reply(engine, rater, question, 3.0)
        order += question.sample_ids
    (due,) = repeat() or ()
    assert due in order[:-MIN_REPEAT_DISTANCE]
    change_text(engine, due, "another text")
    assert repeat() != (due,)
    change_text(engine, due, "a dog runs")
    question = ask(engine, rater)
    assert question.key == (due,)
    assert not reply(engine, rater, seen_caption(due, "another"), 1.0), "an answer about another text"
    assert reply(engine, rater, question, 5.0)
    assert not reply(engine, rater, question, 1.0), "the other window comes too late"
    with engine.connect() as connection:
        row = connection.execute(sa.select(rating).where(rating.c.sample_id == due)).one()
    assert (row.value, row.extra["again"]["value"]) == (3.0, 5.0)


def test_a_repeated_pair_stands_the_other_way_round(engine: Engine, pairs: tuple[Dataset, dict[str, int]]) -> None:
    dataset, _ = pairs
    video = add_video(engine, dataset, "x")
    for system in "abcde":
        add_sample(engine, dataset, video, f"x{system}", f"{system} says", system=system)
    ann, seen = Rater(dataset, "ann", "fun", kind="preference"), {}
    for _ in range(REPEAT_EVERY):
        question = ask(engine, ann)
        if question.key in seen:
            assert question.captions == seen[question.key].captions[::-1]
            return
        seen[question.key] = question
        assert reply(engine, ann, question, 0)
    pytest.fail("no pair came twice")


def test_a_repeat_whose_captions_are_of_two_videos_by_now_does_not_end_the_questions(
    engine: Engine, pairs: tuple[Dataset, dict[str, int]]
) -> None:
    dataset, _ = pairs
    video, moved_to = add_video(engine, dataset, "x"), add_video(engine, dataset, "y")
    for system in "abcdef":
        add_sample(engine, dataset, video, f"x{system}", f"{system} says", system=system)
    ann, due = Rater(dataset, "ann", "fun", kind="preference"), None
    while due is None:
        assert reply(engine, ann, ask(engine, ann), 0)
        with engine.connect() as connection:
            due = find_due_repeat(connection, ann)
    change(engine, sample, due[1], video_id=moved_to)
    question = ask(engine, ann)
    assert question.key != due
    assert reply(engine, ann, question, 0)
