"""Stored results of stressed metrics: the newest of a scorer on a dataset, of active scorers only, gone with both."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from db import schema
from db.manifest.datasets import Dataset
from db.manifest.removal import delete_dataset
from db.scores.stress import load_stress_results, store_stress
from tests.db.builders import activate, make_dataset, remove

MADE_AT = datetime(2026, 1, 31, 23, 59, 58, 123456, tzinfo=timezone.utc)
GAIN = {"n_drawn": 70, "small_change": 0.1 + 0.2, "effects": [{"rewrite": "noun_list", "p_value": 1e-9, "low": None}]}
NONE: dict[str, Any] = {"n_drawn": 0, "effects": []}


def store(engine: Engine, dataset: Dataset, scorer_id: int, result: dict[str, Any]) -> None:
    with engine.begin() as connection:
        store_stress(connection, dataset.dataset_id, scorer_id, result, MADE_AT)


def load(engine: Engine, dataset: Dataset) -> list[tuple[Any, ...]]:
    """Metric, scorer and result."""
    with engine.connect() as connection:
        rows = load_stress_results(connection, dataset.dataset_id)
    assert {row["stressed_at"] for row in rows} <= {MADE_AT}
    return [(row["metric"], row["scorer_id"], row["result"]) for row in rows]


def count_rows(engine: Engine) -> int:
    with engine.connect() as connection:
        return connection.scalar(sa.select(sa.func.count()).select_from(schema.stress_result)) or 0


def test_the_newest_takes_the_place_of_the_earlier_one(engine: Engine, clips: Dataset) -> None:
    scorer_id, other = activate(engine), make_dataset(engine, "other")
    assert load(engine, clips) == []
    for dataset, result in ((clips, NONE), (other, NONE), (clips, GAIN)):
        store(engine, dataset, scorer_id, result)
    assert load(engine, clips) == [("vcs", scorer_id, GAIN)]
    assert load(engine, other) == [("vcs", scorer_id, NONE)]
    assert count_rows(engine) == 2


def test_only_the_active_scorer_of_a_metric_counts(engine: Engine, clips: Dataset) -> None:
    old = activate(engine, version="1")
    store(engine, clips, old, GAIN)
    new, evqa = activate(engine, version="2"), activate(engine, "evqa")
    assert load(engine, clips) == []
    store(engine, clips, new, NONE)
    store(engine, clips, evqa, NONE)
    assert [row[:2] for row in load(engine, clips)] == [("evqa", evqa), ("vcs", new)]
    activate(engine, version="1")
    assert load(engine, clips)[1] == ("vcs", old, GAIN)


def test_it_goes_with_its_dataset_and_with_its_scorer(engine: Engine, clips: Dataset) -> None:
    other, first, second = make_dataset(engine, "other"), activate(engine), activate(engine, "evqa")
    for dataset in (clips, other):
        for scorer_id in (first, second):
            store(engine, dataset, scorer_id, GAIN)
    kept = load(engine, other)
    with engine.begin() as connection:
        delete_dataset(connection, clips)
    assert (load(engine, clips), load(engine, other)) == ([], kept)
    remove(engine, schema.scorer, first)
    assert [row[0] for row in load(engine, other)] == ["evqa"]
    assert count_rows(engine) == 1


def test_nothing_is_stored_of_a_dataset_that_is_gone(engine: Engine, clips: Dataset) -> None:
    scorer_id = activate(engine)
    with engine.begin() as connection:
        delete_dataset(connection, clips)
    with pytest.raises(sa.exc.IntegrityError, match="fk_stress_result_dataset_id"):
        store(engine, clips, scorer_id, GAIN)
    assert count_rows(engine) == 0


def test_a_stress_that_cannot_be_stored_leaves_the_earlier_one(engine: Engine, clips: Dataset) -> None:
    scorer_id = activate(engine)
    store(engine, clips, scorer_id, GAIN)
    with pytest.raises(sa.exc.DataError):
        store(engine, clips, scorer_id, {"n_drawn": float("nan")})
    assert load(engine, clips) == [("vcs", scorer_id, GAIN)]
