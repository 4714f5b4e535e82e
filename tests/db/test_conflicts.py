"""Commands that change views or scores at once: no deadlock between them, and one that comes is tried again."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from inspect import unwrap

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.metrics.registry import METRIC_INPUTS
from db import schema
from db.manifest.datasets import Dataset
from db.manifest.removal import delete_dataset
from db.schema.inputs import TEXT
from db.schema.marks import MetricInputs, lock_shards
from db.schema.views import create_views
from db.scores.imported_scores import IMPORTED_VERSION
from db.scores.store import ScoreRow, register_scorer, store_scores
from db.server.bulk import UpsertCounts
from db.server.conflicts import is_conflict, retry_conflicts
from db.server.engine import open_psycopg_transaction
from orchestration.cli.errors import MISTAKE, report_error
from tests.db.builders import add_keypoint, add_sample, add_video, make_dataset, set_scores, wait_for_lock


def begin_to_write(connection: psycopg.Connection[tuple[object, ...]], sample_id: int) -> None:
    """Take the first locks of a batch of scores."""
    connection.execute("SELECT 1 FROM shard FOR KEY SHARE")
    connection.execute("SELECT 1 FROM sample WHERE sample_id = %s FOR KEY SHARE", [sample_id])


def end_writing(connection: psycopg.Connection[tuple[object, ...]], sample_id: int) -> None:
    """Compare the scores as the end of a batch does; the rule of ecs reads a view."""
    connection.execute("SELECT compare_scores(ARRAY[%s::bigint])", [sample_id])


@pytest.mark.parametrize("others", [(), ("vcs",)], ids=["a new metric", "another rule of a metric with scores"])
def test_views_are_made_anew_beside_a_batch_of_scores(engine: Engine, others: Collection[str]) -> None:
    with engine.begin() as connection:
        create_views(connection, METRIC_INPUTS)
    dataset = make_dataset(engine)
    sample_id = add_sample(engine, dataset, add_video(engine, dataset, "v"), "s")
    set_scores(engine, {sample_id: 0.5})
    set_scores(engine, {sample_id: 0.5}, metric="ecs")
    with engine.begin() as connection:
        register_scorer(connection, metric="clip_score", models={}, params={}, code_version=IMPORTED_VERSION)
    metrics: MetricInputs = {**METRIC_INPUTS, **dict.fromkeys(others, (TEXT,))}

    def make_views() -> None:
        with engine.begin() as connection:
            create_views(connection, metrics)

    with ThreadPoolExecutor(1) as pool:
        with open_psycopg_transaction(engine) as writer:
            begin_to_write(writer, sample_id)
            made = pool.submit(make_views)
            wait_for_lock(engine, made)
            assert made.done() is not bool(others), "a new metric waits for nobody"
            end_writing(writer, sample_id)
        made.result()
    with engine.connect() as connection:
        assert connection.scalar(sa.text("SELECT clip_score_status FROM sample_scores")) is None


@pytest.fixture
def doomed(engine: Engine) -> tuple[Dataset, int]:
    """A dataset with a sample and its score, in a database with views."""
    with engine.begin() as connection:
        create_views(connection, METRIC_INPUTS)
    dataset = make_dataset(engine)
    video_id = add_video(engine, dataset, "v")
    add_keypoint(engine, dataset, video_id, "k")
    sample_id = add_sample(engine, dataset, video_id, "s")
    set_scores(engine, {sample_id: 0.5}, metric="ecs")
    return dataset, sample_id


def test_a_drop_waits_for_a_batch_of_scores_before_it_locks_a_sample(
    engine: Engine, doomed: tuple[Dataset, int]
) -> None:
    dataset, sample_id = doomed

    def drop() -> None:
        with engine.begin() as connection:
            delete_dataset(connection, dataset)

    with ThreadPoolExecutor(1) as pool:
        with open_psycopg_transaction(engine) as writer:
            writer.execute("SELECT 1 FROM shard FOR KEY SHARE")
            dropped = pool.submit(drop)
            wait_for_lock(engine, dropped)
            assert not dropped.done()
            writer.execute("SELECT 1 FROM sample WHERE sample_id = %s FOR KEY SHARE", [sample_id])
            # The first score with a status makes a row in shard_count, which locks the dataset's row.
            writer.execute("UPDATE score SET value = NULL, status = 'undefined', error = 'for a reason'")
            end_writing(writer, sample_id)
        dropped.result()
    with engine.connect() as connection:
        assert connection.scalar(sa.text("SELECT count(*) FROM sample")) == 0


def test_a_batch_of_scores_waits_for_a_drop_before_it_locks_a_sample(
    engine: Engine, doomed: tuple[Dataset, int]
) -> None:
    dataset, sample_id = doomed
    row = ScoreRow(sample_id, b"digest", {}, 0.5, {}, "ok", None)
    with ThreadPoolExecutor(1) as pool:
        with engine.begin() as connection:
            lock_shards(connection, dataset.dataset_id)
            stored = pool.submit(unwrap(store_scores), engine, 1, "run", [row])  # once, without a further try
            wait_for_lock(engine, stored)
            assert not stored.done()
            delete_dataset(connection, dataset)
        assert stored.result() == UpsertCounts(0, 0, 0)


def test_views_of_a_new_metric_do_not_wait_for_a_drop(engine: Engine, doomed: tuple[Dataset, int]) -> None:
    with engine.begin() as connection:
        register_scorer(connection, metric="clip_score", models={}, params={}, code_version=IMPORTED_VERSION)

    def make_views() -> None:
        with engine.begin() as connection:
            create_views(connection, METRIC_INPUTS)

    with ThreadPoolExecutor(1) as pool:
        with engine.begin() as connection:
            # A drop locks this table, and then its trigger waits for the views.
            connection.exec_driver_sql("LOCK TABLE drawn_sample IN ROW EXCLUSIVE MODE")
            made = pool.submit(make_views)
            wait_for_lock(engine, made)
            delete_dataset(connection, doomed[0])
        made.result()
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT clip_score FROM sample_scores")).all() == []


def test_a_score_that_is_written_while_its_scorer_loses_all_others_stays(engine: Engine) -> None:
    kept, dropped = make_dataset(engine, "kept"), make_dataset(engine, "dropped")
    here, there = (add_sample(engine, of, add_video(engine, of, "v"), "s") for of in (kept, dropped))
    scorer_id = set_scores(engine, {there: 0.5})
    with engine.begin() as connection:
        connection.execute(sa.update(schema.scorer).values(code_version=IMPORTED_VERSION))

    def drop() -> None:
        with engine.begin() as connection:
            delete_dataset(connection, dropped)

    with ThreadPoolExecutor(1) as pool:
        with open_psycopg_transaction(engine) as writer:
            columns = "scorer_id, input_marks, is_stale, run_id, input_sha256, value, components, status"
            copy = f"INSERT INTO score (sample_id, {columns}) SELECT %s, {columns} FROM score"
            writer.execute(copy.encode(), [here])
            done = pool.submit(drop)
            wait_for_lock(engine, done)
        done.result()
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT scorer_id, sample_id FROM score")).all() == [(scorer_id, here)]


def test_a_deadlock_is_tried_again(engine: Engine) -> None:
    """Two transactions take the same two locks in opposite order, and meet in between on the first try."""
    with ThreadPoolExecutor(1) as pool, engine.connect() as beside:
        beside.exec_driver_sql("SET deadlock_timeout = '1h'")
        beside.exec_driver_sql("SELECT pg_advisory_lock(2)")
        tries = []

        def cross() -> None:
            beside.exec_driver_sql("SELECT pg_advisory_lock(1)")
            beside.exec_driver_sql("SELECT pg_advisory_unlock_all()")

        @retry_conflicts
        def work() -> None:
            tries.append(1)
            with engine.begin() as connection:
                connection.exec_driver_sql("SET LOCAL deadlock_timeout = '10ms'")
                connection.exec_driver_sql("SELECT pg_advisory_xact_lock(1)")
                if len(tries) == 1:
                    wait_for_lock(engine, pool.submit(cross))
                connection.exec_driver_sql("SELECT pg_advisory_xact_lock(2)")

        work()
        assert len(tries) == 2


@pytest.mark.parametrize("state", ["40P01", "40001"])
def test_what_conflicts_every_time_ends_in_a_sentence(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    monkeypatch.setattr("db.server.conflicts._PAUSES", (0.0, 0.0, 0.0))
    tries = []

    @retry_conflicts
    def work() -> None:
        tries.append(1)
        with engine.begin() as connection:
            connection.exec_driver_sql(f"DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{state}'; END $$")

    with pytest.raises(sa.exc.DBAPIError) as caught:
        work()
    assert is_conflict(caught.value)
    assert len(tries) == 4
    verdict = report_error(caught.value)
    assert verdict.exit_code == MISTAKE
    assert "waited for each other" in verdict.sentence
    assert "fix that" not in verdict.sentence


def test_another_error_is_not_tried_again(engine: Engine) -> None:
    tries = []

    @retry_conflicts
    def work() -> None:
        tries.append(1)
        with engine.begin() as connection:
            connection.exec_driver_sql("SELECT 1 / 0")

    with pytest.raises(sa.exc.DataError):
        work()
    assert tries == [1]
