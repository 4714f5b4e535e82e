"""What an analyst guesses: cuts join scores by themselves, and no cut on scores meets a probability."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from db import schema
from db.manifest.datasets import Dataset
from db.scores.thresholds import store_thresholds
from tests.conftest import Template, filled_template
from tests.db.builders import (
    activate,
    add_sample,
    add_video,
    make_dataset,
    put_label_thresholds,
    score_threshold_row,
    set_scores,
)

N_SHARDS = 2
VALUES = {"clips": (0.1, 0.4, 0.6, 0.9), "other": (0.1, 0.4, 0.6, 0.9)}
CUTS = {"clips": 0.5, "other": 0.2}


def fill(engine: Engine) -> dict[str, Dataset]:
    """Two datasets of the same scores by two metrics, each with cuts of its own, in rows that a join may not mix."""
    datasets = {name: make_dataset(engine, name, N_SHARDS) for name in VALUES}
    samples = {}
    for name, dataset in datasets.items():
        for value in VALUES[name]:
            key = f"{name} {value}"
            samples[add_sample(engine, dataset, add_video(engine, dataset, key), key)] = value
    retired = set_scores(engine, samples, "vcs", "0")
    scorers = {metric: set_scores(engine, samples, metric) for metric in ("vcs", "evqa")}
    with engine.begin() as connection:
        for name, dataset in datasets.items():
            of_dataset = score_threshold_row("keep 0.5", CUTS[name], 4, 2)
            of_shards = [score_threshold_row("keep 0.5", 0.3 * shard, 2, 1, shard=shard) for shard in range(N_SHARDS)]
            store_thresholds(
                connection,
                schema.score_threshold,
                scorers["vcs"],
                dataset.dataset_id,
                "quantile",
                [of_dataset, *of_shards],
            )
            store_thresholds(connection, schema.score_threshold, retired, dataset.dataset_id, "quantile", [of_dataset])
            # A cut that equals a score, and a probability that equals a cut: a join by values would find them.
            other = score_threshold_row("keep 0.25", 0.9, 4, 1)
            store_thresholds(
                connection, schema.score_threshold, scorers["evqa"], dataset.dataset_id, "quantile", [of_dataset, other]
            )
    for dataset in datasets.values():
        put_label_thresholds(engine, scorers["vcs"], dataset, events=0.5)
    return datasets


template = filled_template(fill)


@pytest.fixture
def two(engine: Engine, template: Template[dict[str, Dataset]]) -> dict[str, Dataset]:
    return template.filled


def rows(engine: Engine, query: str) -> list[tuple[object, ...]]:
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(sa.text(query))]


PASSING = [("clips", 4, 2), ("other", 4, 3)]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT dataset, count(*), count(*) FILTER (WHERE vcs >= at_least) FROM sample_scores "
        "NATURAL JOIN dataset_thresholds WHERE metric = 'vcs' AND objective = 'keep 0.5' GROUP BY 1 ORDER BY 1",
        "SELECT dataset, count(*), count(*) FILTER (WHERE vcs >= at_least) FROM sample_scores "
        "JOIN dataset_thresholds USING (dataset) WHERE metric = 'vcs' AND objective = 'keep 0.5' GROUP BY 1 ORDER BY 1",
        "SELECT dataset, count(*), count(*) FILTER (WHERE value >= at_least) FROM current_score "
        "NATURAL JOIN dataset_thresholds WHERE metric = 'vcs' AND objective = 'keep 0.5' GROUP BY 1 ORDER BY 1",
        "SELECT dataset, count(*), count(*) FILTER (WHERE value >= at_least) FROM score_history "
        "NATURAL JOIN dataset_thresholds WHERE metric = 'vcs' AND objective = 'keep 0.5' GROUP BY 1 ORDER BY 1",
    ],
)
def test_a_natural_join_gives_each_score_the_cut_of_its_dataset_and_metric(
    engine: Engine, two: dict[str, Dataset], query: str
) -> None:
    assert rows(engine, query) == PASSING


def test_a_natural_join_with_cuts_of_shards_gives_each_score_that_of_its_own_shard(
    engine: Engine, two: dict[str, Dataset]
) -> None:
    expected = sorted(
        (f"{name} {value}", 0.3 * two[name].compute_shard(f"{name} {value}"))
        for name in VALUES
        for value in VALUES[name]
    )
    by_names = (
        "SELECT sample, at_least FROM sample_scores NATURAL JOIN shard_thresholds WHERE metric = 'vcs' ORDER BY 1"
    )
    assert rows(engine, by_names) == expected
    views = "SELECT key, at_least FROM current_score NATURAL JOIN shard_thresholds ORDER BY 1"
    assert rows(engine, views) == expected
    table = "SELECT key, at_least FROM current_score NATURAL JOIN score_threshold ORDER BY 1"
    assert rows(engine, table) == expected


def test_the_cuts_are_one_row_for_each_dataset_metric_and_objective(engine: Engine, two: dict[str, Dataset]) -> None:
    query = "SELECT dataset, metric, objective, at_least, low, high, n, n_good FROM dataset_thresholds ORDER BY 1, 2, 3"
    assert rows(engine, query) == [
        (name, metric, objective, at_least, None, None, 4, None)
        for name in VALUES
        for metric, objective, at_least in (
            ("evqa", "keep 0.25", 0.9),
            ("evqa", "keep 0.5", CUTS[name]),
            ("vcs", "keep 0.5", CUTS[name]),
        )
    ]


def test_cuts_on_scores_and_on_keypoints_share_no_column_of_values(engine: Engine) -> None:
    found = sa.inspect(engine)
    columns = {
        name: {column["name"] for column in found.get_columns(name)}
        for name in (
            *("score_threshold", "keypoint_threshold", "dataset_thresholds", "shard_thresholds", "threshold_in_force"),
            *("sample_scores", "current_score", "keypoint_verdicts"),
        )
    }
    names = {"dataset", "dataset_id", "shard", "kind", "metric", "scorer_id"}
    for cuts in ("score_threshold", "dataset_thresholds", "shard_thresholds"):
        for others in ("sample_scores", "current_score", "keypoint_verdicts"):
            assert columns[cuts] & columns[others] <= names, (cuts, others)
    assert columns["current_score"] & columns["threshold_in_force"] <= names
    assert "dataset" in columns["sample_scores"] & columns["dataset_thresholds"]


def test_without_an_active_scorer_there_is_no_cut(engine: Engine, two: dict[str, Dataset]) -> None:
    activate(engine, "vcs", "new")
    assert rows(engine, "SELECT count(*) FROM dataset_thresholds WHERE metric = 'vcs'") == [(0,)]
