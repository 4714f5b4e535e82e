"""Storage behind `ingest`: it looks up stored rows, remembers the ids of this ingest and stores all tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import psycopg
import sqlalchemy as sa
from psycopg import sql
from psycopg.rows import class_row, namedtuple_row
from sqlalchemy.engine import Engine

from db.manifest.datasets import Dataset
from db.manifest.rejects import RejectRow
from db.manifest.rows import StoreResult, store_rows
from db.manifest.seen_keys import KeyFilter, SeenKeys
from db.schema import dataset, ingest_reject
from db.server.bulk import upsert


class IngestedTable(NamedTuple):
    """A table of a manifest as it was last ingested: digest (32 bytes) of all that its rows depend on, and counts of
    stored and refused rows.
    """

    kind: str
    content_sha256: bytes
    n_rows: int
    n_rejected: int


# By table, the table that shows whether earlier ingests stored rows of it in a dataset.
_CHECKED_TABLES = {
    **{name: name for name in ("video", "reference", "sample", "keypoint")},
    "rating": "sample",
    "keypoint_label": "sample",
}
# Tables of every kind of manifest row that has one id; below, queries for their stored rows with some keys.
_TABLES_OF = {"video": ("video",), "caption": ("reference", "sample"), "keypoint": ("keypoint",), "qa": ("sample",)}
_STORED = {
    kind: [
        f"SELECT key, row_sha256 FROM {name} WHERE dataset_id = %(dataset_id)s AND key = ANY(%(keys)b)"
        + (f" AND kind = '{kind}'" if name == "sample" else "")
        for name in tables
    ]
    for kind, tables in _TABLES_OF.items()
}


class IngestStore:
    """One ingest into a dataset, on a database connection of its own. Ids accepted so far are kept in a temporary
    table.
    """

    def __init__(self, connection: psycopg.Connection[Any], dataset: Dataset) -> None:
        self.dataset = dataset
        self._connection = connection
        self._filter, self._seen_keys = KeyFilter(), SeenKeys(connection)
        self._has_earlier = {name: self._has_rows(told_by) for name, told_by in _CHECKED_TABLES.items()}
        # The kinds of rows that the dataset had none of before this ingest.
        self._first_kinds = {
            kind for kind, tables in _TABLES_OF.items() if not any(self._has_earlier[name] for name in tables)
        }

    def open_transaction(self) -> Any:
        """Return a context manager for a transaction: it commits at the end, and rolls back on an error."""
        return self._connection.transaction()

    def load_ingested_tables(self) -> dict[str, IngestedTable]:
        """Return by kind the manifest tables whose rows the dataset holds unchanged. Needs a transaction."""
        query = "SELECT kind, content_sha256, n_rows, n_rejected FROM ingested_table WHERE dataset_id = %s"
        with self._connection.cursor(row_factory=class_row(IngestedTable)) as cursor:
            return {table.kind: table for table in cursor.execute(query, [self.dataset.dataset_id])}

    def replace_ingested_tables(self, tables: Sequence[IngestedTable]) -> None:
        """Store the records of these manifest tables in place of all earlier ones of the dataset. Needs a
        transaction.
        """
        self._connection.execute("DELETE FROM ingested_table WHERE dataset_id = %s", [self.dataset.dataset_id])
        with self._connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO ingested_table (dataset_id, kind, content_sha256, n_rows, n_rejected) "
                "VALUES (%s, %s, %s, %s, %s)",
                [(self.dataset.dataset_id, *table) for table in tables],
            )

    def load_video_files(self) -> Iterator[Any]:
        """Yield uri, status, size_bytes, mtime_ns, ctime_ns, inode and etag of every video with a file, in bounded
        memory. Needs a transaction.
        """
        columns = b"uri, status, size_bytes, mtime_ns, ctime_ns, inode, etag"
        query = b"SELECT " + columns + b" FROM video WHERE dataset_id = %s AND uri IS NOT NULL"
        with self._connection.cursor("media", row_factory=namedtuple_row) as cursor:
            cursor.itersize = 10_000
            yield from cursor.execute(query, [self.dataset.dataset_id])

    def delete_rejects(self, sources: Sequence[str]) -> None:
        """Delete the rejects that earlier ingests stored for these files."""
        self._connection.execute(
            "DELETE FROM ingest_reject WHERE dataset_id = %s AND source = ANY(%s)",
            [self.dataset.dataset_id, list(sources)],
        )

    def list_rejects(self, sources: Sequence[str]) -> list[dict[str, Any]]:
        """List the refused rows of these files as dicts {source, line, code, n_rows, reason}, ordered by file
        and line.
        """
        query = (
            "SELECT source, line, code, n_rows, reason FROM ingest_reject "
            "WHERE dataset_id = %s AND source = ANY(%b) ORDER BY source, line"
        )
        return [row._asdict() for row in self._rows(query, [self.dataset.dataset_id, list(sources)])]

    def store_rejects(self, rows: Sequence[RejectRow]) -> None:
        """Insert refused rows, or update those of the same file and line."""
        columns = ["dataset_id", *RejectRow._fields]
        values = [(self.dataset.dataset_id, *row) for row in rows]
        upsert(self._connection, ingest_reject, columns, values, compare=["code", "reason", "raw", "n_rows"])

    def load_seen_digests(self, kind: str, keys: Sequence[str]) -> dict[str, bytes]:
        """Return the row hash of every given id that this ingest has already accepted, by id; others are left out."""
        possible = self._filter.list_possible(kind, keys)
        if not possible:
            return {}
        if kind not in self._first_kinds:
            return self._seen_keys.load_digests(kind, possible)
        query = " UNION ALL ".join(_STORED[kind])
        values = {"dataset_id": self.dataset.dataset_id, "keys": possible}
        return {row.key: bytes(row.row_sha256) for row in self._rows(query, values)}

    def mark_seen(self, kind: str, rows: Mapping[str, bytes]) -> None:
        """Remember these accepted ids and row hashes until this ingest ends."""
        self._filter.add(kind, list(rows))
        if kind not in self._first_kinds:
            self._seen_keys.add(kind, rows)

    def load_videos(self, keys: Sequence[str]) -> dict[str, Any]:
        """Return the stored videos with these keys, by key, as rows with video_id, shard and duration_s; unknown keys
        are left out.
        """
        query = "SELECT key, video_id, shard, duration_s FROM video WHERE dataset_id = %s AND key = ANY(%b)"
        return {row.key: row for row in self._rows(query, [self.dataset.dataset_id, list(set(keys))])}

    def load_earlier_videos(self, keys: Sequence[str]) -> dict[str, Any]:
        """Return the videos with these keys that the dataset had before this ingest, by key, with all columns of table
        `video`.
        """
        if not self._has_earlier["video"]:
            return {}
        query = "SELECT * FROM video WHERE dataset_id = %s AND key = ANY(%b)"
        return {row.key: row for row in self._rows(query, [self.dataset.dataset_id, list(keys)])}

    def count_segments(self, video_ids: Sequence[int]) -> dict[int, int]:
        """Return the largest number of timed segments in a reference of each video, by video id; videos without any are
        left out.
        """
        query = (
            "SELECT video_id, max(jsonb_array_length(segments)) AS n_segments FROM reference "
            "WHERE video_id = ANY(%b) AND jsonb_typeof(segments) = 'array' GROUP BY video_id"
        )
        return {row.video_id: row.n_segments for row in self._rows(query, [list(video_ids)])}

    def load_earlier_reference_keys(self, keys: Sequence[str]) -> set[str]:
        """Return the given keys that references of this dataset have; empty if it had no reference before this
        ingest.
        """
        if not self._has_earlier["reference"]:
            return set()
        query = "SELECT key FROM reference WHERE dataset_id = %s AND key = ANY(%b)"
        return {row.key for row in self._rows(query, [self.dataset.dataset_id, list(keys)])}

    def load_earlier_caption_keys(self, keys: Sequence[str]) -> set[str]:
        """Return the given keys that captions of this dataset have; empty if it had no sample before this ingest."""
        return set(self.load_samples("caption", keys)) if self._has_earlier["sample"] else set()

    def load_samples(self, kind: str, keys: Sequence[str]) -> dict[str, Any]:
        """Return the stored samples of a kind ("caption" or "qa") with these keys, by key, as rows with sample_id and
        video_id.
        """
        query = "SELECT key, sample_id, video_id FROM sample WHERE dataset_id = %s AND kind = %s AND key = ANY(%b)"
        return {row.key: row for row in self._rows(query, [self.dataset.dataset_id, kind, list(keys)])}

    def load_keypoints(self, keys: Sequence[str]) -> dict[str, Any]:
        """Return the stored keypoints with these keys, by key, as rows with keypoint_id and video_id; unknown keys are
        left out.
        """
        query = "SELECT key, keypoint_id, video_id FROM keypoint WHERE dataset_id = %s AND key = ANY(%b)"
        return {row.key: row for row in self._rows(query, [self.dataset.dataset_id, list(keys)])}

    def store_rows(self, table: str, rows: Sequence[Mapping[str, Any]]) -> StoreResult:
        """Insert or update rows of one table, and return counts and refused rows. Needs a transaction.

        See `db.manifest.rows.store_rows`.
        """
        return store_rows(self._connection, table, rows, may_exist=self._has_earlier[table])

    def _has_rows(self, table: str) -> bool:
        query = sql.SQL("SELECT EXISTS (SELECT FROM {} WHERE dataset_id = %s)").format(sql.Identifier(table))
        row = self._connection.execute(query, [self.dataset.dataset_id]).fetchone()
        assert row is not None
        return bool(row[0])

    def _rows(self, query: str, values: Sequence[Any] | Mapping[str, Any]) -> list[Any]:
        # Binary, since a thousand keys take long to quote. Not prepared, since a statement would keep the plan that it
        # got while the tables were empty, which reads all their rows.
        with self._connection.cursor(row_factory=namedtuple_row, binary=True) as cursor:
            return cursor.execute(query.encode(), values, prepare=False).fetchall()


@contextmanager
def open_ingest_store(engine: Engine, dataset: Dataset) -> Iterator[IngestStore]:
    """Yield a store for an ingest into a dataset. It first waits until no other ingest into the same dataset is
    running.
    """
    with _hold_dataset(engine, dataset), _open_own_connection(engine) as connection:
        with connection.transaction():
            store = IngestStore(connection, dataset)
        yield store


@contextmanager
def open_trial_store(engine: Engine, name: str, n_shards: int) -> Iterator[IngestStore]:
    """Yield a store for an ingest that is rolled back at the end in any case. A missing dataset is created
    within it.
    """
    with _open_own_connection(engine) as connection, connection.transaction(force_rollback=True):
        connection.execute(
            "INSERT INTO dataset (name, n_shards) VALUES (%s, %s) ON CONFLICT DO NOTHING", [name, n_shards]
        )
        query = "SELECT dataset_id, name, n_shards FROM dataset WHERE name = %s"
        row = connection.execute(query, [name]).fetchone()
        assert row is not None
        yield IngestStore(connection, Dataset(*row))


@contextmanager
def _open_own_connection(engine: Engine) -> Iterator[psycopg.Connection[Any]]:
    """Yield a connection that is closed at the end, not reused: this drops its temporary table, whatever state it is
    in.
    """
    pooled = engine.raw_connection()
    try:
        yield pooled.driver_connection  # type: ignore[misc]  # engine is psycopg
    finally:
        pooled.invalidate()
        pooled.close()


@contextmanager
def _hold_dataset(engine: Engine, ingested: Dataset) -> Iterator[None]:
    """Wait until no ingest into the dataset is running, and keep others waiting meanwhile.

    The lock is on the dataset's row, in a transaction separate from the ingest's own. Taking it needs a right that the
    reader lacks.
    """
    row = sa.select(dataset.c.dataset_id).where(dataset.c.dataset_id == ingested.dataset_id)
    with engine.begin() as connection:
        connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
        # FOR NO KEY UPDATE: rows that point to the dataset can be written.
        connection.execute(row.with_for_update(key_share=True))
        yield
