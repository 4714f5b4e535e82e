"""Attention checks: one in so many questions, never about a right caption, never a rating, and taken back in order."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from db.manifest.answers import (
    Question,
    Rater,
    count_answers,
    count_questions,
    delete_last_answer,
    find_due_check,
    find_next_question,
)
from db.manifest.datasets import Dataset
from db.manifest.removal import count_contents, delete_dataset
from db.reports.judgements import CheckCount, count_passed_checks
from db.schema import attention_check, preference, rating, sample
from tests.conftest import filled_template
from tests.db.answering import give_answer
from tests.db.builders import add_reference, add_sample, add_video, make_dataset, remove

N_VIDEOS, EVERY = 20, 4
EXTRA: dict[str, Any] = {"answer": "1", "seed": 0}


class Text(NamedTuple):
    """A caption's ids, the file of its video, and the texts of caption and reference without case and space."""

    sample_id: int
    video_id: int
    content: int
    text: str
    reference: str


def fill(engine: Engine) -> tuple[Dataset, dict[int, Text]]:
    """Two captions of each of 20 videos, by sample. Video and the next one are copies of one file, and half of all
    first captions are of one text but for case and space; that of a reference is the second caption of the video
    after the next.
    """
    dataset, texts = make_dataset(engine), {}
    for number in range(N_VIDEOS):
        video = add_video(engine, dataset, f"v{number}", content=bytes([number // 2]))
        add_reference(engine, dataset, video, f"r{number}", f"Scene {number + 2} ends. ")
        first = (" A dog runs", "a dog runs", f"cat {number}", f"bird {number}")[number % 4]
        for system, text in (("a", first), ("b", f"scene {number} ends.")):
            sample_id = add_sample(engine, dataset, video, f"c{number}{system}", text, system=system)
            texts[sample_id] = Text(sample_id, video, number // 2, text.strip().lower(), f"scene {number + 2} ends.")
    return dataset, texts


template = filled_template(fill)


def find_due(engine: Engine, rater: Rater, skipped: tuple[tuple[int, ...], ...] = ()) -> Question | None:
    with engine.connect() as connection:
        check = find_due_check(connection, rater, EVERY, skipped)
        assert find_due_check(connection, rater, EVERY, skipped) == check, "it stays while it is not answered"
        return check


def answer_next(engine: Engine, rater: Rater) -> Question | None:
    """Answer what is due: the check, which is returned, or the next caption or pair."""
    check = find_due(engine, rater)
    with engine.begin() as connection:
        question = check or find_next_question(connection, rater)
        assert question is not None
        assert give_answer(connection, rater, question, 1.0, EXTRA, has_passed=rater.kind == "rating")
    return check


@pytest.mark.parametrize("pairs", [False, True])
def test_one_in_so_many_questions_is_a_check_and_none_is_right(
    engine: Engine, clips: tuple[Dataset, dict[int, Text]], pairs: bool
) -> None:
    dataset, texts = clips
    n = 16
    rater = Rater(dataset, "ann", "fun", kind="preference" if pairs else "rating")
    checks = [answer_next(engine, rater) for _ in range(n)]
    for block in range(0, n, EVERY):
        assert sum(check is not None for check in checks[block : block + EVERY]) == 1
    for check in filter(None, checks):
        assert len(check.captions) == 1 + pairs
        shown, planted = check.captions[check.place], texts[check.planted_id or 0]
        of_video = [text for text in texts.values() if text.video_id == shown.video_id]
        assert shown.sample_id in [text.sample_id for text in of_video]
        assert shown.text.strip().lower() == planted.text
        assert planted.text not in [text.text for text in of_video]
        assert planted.text != of_video[0].reference
        assert planted.content != of_video[0].content
        others = [item for place, item in enumerate(check.captions) if place != check.place]
        assert [item.text for item in others] == [load_text(engine, item.sample_id) for item in others]
    table = preference if pairs else rating
    n_checks = n // EVERY
    with engine.connect() as connection:
        assert count_questions(connection, rater) == n
        assert count_questions(connection, rater._replace(name="bob")) == 0
        twice = sa.func.count(table.c.extra[("again", "rated_at")].astext)
        n_stored, n_twice = connection.execute(sa.select(sa.func.count(), twice).select_from(table)).one()
        assert n_stored + n_twice == n - n_checks
        assert count_answers(connection, rater)[0] == n_stored
        wanted = CheckCount("ann", "fun", pairs, 0 if pairs else n_checks, n_checks)
        assert count_passed_checks(connection, dataset.dataset_id) == (wanted,)


def load_text(engine: Engine, sample_id: int) -> str:
    with engine.connect() as connection:
        return connection.execute(sa.select(sample.c.text).where(sample.c.sample_id == sample_id)).scalar_one()


def advance_to_check(engine: Engine, rater: Rater) -> Question:
    """Answer until a check is due."""
    while (check := find_due(engine, rater)) is None:
        answer_next(engine, rater)
    return check


def test_raters_get_their_own_checks(engine: Engine, clips: tuple[Dataset, dict[int, Text]]) -> None:
    raters = [Rater(clips[0], f"rater-{number}", "fun") for number in range(8)]
    checks = [advance_to_check(engine, rater) for rater in raters]
    with engine.connect() as connection:
        places = [count_questions(connection, rater) for rater in raters]
    assert len(set(places)) > 1
    assert len({check.planted_id for check in checks}) > 1


def test_an_answer_to_a_check_is_stored_once_and_never_as_a_rating(
    engine: Engine, clips: tuple[Dataset, dict[int, Text]]
) -> None:
    rater = Rater(clips[0], "ann", "fun")
    check = advance_to_check(engine, rater)
    (shown,), as_rating = check.captions, check._replace(planted_id=None)
    with engine.begin() as connection:
        before = count_answers(connection, rater)
        assert not give_answer(connection, rater, as_rating, 5.0, EXTRA)
        assert give_answer(connection, rater, check, 5.0, EXTRA, has_passed=False)
        assert not give_answer(connection, rater, check, 1.0, EXTRA, has_passed=True)
        assert not give_answer(connection, rater, as_rating, 5.0, EXTRA), "from a second window"
        assert count_answers(connection, rater) == before
        row = connection.execute(sa.select(attention_check)).one()
    assert (row.sample_id, row.planted_id, row.value, row.has_passed) == (shown.sample_id, check.planted_id, 5.0, False)
    assert (bytes(row.planted_sha256), row.extra["answer"]) == (shown.text_sha256, "1")


def test_answers_and_checks_are_taken_back_in_turn(engine: Engine, clips: tuple[Dataset, dict[int, Text]]) -> None:
    rater = Rater(clips[0], "ann", "fun")
    order = [answer_next(engine, rater) for _ in range(6)]
    assert any(order[:EVERY])
    for check in reversed(order):
        with engine.begin() as connection:
            assert delete_last_answer(connection, rater)
        assert find_due(engine, rater) == check, "it is due again"
    with engine.begin() as connection:
        assert not delete_last_answer(connection, rater)
        assert count_questions(connection, rater) == 0


def test_a_skipped_check_is_not_asked_again(engine: Engine, clips: tuple[Dataset, dict[int, Text]]) -> None:
    rater = Rater(clips[0], "ann", "fun")
    check = advance_to_check(engine, rater)
    assert find_due(engine, rater, (check.key,)) is None
    assert find_due(engine, rater, ((check.planted_id or 0,),)) == check


def test_captions_of_one_text_or_one_file_have_no_check(engine: Engine) -> None:
    for name, contents, texts in (
        ("text", (b"1", b"2"), ("A dog", "a dog ")),
        ("file", (b"1", b"1"), ("A dog", "Cat")),
    ):
        dataset = make_dataset(engine, name)
        for number, (content, text) in enumerate(zip(contents, texts, strict=True)):
            video = add_video(engine, dataset, f"v{number}", content=content)
            add_sample(engine, dataset, video, f"c{number}", text)
        with engine.connect() as connection:
            assert find_due_check(connection, Rater(dataset, "ann", "fun"), 1) is None


def test_a_check_goes_with_its_captions(engine: Engine, clips: tuple[Dataset, dict[int, Text]]) -> None:
    dataset, _ = clips
    for name in ("ann", "bob"):
        rater = Rater(dataset, name, "fun")
        check = advance_to_check(engine, rater)
        with engine.begin() as connection:
            assert give_answer(connection, rater, check, 1.0, EXTRA, has_passed=True)
    remove(engine, sample, check.planted_id)
    with engine.begin() as connection:
        assert [count.rater for count in count_passed_checks(connection, dataset.dataset_id)] == ["ann"]
        assert not give_answer(connection, rater, check, 1.0, EXTRA, has_passed=True), "dropped meanwhile"
        assert count_contents(connection, dataset)["answers to attention checks"] == 1
        delete_dataset(connection, dataset)
        assert connection.scalar(sa.select(sa.func.count()).select_from(attention_check)) == 0
