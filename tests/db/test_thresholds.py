"""Stored thresholds: what labels gave is replaced as a whole, what other methods gave stays."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from db import schema
from db.manifest.datasets import Dataset
from db.scores.keypoint_decisions import LABEL_METHOD
from db.scores.thresholds import list_thresholds, load_label_thresholds
from tests.db.builders import (
    activate,
    keypoint_threshold_row,
    make_dataset,
    store_label_thresholds,
    store_threshold,
    wait_for_lock,
)

EVENTS = keypoint_threshold_row("events", 0.1 + 0.2, 40, 13, f1=0.75, warnings=["few"])
CAMERA = keypoint_threshold_row("camera", 0.9, 20, 0)
SHARD = keypoint_threshold_row("events", 0.5, 10, 4, shard=1, ci=[0.25, None])


@pytest.fixture
def scorer_id(engine: Engine) -> int:
    return activate(engine, "ecs")


def put(engine: Engine, scorer_id: int, dataset: Dataset, *rows: dict[str, Any]) -> None:
    with engine.begin() as connection:
        store_label_thresholds(connection, scorer_id, dataset.dataset_id, rows)


def in_force(engine: Engine, scorer_id: int, dataset: Dataset) -> dict[str, float]:
    with engine.connect() as connection:
        return load_label_thresholds(connection, scorer_id, dataset.dataset_id)


def stored(engine: Engine) -> list[Any]:
    with engine.connect() as connection:
        return list(connection.execute(sa.select(schema.keypoint_threshold).order_by("keypoint_threshold_id")))


def stored_cuts(engine: Engine) -> list[Any]:
    with engine.connect() as connection:
        return list(connection.execute(sa.select(schema.score_threshold).order_by("score_threshold_id")))


def test_thresholds_come_back_with_what_they_rest_on(engine: Engine, clips: Dataset, scorer_id: int) -> None:
    assert in_force(engine, scorer_id, clips) == {}
    put(engine, scorer_id, clips, EVENTS, CAMERA, SHARD)
    assert in_force(engine, scorer_id, clips) == {"camera": 0.9, "events": 0.1 + 0.2}
    assert [{name: getattr(row, name) for name in EVENTS} for row in stored(engine)] == [EVENTS, CAMERA, SHARD]
    with engine.connect() as connection:
        rows = list_thresholds(connection, schema.keypoint_threshold, clips.dataset_id, LABEL_METHOD)
    assert [{name: row[name] for name in EVENTS} for row in rows] == [EVENTS, CAMERA]
    assert {row["metric"] for row in rows} == {"ecs"}


def test_new_thresholds_take_the_place_of_all_old_ones(engine: Engine, clips: Dataset, scorer_id: int) -> None:
    put(engine, scorer_id, clips, EVENTS, CAMERA, SHARD)
    put(engine, scorer_id, clips, {**CAMERA, "threshold": 0.5, "objective": "mcc"})
    assert in_force(engine, scorer_id, clips) == {"camera": 0.5}
    assert len(stored(engine)) == 1
    put(engine, scorer_id, clips)
    assert stored(engine) == []


def test_other_methods_scorers_and_datasets_are_left_alone(engine: Engine, clips: Dataset, scorer_id: int) -> None:
    other_scorer, other = activate(engine, "ecs", "2"), make_dataset(engine, "other")
    with engine.begin() as connection:
        store_threshold(
            connection,
            scorer_id=scorer_id,
            dataset_id=clips.dataset_id,
            method="fraction",
            objective="top",
            value=0.125,
            n=8,
        )
    put(engine, other_scorer, clips, EVENTS)
    put(engine, scorer_id, other, CAMERA)
    before, cuts = stored(engine), stored_cuts(engine)
    put(engine, scorer_id, clips, SHARD)
    assert in_force(engine, scorer_id, clips) == {}
    put(engine, scorer_id, clips)
    assert stored(engine) == before
    assert stored_cuts(engine) == cuts
    assert [(cut.at_least, cut.low, cut.n_good, cut.details) for cut in cuts] == [(0.125, None, None, {})]
    assert in_force(engine, other_scorer, clips) == {"events": EVENTS["threshold"]}


def test_two_thresholds_of_one_dimension_are_refused(engine: Engine, clips: Dataset, scorer_id: int) -> None:
    put(engine, scorer_id, clips, CAMERA)
    with pytest.raises(sa.exc.IntegrityError, match="uq_keypoint_threshold_scope"):
        put(engine, scorer_id, clips, EVENTS, {**EVENTS, "objective": "mcc"})
    assert in_force(engine, scorer_id, clips) == {"camera": 0.9}


def test_of_two_that_replace_at_once_the_later_one_stays_whole(engine: Engine, clips: Dataset, scorer_id: int) -> None:
    with ThreadPoolExecutor(1) as pool:
        with engine.begin() as first:
            store_label_thresholds(first, scorer_id, clips.dataset_id, [EVENTS, SHARD])
            later = pool.submit(put, engine, scorer_id, clips, {**EVENTS, "threshold": 0.75}, CAMERA)
            wait_for_lock(engine, later)
            assert not later.done()
        later.result()
    assert in_force(engine, scorer_id, clips) == {"events": 0.75, "camera": 0.9}
    assert len(stored(engine)) == 2
