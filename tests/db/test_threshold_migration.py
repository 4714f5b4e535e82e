"""Thresholds stored before revision 0017: those on scores and those on keypoints part, and go back into one table."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import URL, Engine

from assets.scores.registry import METRIC_INPUTS
from db.manifest.datasets import Dataset
from db.schema.migrate import check_schema, downgrade, migrate
from db.scores.shards import score_tally, shard_counts
from db.scores.thresholds import LabelThreshold, label_thresholds, replace_label_thresholds
from tests.db.builders import add_sample, add_video, make_dataset, store_threshold
from tests.db.old_rows import contents, insert_old, old_scorer

OF_SHARD = {"scope": "shard", "shard": 0}
OF_DATASET = {"scope": "dataset"}
ON_SCORES: list[dict[str, Any]] = [
    {**OF_DATASET, "method": "quantile", "objective": "keep 0.5", "value": 0.5, "n": 8},
    {**OF_SHARD, "method": "quantile", "objective": "keep 0.5", "value": 0.25, "n": 4, "details": {"a": [1, None]}},
]
ON_KEYPOINTS: list[dict[str, Any]] = [
    {
        **scope,
        "dimension": "events",
        "method": "keypoint_labels",
        "objective": "f1",
        "value": value,
        "n": 9,
        "n_positive": 4,
        "details": {"warnings": ["few"]},
    }
    for scope, value in ((OF_DATASET, 0.1 + 0.2), (OF_SHARD, 0.75))
]


@pytest.fixture
def old(database: URL, engine: Engine) -> tuple[int, Dataset]:
    """A scorer of ECS with thresholds of every kind in one table, in turn."""
    downgrade(database, "0016")
    clips, scorer_id = make_dataset(engine), old_scorer(engine, "ecs")
    add_sample(engine, clips, add_video(engine, clips, "v"), "s")
    for of_scores, of_keypoints in zip(ON_SCORES, ON_KEYPOINTS, strict=True):
        for row in (of_scores, of_keypoints):
            insert_old(engine, "threshold", scorer_id=scorer_id, dataset_id=clips.dataset_id, **row)
    return scorer_id, clips


def rows(engine: Engine, query: str) -> list[tuple[Any, ...]]:
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(sa.text(query))]


def count(engine: Engine, scorer_id: int, clips: Dataset) -> None:
    shard_counts(engine, score_tally(METRIC_INPUTS["ecs"]), scorer_id, [clips.dataset_id])


def versions(engine: Engine) -> list[tuple[Any, ...]]:
    return rows(engine, "SELECT version, counted_version FROM shard_count WHERE kind = 'scores'")


def test_each_row_goes_to_its_own_table_and_back(database: URL, engine: Engine, old: tuple[int, Dataset]) -> None:
    scorer_id, clips = old
    before = contents(engine)
    migrate(database, METRIC_INPUTS)
    with engine.connect() as connection:
        check_schema(connection)
        assert label_thresholds(connection, scorer_id, clips.dataset_id) == {"events": 0.1 + 0.2}
    cuts = "SELECT scope, shard, method, objective, at_least, n, low, n_good, details FROM score_threshold ORDER BY 1"
    assert rows(engine, cuts) == [
        ("dataset", None, "quantile", "keep 0.5", 0.5, 8, None, None, {}),
        ("shard", 0, "quantile", "keep 0.5", 0.25, 4, None, None, {"a": [1, None]}),
    ]
    on_keypoints = "SELECT scope, dimension, threshold, n, n_positive, details FROM keypoint_threshold ORDER BY 1"
    assert rows(engine, on_keypoints) == [
        ("dataset", "events", 0.1 + 0.2, 9, 4, {"warnings": ["few"]}),
        ("shard", "events", 0.75, 9, 4, {"warnings": ["few"]}),
    ]
    downgrade(database, "0016")
    # All but the number of the revision, which both revisions hold.
    assert {name: kept for name, kept in contents(engine).items() if name != "view_definition"} == {
        name: kept for name, kept in before.items() if name != "view_definition"
    }


def test_rows_made_since_have_a_number_of_their_own_when_they_go_back(
    database: URL, engine: Engine, old: tuple[int, Dataset]
) -> None:
    scorer_id, clips = old
    migrate(database, METRIC_INPUTS)
    place = {"scorer_id": scorer_id, "dataset_id": clips.dataset_id}
    with engine.begin() as connection:
        replace_label_thresholds(connection, **place, rows=[LabelThreshold("dataset", None, "x", "f1", 0.5, 1, 1, {})])
        store_threshold(connection, **place, method="ratings", objective="good mood", value=0.5, n=3)
    made = (
        "SELECT score_threshold_id FROM score_threshold UNION ALL SELECT keypoint_threshold_id FROM keypoint_threshold"
    )
    assert len(rows(engine, made)) == 4
    assert len({number for (number,) in rows(engine, made)}) == 3, "the two new rows have one number"
    downgrade(database, "0016")
    by_method = "SELECT method, count(*) FROM threshold GROUP BY 1 ORDER BY 1"
    assert rows(engine, by_method) == [("keypoint_labels", 1), ("quantile", 2), ("ratings", 1)]
    insert_old(engine, "threshold", **place, **ON_KEYPOINTS[1])
    assert len(rows(engine, "SELECT DISTINCT threshold_id FROM threshold")) == 5


def test_only_thresholds_on_keypoints_make_counts_old_before_and_after(
    database: URL, engine: Engine, old: tuple[int, Dataset]
) -> None:
    scorer_id, clips = old
    place = {"scorer_id": scorer_id, "dataset_id": clips.dataset_id}
    migrate(database, METRIC_INPUTS)
    count(engine, scorer_id, clips)
    ((version, counted),) = versions(engine)
    assert version == counted
    with engine.begin() as connection:
        store_threshold(connection, **place, method="quantile", objective="keep 0.5", value=0.125, n=8)
        connection.exec_driver_sql("TRUNCATE score_threshold")
    assert versions(engine) == [(counted, counted)]
    changes = (
        "UPDATE keypoint_threshold SET threshold = 0.9",
        "DELETE FROM keypoint_threshold",
    )
    for change in changes:
        with engine.begin() as connection:
            connection.exec_driver_sql(change)
        ((version, counted),) = versions(engine)
        assert version > counted, change
        count(engine, scorer_id, clips)
        ((version, counted),) = versions(engine)
        assert version == counted
    with engine.begin() as connection:
        connection.exec_driver_sql("TRUNCATE keypoint_threshold")
    assert versions(engine) == []
    downgrade(database, "0016")
    count_again = "INSERT INTO shard_count VALUES (:scorer_id, 'scores', :dataset_id, 0, 1, 1)"
    with engine.begin() as connection:
        connection.execute(sa.text(count_again), place)
    insert_old(engine, "threshold", **place, **ON_KEYPOINTS[0])
    ((version, counted),) = versions(engine)
    assert version > counted
