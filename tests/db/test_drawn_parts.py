"""Draws of a part of a dataset: its first samples by random numbers, larger draws, growing datasets, conditions."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.metrics.registry import METRIC_INPUTS
from db import schema
from db.manifest.datasets import Dataset
from db.manifest.draws import build_draw_order
from db.selection.conditions import FilterError
from db.selection.draws import (
    NOT_DRAWN,
    Draw,
    count_unscored_samples,
    extend_draws,
    filter_asked_samples,
    list_coming_samples,
    list_draws,
    list_wanted_samples,
    load_answer_counts,
    store_undrawn_scores,
    take_draw,
)
from tests.db.builders import (
    activate,
    add_sample,
    add_video,
    change_text,
    make_dataset,
    ok,
    register,
    undefined,
    write_fresh,
)

N = 60


@pytest.fixture
def dataset(engine: Engine) -> Dataset:
    """60 captions by two systems on six videos."""
    made = make_dataset(engine, n_shards=2)
    for number in range(6):
        video = add_video(engine, made, f"v{number}")
        add_captions(engine, made, video, range(number * 10, number * 10 + 10))
    return made


def add_captions(engine: Engine, dataset: Dataset, video: int, numbers: Iterable[int]) -> None:
    for number in numbers:
        add_sample(engine, dataset, video, f"c{number}", system="brief" if number % 3 else "long")


def order(engine: Engine, dataset: Dataset, seed: int = 0, **columns: str) -> list[int]:
    """Ids of the dataset's samples with these values, by their random numbers."""
    query = sa.select(schema.sample.c.sample_id).where(schema.sample.c.dataset_id == dataset.dataset_id)
    query = query.where(*(schema.sample.c[name] == value for name, value in columns.items()))
    with engine.connect() as connection:
        return list(connection.scalars(query.order_by(*build_draw_order(seed))))


def take(engine: Engine, dataset: Dataset, draw: Draw, scorer_id: int | None = None) -> int:
    chosen = register(engine, "judge") if scorer_id is None else scorer_id
    with engine.begin() as connection:
        return take_draw(connection, dataset, "judge", chosen, draw)


def extend(engine: Engine, dataset: Dataset) -> int:
    scorer_id = register(engine, "judge")
    with engine.begin() as connection:
        return extend_draws(connection, dataset, "judge", scorer_id)


def drawn(engine: Engine, metric: str = "judge") -> set[int]:
    query = sa.select(schema.drawn_sample.c.sample_id).where(schema.drawn_sample.c.metric == metric)
    with engine.connect() as connection:
        return set(connection.scalars(query))


def stale(engine: Engine) -> set[int]:
    query = sa.select(schema.score.c.sample_id).where(schema.score.c.is_stale)
    with engine.connect() as connection:
        return set(connection.scalars(query))


def test_a_draw_is_the_beginning_of_the_order_and_a_larger_one_keeps_it(engine: Engine, dataset: Dataset) -> None:
    everything = order(engine, dataset)
    assert take(engine, dataset, Draw(10)) == 10
    assert drawn(engine) == set(everything[:10])
    assert take(engine, dataset, Draw(25)) == 15
    assert take(engine, dataset, Draw(5)) == 0
    assert drawn(engine) == set(everything[:25])
    assert take(engine, dataset, Draw(1000)) == N - 25
    with engine.connect() as connection:
        assert [row.n_wanted for row in list_draws(connection, dataset, "judge")] == [1000]


def test_the_samples_that_a_draw_wants_get_its_number_of_answers(engine: Engine, dataset: Dataset) -> None:
    everything = order(engine, dataset)

    def counts() -> list[int]:
        with engine.connect() as connection:
            known = load_answer_counts(connection, "judge", everything)
        return [known.get(sample_id, 1) for sample_id in everything]

    take(engine, dataset, Draw(20))
    assert counts() == [1] * N
    # No sample is new, and those of the larger draw stay as they are.
    assert take(engine, dataset, Draw(5, n_answers=4)) == 0
    assert counts() == [4] * 5 + [1] * (N - 5)
    take(engine, dataset, Draw(8, n_answers=3))
    assert counts() == [4] * 5 + [3] * 3 + [1] * (N - 8)
    assert take(engine, dataset, Draw(25, n_answers=3)) == 5
    assert counts() == [4] * 5 + [3] * 20 + [1] * (N - 25)
    with engine.connect() as connection:
        assert load_answer_counts(connection, "vcs", everything) == {}


def test_a_part_is_the_beginning_of_every_subset(engine: Engine, dataset: Dataset) -> None:
    """So it is a random sample of the captions of every system, and of any other set."""
    take(engine, dataset, Draw(30))
    for system in ("brief", "long"):
        within = order(engine, dataset, system=system)
        n = len(drawn(engine) & set(within))
        assert drawn(engine) & set(within) == set(within[:n])


def test_another_seed_and_another_metric_are_other_draws(engine: Engine, dataset: Dataset) -> None:
    take(engine, dataset, Draw(10))
    take(engine, dataset, Draw(10, seed=1))
    assert drawn(engine) == {*order(engine, dataset)[:10], *order(engine, dataset, 1)[:10]}
    assert drawn(engine, "vcs") == set()


def test_a_condition_draws_within_what_it_lets_through(engine: Engine, dataset: Dataset) -> None:
    assert take(engine, dataset, Draw(5, where="system = 'long'")) == 5
    assert drawn(engine) == set(order(engine, dataset, system="long")[:5])
    with engine.connect() as connection:
        assert (
            len(list_wanted_samples(connection, dataset, Draw(1000, where="system = 'long' and vcs is null"))) == N // 3
        )
    with pytest.raises(FilterError, match="unknown name 'sistem'"):
        take(engine, dataset, Draw(5, where="sistem = 'long'"))
    with engine.connect() as connection:
        assert [row.condition for row in list_draws(connection, dataset, "judge")] == ["system = 'long'"]


