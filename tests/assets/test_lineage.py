"""The lineage of the columns of scores, against what changes when a column of the inputs is changed in Postgres."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from assets.definitions.lineage import build_score_lineage
from assets.metrics.registry import SCORERS
from db import schema
from db.evidence.embeddings import text_sha256
from db.scores.pending import load_samples
from tests.db.builders import (
    add_keypoint,
    add_reference,
    add_sample,
    add_video,
    make_dataset,
    put_label_thresholds,
    register,
)

# The tables that ingest fills, with which the assets have their names.
INGESTED = {table.name: table for table in (schema.sample, schema.reference, schema.video, schema.keypoint)}
# Columns that Postgres checks: another value that it accepts.
OTHER_VALUES = {
    "identity": "etag",
    "kind": "qa",
    "status": "damaged",
    "segments": [{"start_s": 1.0, "end_s": 2.0}],
    "extra": {"parse_error": "no times", "license": "none"},
    "shard": 0,
}
State = tuple[Any, ...]


@pytest.fixture(scope="module")
def filled(module_engine: Engine) -> tuple[Engine, int, int]:
    """A caption with all inputs; its id, and that of the scorer of ECS."""
    clips = make_dataset(module_engine)
    video = add_video(module_engine, clips, "dog", content=b"film")
    add_reference(module_engine, clips, video, "r", "A dog runs.", segments=[{"start_s": 0.0, "end_s": 4.0}])
    add_keypoint(module_engine, clips, video, "k", segment_index=0)
    sample = add_sample(module_engine, clips, video, "s", question="What runs?", answer="A dog.")
    scorer = register(module_engine, "ecs")
    put_label_thresholds(module_engine, scorer, clips, events=0.5)
    return module_engine, sample, scorer


def read(connection: Connection, metric: str, sample: int, scorer: int) -> State:
    """What a scorer gets to know of a sample, and the digest of its inputs."""
    (loaded,) = load_samples(connection, [sample], SCORERS[metric].inputs, scorer)
    return (loaded.kind, loaded.text, loaded.question, loaded.answer, loaded.inputs, loaded.input_sha256)


def change_column(connection: Connection, column: sa.Column[Any]) -> None:
    """Give a column of the only row of its table another value; a text comes with its digest, as ingest writes it."""
    value: Any = OTHER_VALUES.get(column.name)
    if value is None:
        value = {str: "another", bytes: b"x" * 32, int: 7, float: 7.5, bool: True}[column.type.python_type]
    changed = {column.name: value}
    if column.name == "text" and "text_sha256" in column.table.c:
        changed["text_sha256"] = text_sha256("another")
    connection.execute(column.table.update().values(changed))


def list_changeable_columns() -> list[sa.Column[Any]]:
    """The columns of ingested tables that are neither ids nor derived from other columns."""
    return [
        column
        for table in INGESTED.values()
        for column in table.columns
        if not (column.primary_key or column.foreign_keys or column.computed)
        and (column.name == "content_sha256" or not column.name.endswith(("_sha256", "_digest", "_at")))
    ]


def list_read_columns(metric: str) -> list[tuple[str, str]]:
    """The lineage of a score's value, as pairs of asset and column."""
    ((column, deps),) = build_score_lineage(SCORERS[metric]).deps_by_column.items()
    assert column == "value"
    return [(dep.asset_key.to_user_string(), dep.column_name) for dep in deps]


@pytest.mark.parametrize("metric", SCORERS)
def test_a_column_is_in_the_lineage_if_and_only_if_it_changes_what_is_read(
    filled: tuple[Engine, int, int], metric: str
) -> None:
    engine, *ids = filled
    noticed = set()
    with engine.connect() as connection:
        before = read(connection, metric, *ids)
        for column in list_changeable_columns():
            with connection.begin_nested() as attempt:
                change_column(connection, column)
                if read(connection, metric, *ids) != before:
                    noticed.add((column.table.name, column.name))
                attempt.rollback()
    assert {dep for dep in list_read_columns(metric) if dep[0] in INGESTED} == noticed


def test_the_lineage_of_ecs_has_its_thresholds_and_verdicts(filled: tuple[Engine, int, int]) -> None:
    engine, *ids = filled
    others = {dep for dep in list_read_columns("ecs") if dep[0] not in INGESTED}
    thresholds = {column for asset, column in others if asset == "ecs_thresholds"}
    assert thresholds == {"dimension", "threshold"}
    assert {column for asset, column in others if asset != "ecs_thresholds"} == {
        *("probability", "sentence_index", "sentence", "n_passes")
    }
    with engine.connect() as connection:
        before = read(connection, "ecs", *ids)
        for column in thresholds:
            with connection.begin_nested() as attempt:
                change_column(connection, schema.keypoint_threshold.c[column])
                assert read(connection, "ecs", *ids) != before
                attempt.rollback()


def test_the_lineage_of_vcs_by_hand() -> None:
    assert list_read_columns("vcs") == [
        *(("reference", column) for column in ("key", "text")),
        *(("sample", column) for column in ("answer", "kind", "question", "text")),
        *(("text_embedding", column) for column in ("embedding", "n_chunks")),
    ]
