"""Ratings drawn to settle a question: their order, the answer, and that no statistic takes them for a random sample."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.agreement.question_state import QuestionState, compute_question_state, explain_questions
from assets.agreement.questions import (
    RENEWAL_THREAD,
    BadQuestion,
    DrawCache,
    QuestionDraw,
    draw_for_question,
    parse_question,
)
from db.evidence.embeddings import text_sha256
from db.manifest.datasets import Dataset
from db.manifest.rating import Rater, find_next_caption, store_rating
from db.manifest.rating_draws import DRAW_FIELD, load_drawable_captions
from db.reports.agreement import list_judged_samples, list_ratings
from db.reports.summary import count_excluded_ratings
from db.schema import rating, rating_scale
from tests.assets.reporting import rate
from tests.conftest import filled_template
from tests.db.builders import add_sample, add_video, make_dataset, set_scores

N = 60
SYSTEMS = ("good", "poor")
TEXT = text_sha256("a dog runs")


def fill(engine: Engine) -> Dataset:
    """Captions of two systems for each of 60 videos; vcs knows which is better, and evqa does not."""
    dataset, rng = make_dataset(engine, "clips"), np.random.default_rng(7)
    ids = []
    for number in range(N):
        video = add_video(engine, dataset, f"v{number}")
        ids += [add_sample(engine, dataset, video, f"v{number}_{s}", system=s) for s in SYSTEMS]
    set_scores(engine, {i: value_of(i) + 0.1 * float(rng.random()) for i in ids})
    set_scores(engine, {i: float(rng.random()) for i in ids}, "evqa")
    return dataset


template = filled_template(fill)


def value_of(sample_id: int) -> float:
    """What people think of a caption."""
    return (sample_id * 7 % 5) / 5


def drawn(engine: Engine, dataset: Dataset, text: str, seed: int = 0) -> QuestionDraw:
    with engine.connect() as connection:
        return draw_for_question(connection, dataset, parse_question(connection, dataset, text), seed)


def state(engine: Engine, dataset: Dataset, made: QuestionDraw) -> QuestionState:
    with engine.connect() as connection:
        return compute_question_state(connection, dataset, "fun", made)


def rate_drawn(
    engine: Engine, dataset: Dataset, made: QuestionDraw, n: int, rater: str = "ann", seed: int = 0
) -> list[int]:
    """Rate the next captions of a draw as the page does."""
    order = []
    who = Rater(dataset, rater, "fun", seed)
    for _ in range(n):
        with engine.begin() as connection:
            item = find_next_caption(connection, who, (), made.ordered_ids)
            assert item is not None
            mark = made.build_mark(item.sample_id)
            assert mark is not None
            extra = {"seed": seed, DRAW_FIELD: mark._asdict()}
            value = 1.0 + round(4 * value_of(item.sample_id))
            assert store_rating(connection, who, item.sample_id, TEXT, value, extra)
            order.append(item.sample_id)
    return order


def test_which_metric_is_closer_is_settled_from_a_part_of_the_captions(engine: Engine, clips: Dataset) -> None:
    made = drawn(engine, clips, "evqa:vcs")
    assert not state(engine, clips, made).is_settled
    assert "too few" in state(engine, clips, made).explain()
    order = rate_drawn(engine, clips, made, 40)
    assert order == made.ordered_ids[:40]
    found = state(engine, clips, made)
    assert (found.answer is not None, found.is_settled, found.answer and found.answer.n) == (True, True, 39)
    assert "vcs is closer to people by more than chance" in found.explain()
    assert "vcs is" not in found.explain_blindly()
    assert explain_questions(engine, clips) == [found.explain()]


def test_a_rating_that_was_there_before_counts_where_the_draw_reaches_it(engine: Engine, clips: Dataset) -> None:
    made = drawn(engine, clips, "evqa:vcs")
    early, late = made.ordered_ids[3], made.ordered_ids[-1]
    rate(engine, {early: (3,), late: (3,)}, "fun")
    assert early in rate_drawn(engine, clips, made, 20)
    found = state(engine, clips, made)
    # 20 of the draw, less the one that ends it.
    assert found.answer is not None
    assert found.answer.n == 19


def test_ratings_of_another_draw_are_named_and_count_when_drawn_again(engine: Engine, clips: Dataset) -> None:
    rate_drawn(engine, clips, drawn(engine, clips, "evqa:vcs"), 30)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE score SET value = value * value * 0.5 + 0.01 * (sample_id % 3)"))
    again = drawn(engine, clips, "evqa:vcs")
    found = state(engine, clips, again)
    assert found.n_other > 0
    assert f"{found.n_other} more ratings were drawn before scores" in found.explain()
    rate_drawn(engine, clips, again, 5)
    later = state(engine, clips, again)
    assert later.answer is not None
    assert later.answer.n >= 5


def until_renewed() -> None:
    for thread in threading.enumerate():
        if thread.name == RENEWAL_THREAD:
            thread.join()


def test_an_old_draw_serves_while_it_is_made_anew(engine: Engine, clips: Dataset) -> None:
    kept, draws = DrawCache(engine), DrawCache(engine, fresh_s=0.0)
    first = kept.load(clips, "evqa:vcs", 0)
    old = draws.load(clips, "evqa:vcs", 0)
    until_renewed()
    set_scores(engine, {first.ordered_ids[0]: 0.123})
    assert draws.load(clips, "evqa:vcs", 0).keys.tolist() == old.keys.tolist()
    until_renewed()
    assert draws.load(clips, "evqa:vcs", 0).keys.tolist() != old.keys.tolist()
    assert kept.load(clips, "evqa:vcs", 0) is first
    with pytest.raises(BadQuestion, match="neither a simple score"):
        draws.load(clips, "evqa:nothing", 0)


def test_of_nothing_nothing_is_drawn(engine: Engine, clips: Dataset) -> None:
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE score SET value = NULL, status = 'undefined', error = 'it is too short'"))
    with pytest.raises(BadQuestion, match="no caption of clips has the scores"):
        drawn(engine, clips, "evqa:vcs")
    with engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM sample"))
    with engine.connect() as connection:
        assert [each.size for each in load_drawable_captions(connection, clips, 0)] == [0] * 5


def test_cuts_and_systems(engine: Engine, clips: Dataset) -> None:
    cuts = drawn(engine, clips, "vcs:0.5:0.3")
    assert cuts.question.thresholds == (0.3, 0.5)
    rate_drawn(engine, clips, cuts, 20)
    assert "Youden's J of 0.5 minus that of 0.3" in state(engine, clips, cuts).explain()
    systems = drawn(engine, clips, "poor:good")
    order = rate_drawn(engine, clips, systems, 30, "bob")
    rows = [row for i in order if (row := systems.find_row(i)) is not None]
    videos = systems.captions.video_ids[rows].tolist()
    assert videos[::2] == videos[1::2]
    found = state(engine, clips, systems)
    assert found.answer is not None
    assert found.answer.n == 14
    values = {i: 1.0 + round(4 * value_of(i)) for i in order[:28]}
    system = dict(zip(order, systems.captions.system_places[rows].tolist(), strict=True))
    poor, good = (np.mean([value for i, value in values.items() if system[i] == place]) for place in (0, 1))
    assert found.answer.value == pytest.approx(good - poor)
    assert "the mean rating of good minus that of poor is" in found.explain()
    scale = {"dataset_id": clips.dataset_id, "aspect": "fun", "scale": "1-5, lowest is best"}
    with engine.begin() as connection:
        connection.execute(sa.insert(rating_scale).values(**scale, least=1, most=5, lowest_is_best=True))
    turned = state(engine, clips, systems)
    assert turned.answer is not None
    assert turned.answer.value == pytest.approx(poor - good)
    assert "the mean of 6 − fun of good minus that of poor is" in turned.explain()


def test_a_difference_of_systems_may_be_as_great_as_the_scale(engine: Engine, clips: Dataset) -> None:
    systems = drawn(engine, clips, "poor:good")
    rows = [(i, systems.find_row(i)) for i in rate_drawn(engine, clips, systems, 60, "bob")]
    place = {i: int(systems.captions.system_places[row]) for i, row in rows if row is not None}
    for name, ends in (("0-100", {"least": 0, "most": 100}), ("real", {})):
        with engine.begin() as connection:
            connection.execute(sa.delete(rating_scale))
            scale = {"dataset_id": clips.dataset_id, "aspect": "fun", "scale": name, "lowest_is_best": False}
            connection.execute(sa.insert(rating_scale).values(**scale, **ends))
            for i, side in place.items():
                changed = sa.update(rating).where(rating.c.sample_id == i)
                connection.execute(changed.values(value=90.0 * side + i % 3))
        answer = state(engine, clips, systems).answer
        assert answer is not None
        assert answer.low is not None
        assert answer.high is not None
        assert 80 < answer.low < 90 < answer.high <= 100


def test_statistics_read_only_what_is_a_random_sample(engine: Engine, clips: Dataset) -> None:
    made = drawn(engine, clips, "evqa:vcs")
    rate_drawn(engine, clips, made, 40)
    chance = dict(zip(made.captions.sample_ids.tolist(), made.captions.chances.tolist(), strict=True))
    last = made.keys[made.find_row(made.ordered_ids[39])]
    assert made.least_share is not None
    even = {i for i in made.ordered_ids[:40] if chance[i] < last * made.least_share}
    assert 5 < len(even) < 40
    plain = min(i for i in chance if i not in made.ordered_ids[:40])
    rate(engine, {plain: (3,)}, "fun")
    with engine.connect() as connection:
        assert {row[0] for row in list_ratings(connection, clips.dataset_id)} == even | {plain}
        assert {each.sample_id for each in list_judged_samples(connection, clips.dataset_id)} == even | {plain}
        assert count_excluded_ratings(connection, clips.dataset_id) == 40 - len(even)


def test_pairs_of_two_systems_are_no_random_sample(engine: Engine, clips: Dataset) -> None:
    rate_drawn(engine, clips, drawn(engine, clips, "poor:good"), 10)
    with engine.connect() as connection:
        assert not list(list_ratings(connection, clips.dataset_id))
        assert count_excluded_ratings(connection, clips.dataset_id) == 10


def test_an_own_field_of_a_manifest_is_no_mark(engine: Engine, clips: Dataset) -> None:
    made = drawn(engine, clips, "evqa:vcs")
    rate(engine, {made.ordered_ids[0]: (3,), made.ordered_ids[1]: (3,)}, "fun")
    for place, own in enumerate(('{"to_settle": "next week"}', '{"to_settle": {"question": "evqa:vcs", "key": "x"}}')):
        with engine.begin() as connection:
            statement = sa.text("UPDATE rating SET extra = CAST(:own AS jsonb) WHERE sample_id = :id")
            connection.execute(statement, {"own": own, "id": made.ordered_ids[place]})
    with engine.connect() as connection:
        assert [row[0] for row in list_ratings(connection, clips.dataset_id)] == [made.ordered_ids[0]]
    assert state(engine, clips, made).answer is None


NO_QUESTIONS = {
    "vcs": "'vcs' is no question",
    "vcs:vcs": "is no question",
    "vcs:nothing": "'nothing' is neither a simple score",
    "vcs:0.5:0.5": "is no question",
    "vcs:0.5:inf": "is no question",
    "vcs:cosine": "clips has no scores of cosine yet: run reelsieve score --dataset clips --metric cosine",
    "vcs:7:8:9": "is no question",
}


def test_what_is_no_question_is_refused_in_a_sentence(engine: Engine, clips: Dataset) -> None:
    for text, sentence in NO_QUESTIONS.items():
        with pytest.raises(BadQuestion, match=sentence):
            drawn(engine, clips, text)


def test_the_draw_of_a_seed_is_always_the_same(engine: Engine, clips: Dataset) -> None:
    first, again, other = (drawn(engine, clips, "evqa:vcs", seed) for seed in (3, 3, 4))
    assert first.ordered_ids == again.ordered_ids != other.ordered_ids
