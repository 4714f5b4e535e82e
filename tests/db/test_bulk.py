"""Bulk upserts through binary COPY, against a dictionary that does the same."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import psycopg
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pgvector import Vector
from sqlalchemy.engine import Engine

from db import schema
from db.evidence.models import format_sorted_json
from db.server.bulk import UpsertCounts, insert_missing, list_key_columns, upsert
from db.server.engine import open_psycopg_transaction
from tests.db.builders import INPUT, activate, add_sample, add_video, empty, make_dataset, wait_for_lock

VIDEO = ["dataset_id", "shard", "key", "status", "duration_s", "content_sha256", "extra", "row_sha256"]
REJECT = ["dataset_id", "source", "line", "code", "reason", "raw"]
REJECT_VALUES = ["code", "reason", "raw"]

Content = tuple[float | None, bytes | None, Any]


def write_videos(engine: Engine, dataset_id: int, content: Mapping[str, Content]) -> UpsertCounts:
    rows = [(dataset_id, 0, key, "ok", *values, b"row") for key, values in content.items()]
    with open_psycopg_transaction(engine) as connection:
        compare = ["duration_s", "content_sha256", "extra"]
        return upsert(connection, schema.video, VIDEO, rows, compare=compare)


def read_videos(engine: Engine) -> dict[str, Content]:
    video = schema.video.c
    with engine.connect() as connection:
        rows = connection.execute(sa.select(video.key, video.duration_s, video.content_sha256, video.extra))
        return {row.key: (row.duration_s, row.content_sha256, row.extra) for row in rows}


def write_rejects(engine: Engine, rows: Sequence[tuple[Any, ...]]) -> UpsertCounts:
    with open_psycopg_transaction(engine) as connection:
        return upsert(connection, schema.ingest_reject, REJECT, rows, compare=REJECT_VALUES, touch=["ingested_at"])


def read_rejects(engine: Engine, *columns: str) -> list[Any]:
    table = schema.ingest_reject
    query = sa.select(*[table.c[name] for name in columns]).order_by(table.c.source, table.c.line)
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(query)]


def test_counts_of_inserted_updated_and_unchanged_rows(engine: Engine) -> None:
    dataset_id = make_dataset(engine).dataset_id
    first = {"a": (1.0, b"\x00\xff", {"n": 1}), "b": (2.0, None, None), "c": (None, b"", [1, None, "é"])}
    assert write_videos(engine, dataset_id, first) == UpsertCounts(3, 0, 0)
    assert write_videos(engine, dataset_id, first) == UpsertCounts(0, 0, 3)
    second = {"a": (1.0, b"\x00\xff", {"n": 2}), "b": (None, None, None), "c": first["c"], "d": (4.0, None, "x")}
    assert write_videos(engine, dataset_id, second) == UpsertCounts(1, 2, 1)
    assert read_videos(engine) == second


def test_no_rows_at_all(engine: Engine) -> None:
    assert write_videos(engine, 1, {}) == UpsertCounts(0, 0, 0)
    assert write_rejects(engine, []) == UpsertCounts(0, 0, 0)


@pytest.mark.parametrize("position", [0, 1, 2])
def test_each_compared_column_alone_makes_a_change_also_from_and_to_null(engine: Engine, position: int) -> None:
    dataset_id = make_dataset(engine).dataset_id
    whole: Content = (1.5, b"\x01", {"k": [1]})
    # Written out, so that the null stands in each place once.
    missing: Content = [(None, *whole[1:]), (whole[0], None, whole[2]), (*whole[:2], None)][position]
    write_videos(engine, dataset_id, {"a": whole})
    assert write_videos(engine, dataset_id, {"a": missing}) == UpsertCounts(0, 1, 0)
    assert read_videos(engine) == {"a": missing}
    assert write_videos(engine, dataset_id, {"a": missing}) == UpsertCounts(0, 0, 1)
    assert write_videos(engine, dataset_id, {"a": whole}) == UpsertCounts(0, 1, 0)
    assert read_videos(engine) == {"a": whole}


def test_json_none_is_sql_null_and_key_order_is_no_change(engine: Engine) -> None:
    dataset_id = make_dataset(engine).dataset_id
    write_videos(engine, dataset_id, {"a": (None, None, None), "b": (None, None, {"x": 1, "y": 2})})
    with engine.connect() as connection:
        assert connection.scalar(sa.text("SELECT extra IS NULL FROM video WHERE key = 'a'"))
    assert write_videos(engine, dataset_id, {"b": (None, None, {"y": 2, "x": 1})}) == UpsertCounts(0, 0, 1)


def test_touched_columns_move_on_an_update_only(engine: Engine) -> None:
    dataset_id = make_dataset(engine).dataset_id
    rows = [(dataset_id, "videos.jsonl", line, "bad", "reason", "raw") for line in (1, 2)]
    write_rejects(engine, rows)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE ingest_reject SET ingested_at = '2001-01-01'"))
    assert write_rejects(engine, [rows[0], (*rows[1][:5], "other")]) == UpsertCounts(0, 1, 1)
    with engine.connect() as connection:
        touched = connection.scalars(
            sa.text("SELECT ingested_at > now() - interval '1 hour' FROM ingest_reject ORDER BY line")
        )
        assert list(touched) == [False, True]


def test_columns_outside_compare_change_only_together_with_one_that_is_compared(engine: Engine) -> None:
    clips = make_dataset(engine)
    sample_id = add_sample(engine, clips, add_video(engine, clips, "v"), "s")
    scorer_id = activate(engine)
    columns = ["scorer_id", "sample_id", "input_sha256", "input_marks", "value", "components", "status", "run_id"]

    def write(value: float, run_id: str) -> UpsertCounts:
        row = (scorer_id, sample_id, INPUT, {}, value, {"recall": value}, "ok", run_id)
        with open_psycopg_transaction(engine) as connection:
            return upsert(connection, schema.score, columns, [row], compare=["value", "components"])

    assert write(0.5, "first") == UpsertCounts(1, 0, 0)
    assert write(0.5, "second") == UpsertCounts(0, 0, 1)
    with engine.connect() as connection:
        assert connection.scalar(sa.select(schema.score.c.run_id)) == "first"
    assert write(0.25, "third") == UpsertCounts(0, 1, 0)
    with engine.connect() as connection:
        row = connection.execute(sa.select(schema.score)).one()
    assert (row.value, row.components, row.run_id) == (0.25, {"recall": 0.25}, "third")


def test_vectors_come_back_bit_by_bit(engine: Engine) -> None:
    vectors = np.random.default_rng(7).normal(size=(5, 384)).astype(np.float32)
    vectors[0, :3] = [np.finfo(np.float32).tiny, -0.0, np.finfo(np.float32).max]
    with open_psycopg_transaction(engine) as connection:
        connection.execute("INSERT INTO model (fingerprint, name, revision, params) VALUES ('f', 'm', 'r', '{}')")
        columns = ["model_id", "text_sha256", "embedding"]
        rows = [(1, bytes([i]), Vector(vector)) for i, vector in enumerate(vectors)]
        counts = upsert(connection, schema.text_embedding, columns, rows, compare=["embedding"])
        again = upsert(connection, schema.text_embedding, columns, rows, compare=["embedding"])
        assert insert_missing(connection, schema.text_embedding, columns, [*rows, (1, b"new", rows[0][2])]) == 1
        stored = connection.execute("SELECT embedding FROM text_embedding ORDER BY text_sha256").fetchall()
    assert (counts, again) == (UpsertCounts(5, 0, 0), UpsertCounts(0, 0, 5))
    np.testing.assert_array_equal(np.stack([row[0].to_numpy() for row in stored[:5]]), vectors)


def test_a_failed_row_leaves_nothing_and_the_next_upsert_works(engine: Engine) -> None:
    dataset_id = make_dataset(engine).dataset_id
    good = (dataset_id, "f", 1, "bad", "reason", "raw")
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        write_rejects(engine, [good, (dataset_id + 1, *good[1:])])
    assert read_rejects(engine, "line") == []
    assert write_rejects(engine, [good]) == UpsertCounts(1, 0, 0)


def test_natural_keys() -> None:
    assert list_key_columns(schema.sample) == ["dataset_id", "kind", "key"]
    assert list_key_columns(schema.score) == ["scorer_id", "sample_id"]
    assert list_key_columns(schema.model) == ["fingerprint"]


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
CONTENT = st.tuples(st.none() | st.floats(allow_nan=False), st.none() | st.binary(max_size=4), JSON)
ROWS = st.dictionaries(st.sampled_from(["a", "b", "c", "é", "É", "Z"]) | TEXT, CONTENT, max_size=6)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=ROWS, second=ROWS)
def test_two_upserts_equal_two_updates_of_a_dictionary(
    engine: Engine, first: dict[str, Content], second: dict[str, Content]
) -> None:
    empty(engine)
    dataset_id = make_dataset(engine).dataset_id

    def plain(rows: Mapping[str, Content]) -> dict[str, tuple[Any, ...]]:
        # JSON as text, since Python takes True for 1 and the database does not.
        return {key: (value, content, format_sorted_json(extra)) for key, (value, content, extra) in rows.items()}

    assert write_videos(engine, dataset_id, first) == UpsertCounts(len(first), 0, 0)
    old, new = plain(first), plain(second)
    inserted = len(new.keys() - old.keys())
    updated = sum(old[key] != new[key] for key in old.keys() & new.keys())
    assert write_videos(engine, dataset_id, second) == UpsertCounts(inserted, updated, len(new) - inserted - updated)
    assert plain(read_videos(engine)) == {**old, **new}


def test_rows_in_any_order_cannot_deadlock(engine: Engine) -> None:
    """One holds row 1 and will want row 2; the other has 2 before 1 in its list, but must not take 2 first."""
    dataset_id = make_dataset(engine).dataset_id
    lines = {code: [(dataset_id, "f", line, code, "", "") for line in (1, 2)] for code in ("old", "up", "down")}
    write_rejects(engine, lines["old"])
    with ThreadPoolExecutor(1) as pool:
        with open_psycopg_transaction(engine) as connection:
            upsert(connection, schema.ingest_reject, REJECT, lines["up"][:1], compare=REJECT_VALUES)
            other = pool.submit(write_rejects, engine, lines["down"][::-1])
            wait_for_lock(engine, other)
            assert not other.done()
            upsert(connection, schema.ingest_reject, REJECT, lines["up"][1:], compare=REJECT_VALUES)
        assert other.result() == UpsertCounts(0, 2, 0)
    assert read_rejects(engine, "code") == [("down",), ("down",)]


def test_two_connections_that_write_overlapping_rows_at_once_end_in_one_state(engine: Engine) -> None:
    dataset_id = make_dataset(engine).dataset_id
    write_rejects(engine, [(dataset_id, "f", line, "old", "", "") for line in range(500)])
    starting = threading.Barrier(2)

    def write(code: str, lines: range) -> UpsertCounts:
        starting.wait()
        return write_rejects(engine, [(dataset_id, "f", line, code, "", "") for line in lines])

    with ThreadPoolExecutor(2) as pool:
        up = pool.submit(write, "up", range(750))
        down = pool.submit(write, "down", range(999, 249, -1))
        counts = [up.result(), down.result()]
    codes = [code for (code,) in read_rejects(engine, "code")]
    assert codes[:250] == ["up"] * 250
    assert codes[750:] == ["down"] * 250
    assert len(set(codes[250:750])) == 1  # the one that came second wrote all that both had
    assert sum(count.inserted for count in counts) == 500
    assert sum(count.updated for count in counts) == 250 + 2 * 250 + 250
