"""What an ingest writes and remembers, against dictionaries that do the same."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.engine import Engine

from db import schema
from db.manifest.datasets import Dataset
from db.manifest.seen_keys import KeyFilter, SeenKeys
from db.manifest.store import open_ingest_store
from db.server.bulk import UpsertCounts
from db.server.engine import open_psycopg_transaction
from tests.db.builders import add_video, empty, make_dataset

Batch = dict[str, int]
KEYS = st.sampled_from(["a", "b", "B", "é", "_", "1"])
BATCHES = st.lists(st.dictionaries(KEYS, st.integers(0, 2), max_size=5), max_size=4)


def sha256(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def row(dataset: Dataset, video_id: int, key: str, version: int, **columns: Any) -> dict[str, Any]:
    text = f"text {version}"
    return {
        "dataset_id": dataset.dataset_id,
        "shard": 0,
        "video_id": video_id,
        "key": key,
        "kind": "caption",
        "system": "s",
        "text": text,
        "text_sha256": sha256(text),
        "question": None,
        "answer": None,
        "segments": None,
        "extra": {"version": version},
        "row_sha256": sha256(f"{key} {version}"),
        **columns,
    }


def stored(engine: Engine) -> dict[str, str]:
    with engine.connect() as connection:
        rows = connection.execute(sa.select(schema.sample.c.key, schema.sample.c.text))
        return {row.key: row.text for row in rows}


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ingests=st.lists(BATCHES, max_size=3), is_full=st.booleans())
def test_ingests_write_what_is_new_or_changed_and_count_it(
    engine: Engine, ingests: Sequence[Sequence[Batch]], is_full: bool
) -> None:
    """is_full: the filter takes every id for one that may have come before."""
    empty(engine)
    dataset = make_dataset(engine)
    video_id = add_video(engine, dataset, "v")
    expected: dict[str, int] = {}
    for batches in ingests:
        accepted: dict[str, bytes] = {}
        with open_ingest_store(engine, dataset) as store:
            if is_full:
                store._filter._bits[:] = 255
            for batch in batches:
                new = {key: version for key, version in batch.items() if key not in accepted}
                with store.open_transaction():
                    before = {key: digest for key, digest in accepted.items() if key in batch}
                    assert store.load_seen_digests("caption", list(batch)) == before
                    written = store.store_rows("sample", [row(dataset, video_id, *item) for item in new.items()])
                    digests = {key: sha256(f"{key} {version}") for key, version in new.items()}
                    store.mark_seen("caption", digests)
                counts = UpsertCounts(
                    len(new.keys() - expected.keys()),
                    sum(expected.get(key, version) != version for key, version in new.items()),
                    sum(expected.get(key) == version for key, version in new.items()),
                )
                assert written == (counts, {})
                expected |= new
                accepted |= digests
    assert stored(engine) == {key: f"text {version}" for key, version in expected.items()}


def test_a_row_that_somebody_else_writes_during_the_first_ingest_is_updated(engine: Engine) -> None:
    dataset = make_dataset(engine)
    video_id = add_video(engine, dataset, "v")
    with open_ingest_store(engine, dataset) as first:
        other = row(dataset, video_id, "b", 0)
        with engine.begin() as connection:
            connection.execute(schema.sample.insert().values(other))
        with first.open_transaction():
            written = first.store_rows("sample", [row(dataset, video_id, key, 1) for key in ("a", "b")])
    assert written == (UpsertCounts(1, 1, 0), {})
    assert stored(engine) == {"a": "text 1", "b": "text 1"}


@pytest.mark.parametrize("is_first", [True, False])
def test_the_row_that_the_database_refuses_is_told_by_its_position(engine: Engine, is_first: bool) -> None:
    dataset = make_dataset(engine)
    video_id = add_video(engine, dataset, "v")
    if not is_first:
        with open_ingest_store(engine, dataset) as store, store.open_transaction():
            store.store_rows("sample", [row(dataset, video_id, "c", 0)])
    with open_ingest_store(engine, dataset) as store, store.open_transaction():
        rows = [row(dataset, video_id, "a", 1), row(dataset, -1, "b", 1), row(dataset, video_id, "c", 1)]
        written = store.store_rows("sample", rows)
    assert written.counts == (UpsertCounts(2, 0, 0) if is_first else UpsertCounts(1, 1, 0))
    assert list(written.refused) == [1]
    assert stored(engine) == {"a": "text 1", "c": "text 1"}


def test_a_row_whose_video_moved_is_written_again(engine: Engine) -> None:
    dataset = make_dataset(engine)
    one, two = add_video(engine, dataset, "one"), add_video(engine, dataset, "two")
    for video_id, counts in ((one, UpsertCounts(1, 0, 0)), (two, UpsertCounts(0, 1, 0)), (two, UpsertCounts(0, 0, 1))):
        with open_ingest_store(engine, dataset) as store, store.open_transaction():
            assert store.store_rows("sample", [row(dataset, video_id, "a", 1)]) == (counts, {})


@pytest.mark.parametrize("column", ["content_sha256", "mtime_ns", "etag"])
def test_what_was_null_is_a_difference(engine: Engine, column: str) -> None:
    dataset = make_dataset(engine)
    add_video(engine, dataset, "v")
    with engine.connect() as connection:
        columns = [c for c in schema.video.columns if c.name != "video_id" and c.computed is None]
        same = dict(connection.execute(sa.select(*columns)).mappings().one())
    wanted = {**same, column: {"content_sha256": b"other", "mtime_ns": 7, "etag": "e"}[column]}
    for counts in (UpsertCounts(0, 1, 0), UpsertCounts(0, 0, 1)):
        with open_ingest_store(engine, dataset) as store, store.open_transaction():
            assert store.store_rows("video", [wanted]) == (counts, {})


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(["caption", "qa"]), st.sets(KEYS)), max_size=6))
def test_seen_ids_are_those_that_were_added(engine: Engine, batches: Sequence[tuple[str, set[str]]]) -> None:
    expected: dict[tuple[str, str], bytes] = {}
    with open_psycopg_transaction(engine) as connection:
        seen = SeenKeys(connection)
        for n, (kind, keys) in enumerate(batches):
            assert seen.load_digests(kind, list(keys)) == {
                key: expected[kind, key] for key in keys if (kind, key) in expected
            }
            new = {key: sha256(f"{n}") for key in keys if (kind, key) not in expected}
            seen.add(kind, new)
            expected |= {(kind, key): digest for key, digest in new.items()}
        connection.execute("DROP TABLE ingest_seen")


@settings(max_examples=25)
@given(st.lists(st.tuples(st.sampled_from(["caption", "qa"]), st.sets(st.text(max_size=3))), max_size=6))
def test_the_filter_forgets_no_id(batches: Sequence[tuple[str, set[str]]]) -> None:
    key_filter = KeyFilter()
    for kind, keys in batches:
        key_filter.add(kind, list(keys))
    for kind, keys in batches:
        assert key_filter.list_possible(kind, list(keys)) == list(keys)


def test_the_filter_knows_most_new_ids() -> None:
    key_filter = KeyFilter()
    key_filter.add("caption", [str(i) for i in range(100_000)])
    assert key_filter.list_possible("qa", [str(i) for i in range(1000)]) == []
    assert key_filter.list_possible("caption", [str(i) for i in range(100_000, 101_000)]) == []