def test_a_dataset_that_grows_gives_new_samples_their_places(engine: Engine, dataset: Dataset) -> None:
    take(engine, dataset, Draw(20))
    take(engine, dataset, Draw(4, where="system = 'long'"))
    before = drawn(engine)
    assert extend(engine, dataset) == 0
    add_captions(engine, dataset, add_video(engine, dataset, "new"), range(N, 3 * N))
    n_new = extend(engine, dataset)
    wanted = {*order(engine, dataset)[:20], *order(engine, dataset, system="long")[:4]}
    # Who was asked stays; the first 20 of all are among them.
    assert drawn(engine) == before | wanted
    assert n_new == len(wanted - before) > 0
    assert extend(engine, dataset) == 0


def test_a_condition_that_is_met_later_gives_samples_their_places(engine: Engine, dataset: Dataset) -> None:
    take(engine, dataset, Draw(4, where="vcs > 0.5"))
    assert drawn(engine) == set()
    write_fresh(engine, activate(engine, "vcs"), [ok(sample_id, 0.9) for sample_id in order(engine, dataset)])
    with engine.connect() as connection:
        assert list_coming_samples(connection, dataset, "judge") == set(order(engine, dataset)[:4])
    assert (extend(engine, dataset), extend(engine, dataset)) == (4, 0)
    assert drawn(engine) == set(order(engine, dataset)[:4])


def test_only_the_drawn_are_asked_and_without_a_draw_everybody(engine: Engine, dataset: Dataset) -> None:
    everything = order(engine, dataset)
    with engine.connect() as connection:
        assert filter_asked_samples(connection, dataset, "judge", everything) == sorted(everything)
    take(engine, dataset, Draw(10))
    with engine.connect() as connection:
        assert filter_asked_samples(connection, dataset, "judge", everything[5:15]) == sorted(everything[5:10])
        assert filter_asked_samples(connection, dataset, "judge", []) == []
        assert filter_asked_samples(connection, make_dataset(engine, "other"), "judge", everything) == sorted(
            everything
        )


def test_scores_of_the_newly_drawn_are_stale_and_no_others(engine: Engine, dataset: Dataset) -> None:
    everything, scorer_id = order(engine, dataset), register(engine, "judge")
    take(engine, dataset, Draw(10), scorer_id)
    rows = [ok(i, 0.5) for i in everything[:10]] + [undefined(i, NOT_DRAWN) for i in everything[10:]]
    write_fresh(engine, scorer_id, rows)
    assert stale(engine) == set()
    take(engine, dataset, Draw(25), scorer_id)
    assert stale(engine) == set(everything[10:25])
    with engine.connect() as connection:
        assert count_unscored_samples(connection, scorer_id, everything[:30]) == 20
        assert count_unscored_samples(connection, scorer_id, []) == 0


def test_the_first_draw_keeps_what_was_scored(engine: Engine, dataset: Dataset) -> None:
    everything, scorer_id = order(engine, dataset), register(engine, "judge")
    other = register(engine, "judge", "2")
    scored = everything[30:40]
    write_fresh(engine, scorer_id, [ok(i, 0.5) for i in scored])
    write_fresh(engine, other, [ok(i, 0.5) for i in everything[50:]])
    take(engine, dataset, Draw(10), scorer_id)
    assert drawn(engine) == {*everything[:10], *scored}
    with engine.connect() as connection:
        kept = sa.select(schema.score.c.sample_id).where(
            schema.score.c.scorer_id == scorer_id, ~schema.score.c.is_stale
        )
        assert set(connection.scalars(kept)) == set(scored)


def test_draws_at_once_end_as_one_after_the_other(engine: Engine, dataset: Dataset) -> None:
    scorer_id = register(engine, "judge")
    with ThreadPoolExecutor(4) as pool:
        counts = list(pool.map(lambda n: take(engine, dataset, Draw(n), scorer_id), (5, 40, 20, 30)))
    assert drawn(engine) == set(order(engine, dataset)[:40])
    assert sum(counts) == 40


def test_the_rest_of_a_shard_is_written_at_once_and_is_current(engine: Engine, dataset: Dataset) -> None:
    scorer_id, everything = register(engine, "judge"), order(engine, dataset)
    inputs = METRIC_INPUTS["judge"]

    def store(shard: int) -> int:
        return store_undrawn_scores(engine, scorer_id, dataset, shard, "run", "judge", inputs)

    # Without a draw nobody is left out.
    assert [store(shard) for shard in range(2)] == [0, 0]
    take(engine, dataset, Draw(10), scorer_id)
    write_fresh(engine, scorer_id, [ok(i, 0.5) for i in everything[:10]] + [undefined(everything[20], "failed")])
    assert sum(store(shard) for shard in range(2)) == N - 10
    assert sum(store(shard) for shard in range(2)) == 0
    query = sa.select(schema.score.c.status, sa.func.array_agg(schema.score.c.sample_id)).group_by("status")
    with engine.begin() as connection:
        connection.execute(sa.select(sa.func.compare_scores(everything, None)))
        by_status = {row[0]: set(row[1]) for row in connection.execute(query)}
    assert by_status == {"ok": set(everything[:10]), NOT_DRAWN: set(everything[10:])}
    assert stale(engine) == set()
    # A text that changes is stale, and is left out again.
    change_text(engine, everything[30], "another text")
    assert stale(engine) == {everything[30]}
    assert sum(store(shard) for shard in range(2)) == 1
    assert stale(engine) == set()
