"""Stored results of stressed metrics: the newest of a scorer on a dataset, of active scorers only, gone with both."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timezone

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from db import schema
from db.manifest.datasets import Dataset
from db.manifest.removal import delete_dataset
from db.scores.stress import Stress, StressEffect, load_stresses, store_stress
from tests.db.builders import activate, make_dataset, remove, wait_for_lock

GAIN = StressEffect(
    rewrite="noun_list",
    keeps_truth=True,
    conclusion="gains_from_nothing",
    n=60,
    n_videos=20,
    change=0.1 + 0.2,
    low=0.15,
    high=0.45,
    rank_change=12.5,
    rank_low=-1.0,
    rank_high=26.0,
    rise_share=0.75,
    fall_share=0.25,
    p_value=1e-9,
    n_not_applicable=3,
    unscored={"too_long": 2, "failed": 1},
    best_look_alike=0.125,
    all_look_alike=0.5,
)
NONE = StressEffect(
    "negation", False, "open", 0, 0, None, None, None, None, None, None, None, None, None, 63, {}, None, None
)
MADE_AT = datetime(2026, 1, 31, 23, 59, 58, 123456, tzinfo=timezone.utc)


def make_stress(scorer_id: int, *effects: StressEffect, metric: str = "vcs") -> Stress:
    return Stress(metric, scorer_id, 7, 70, 4, 3, 63, 21, 0.03125, MADE_AT, effects)


def load(engine: Engine, dataset: Dataset) -> dict[str, Stress]:
    with engine.connect() as connection:
        return load_stresses(connection, dataset.dataset_id)


def count_rows(engine: Engine) -> tuple[int, int]:
    """The rows of both tables."""
    with engine.connect() as connection:
        tables = (schema.stress_result, schema.stress_effect)
        results, effects = (connection.scalar(sa.select(sa.func.count()).select_from(table)) for table in tables)
    return results or 0, effects or 0


def test_a_stress_comes_back_as_it_was(engine: Engine, clips: Dataset) -> None:
    stress = make_stress(activate(engine), GAIN, NONE)
    assert load(engine, clips) == {}
    store_stress(engine, clips.dataset_id, stress)
    assert load(engine, clips) == {"vcs": replace(stress, effects=(NONE, GAIN))}


def test_the_newest_takes_the_place_of_the_earlier_one(engine: Engine, clips: Dataset) -> None:
    scorer_id, other = activate(engine), make_dataset(engine, "other")
    store_stress(engine, clips.dataset_id, make_stress(scorer_id, GAIN, NONE))
    store_stress(engine, other.dataset_id, make_stress(scorer_id, NONE))
    elsewhere = load(engine, other)
    changed = replace(GAIN, change=-1.5, conclusion="fine")
    store_stress(engine, clips.dataset_id, replace(make_stress(scorer_id, changed), seed=8))
    newest = load(engine, clips)["vcs"]
    assert (newest.seed, newest.effects) == (8, (changed,))
    assert load(engine, other) == elsewhere
    assert count_rows(engine) == (2, 2)


def test_only_the_active_scorer_of_a_metric_counts(engine: Engine, clips: Dataset) -> None:
    old = activate(engine, version="1")
    store_stress(engine, clips.dataset_id, make_stress(old, GAIN))
    new, evqa = activate(engine, version="2"), activate(engine, "evqa")
    assert load(engine, clips) == {}
    store_stress(engine, clips.dataset_id, make_stress(evqa, NONE, metric="evqa"))
    store_stress(engine, clips.dataset_id, make_stress(new, NONE))
    assert [(metric, stress.scorer_id) for metric, stress in load(engine, clips).items()] == [
        ("evqa", evqa),
        ("vcs", new),
    ]
    activate(engine, version="1")
    assert load(engine, clips)["vcs"].effects == (GAIN,)


def test_it_goes_with_its_dataset_and_with_its_scorer(engine: Engine, clips: Dataset) -> None:
    other, first, second = make_dataset(engine, "other"), activate(engine), activate(engine, "evqa")
    for dataset in (clips, other):
        for scorer_id, metric in ((first, "vcs"), (second, "evqa")):
            store_stress(engine, dataset.dataset_id, make_stress(scorer_id, GAIN, metric=metric))
    kept = load(engine, other)
    with engine.begin() as connection:
        delete_dataset(connection, clips)
    assert (load(engine, clips), load(engine, other)) == ({}, kept)
    remove(engine, schema.scorer, first)
    assert set(load(engine, other)) == {"evqa"}
    assert count_rows(engine) == (1, 1)


def test_nothing_is_stored_of_a_dataset_that_is_gone(engine: Engine, clips: Dataset) -> None:
    stress = make_stress(activate(engine), GAIN)
    with engine.begin() as connection:
        delete_dataset(connection, clips)
    with pytest.raises(sa.exc.IntegrityError, match="fk_stress_result_dataset_id"):
        store_stress(engine, clips.dataset_id, stress)
    assert count_rows(engine) == (0, 0)


def test_a_stress_that_cannot_be_stored_leaves_the_earlier_one(engine: Engine, clips: Dataset) -> None:
    scorer_id = activate(engine)
    store_stress(engine, clips.dataset_id, make_stress(scorer_id, GAIN))
    before = load(engine, clips)
    with pytest.raises(sa.exc.IntegrityError, match="ck_stress_effect_conclusion"):
        store_stress(engine, clips.dataset_id, make_stress(scorer_id, replace(GAIN, conclusion="bad")))
    assert load(engine, clips) == before


def test_of_two_that_replace_at_once_the_later_one_stays_whole(engine: Engine, clips: Dataset) -> None:
    scorer_id = activate(engine)
    is_this = schema.scorer.c.scorer_id == scorer_id
    locked = sa.select(schema.scorer.c.scorer_id).where(is_this).with_for_update(key_share=True)
    with ThreadPoolExecutor(2) as pool:
        with engine.begin() as connection:
            connection.execute(locked)
            both = [
                pool.submit(store_stress, engine, clips.dataset_id, make_stress(scorer_id, *effects))
                for effects in ((GAIN, NONE), (NONE,))
            ]
            wait_for_lock(engine, both[1])
        for one in both:
            one.result()
    assert load(engine, clips)["vcs"].effects in ((NONE, GAIN), (NONE,))
    assert count_rows(engine)[0] == 1
