"""The database half of ingest: it looks up stored rows, keeps the ids of this ingest and writes every table."""

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
    """A table as it was last ingested.

    content_sha256: the digest (32 bytes) of everything that its rows depend on. n_rows: the rows that are stored.
    n_rejected: the rows that were refused.
    """

    kind: str
    content_sha256: bytes
    n_rows: int
    n_rejected: int


# The tables whose rows of a dataset are told from those of an earlier ingest, each with the table that tells it.
_CHECKED_TABLES = {
    **{name: name for name in ("video", "reference", "sample", "keypoint")},
    "rating": "sample",
    "keypoint_label": "sample",
}
# By kind of manifest row with one id: its tables, and queries for the stored rows of some keys.
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
    """One ingest's own connection: it keeps the list of ids seen so far in a temporary table, not in memory."""

    def __init__(self, connection: psycopg.Connection[Any], dataset: Dataset) -> None:
        self.dataset = dataset
        self._connection = connection
        self._filter, self._seen_keys = KeyFilter(), SeenKeys(connection)
        self._has_earlier = {name: self._has_rows(told_by) for name, told_by in _CHECKED_TABLES.items()}
        # The kinds of which every stored row is of this ingest.
        self._first_kinds = {
            kind for kind, tables in _TABLES_OF.items() if not any(self._has_earlier[name] for name in tables)
        }

    def open_transaction(self) -> Any:
        """A context manager: everything inside is written, or nothing."""
        return self._connection.transaction()

    def load_ingested_tables(self) -> dict[str, IngestedTable]:
        """The tables that the dataset holds unchanged, by kind. To be called in a transaction."""
        query = "SELECT kind, content_sha256, n_rows, n_rejected FROM ingested_table WHERE dataset_id = %s"
        with self._connection.cursor(row_factory=class_row(IngestedTable)) as cursor:
            return {table.kind: table for table in cursor.execute(query, [self.dataset.dataset_id])}

    def replace_ingested_tables(self, tables: Sequence[IngestedTable]) -> None:
        """Remember these tables, and no others. To be called in a transaction."""
        self._connection.execute("DELETE FROM ingested_table WHERE dataset_id = %s", [self.dataset.dataset_id])
        with self._connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO ingested_table (dataset_id, kind, content_sha256, n_rows, n_rejected) "
                "VALUES (%s, %s, %s, %s, %s)",
                [(self.dataset.dataset_id, *table) for table in tables],
            )

    def load_video_files(self) -> Iterator[Any]:
        """The files of the dataset's videos: columns of table `video`, in bounded memory. Needs a transaction."""
        columns = b"uri, status, size_bytes, mtime_ns, ctime_ns, inode, etag"
        query = b"SELECT " + columns + b" FROM video WHERE dataset_id = %s AND uri IS NOT NULL"
        with self._connection.cursor("media", row_factory=namedtuple_row) as cursor:
            cursor.itersize = 10_000
            yield from cursor.execute(query, [self.dataset.dataset_id])

    def delete_rejects(self, sources: Sequence[str]) -> None:
        """Drop the rejects that an earlier ingest of the same files left."""
        self._connection.execute(
            "DELETE FROM ingest_reject WHERE dataset_id = %s AND source = ANY(%s)",
            [self.dataset.dataset_id, list(sources)],
        )

    def list_rejects(self, sources: Sequence[str]) -> list[dict[str, Any]]:
        """Refused rows of these files as {source, line, code, n_rows, reason}, by source and line."""
        query = (
            "SELECT source, line, code, n_rows, reason FROM ingest_reject "
            "WHERE dataset_id = %s AND source = ANY(%b) ORDER BY source, line"
        )
        return [row._asdict() for row in self._rows(query, [self.dataset.dataset_id, list(sources)])]

    def store_rejects(self, rows: Sequence[RejectRow]) -> None:
        """Store refused rows."""
        columns = ["dataset_id", *RejectRow._fields]
        values = [(self.dataset.dataset_id, *row) for row in rows]
        upsert(self._connection, ingest_reject, columns, values, compare=["code", "reason", "raw", "n_rows"])

    def load_seen_digests(self, kind: str, keys: Sequence[str]) -> dict[str, bytes]:
        """The row hashes of those ids that this ingest has accepted before, by id."""
        possible = self._filter.list_possible(kind, keys)
        if not possible:
            return {}
        if kind not in self._first_kinds:
            return self._seen_keys.load_digests(kind, possible)
        query = " UNION ALL ".join(_STORED[kind])
        values = {"dataset_id": self.dataset.dataset_id, "keys": possible}
        return {row.key: bytes(row.row_sha256) for row in self._rows(query, values)}

    def mark_seen(self, kind: str, rows: Mapping[str, bytes]) -> None:
        """Remember accepted ids for the rest of this ingest."""
        self._filter.add(kind, list(rows))
        if kind not in self._first_kinds:
            self._seen_keys.add(kind, rows)

    def load_videos(self, keys: Sequence[str]) -> dict[str, Any]:
        """Stored videos by key: video_id, shard, duration_s."""
        query = "SELECT key, video_id, shard, duration_s FROM video WHERE dataset_id = %s AND key = ANY(%b)"
        return {row.key: row for row in self._rows(query, [self.dataset.dataset_id, list(set(keys))])}

    def load_earlier_videos(self, keys: Sequence[str]) -> dict[str, Any]:
        """Videos that earlier ingests stored, by key, with all columns."""
        if not self._has_earlier["video"]:
            return {}
        query = "SELECT * FROM video WHERE dataset_id = %s AND key = ANY(%b)"
        return {row.key: row for row in self._rows(query, [self.dataset.dataset_id, list(keys)])}

    def count_segments(self, video_ids: Sequence[int]) -> dict[int, int]:
        """The largest number of segments that a reference of each video has; videos without any are left out."""
        query = (
            "SELECT video_id, max(jsonb_array_length(segments)) AS n_segments FROM reference "
            "WHERE video_id = ANY(%b) AND jsonb_typeof(segments) = 'array' GROUP BY video_id"
        )
        return {row.video_id: row.n_segments for row in self._rows(query, [list(video_ids)])}

    def load_earlier_reference_keys(self, keys: Sequence[str]) -> set[str]:
        """Those of the keys that references of earlier ingests have."""
        if not self._has_earlier["reference"]:
            return set()
        query = "SELECT key FROM reference WHERE dataset_id = %s AND key = ANY(%b)"
        return {row.key for row in self._rows(query, [self.dataset.dataset_id, list(keys)])}

    def load_earlier_caption_keys(self, keys: Sequence[str]) -> set[str]:
        """Those of the keys that candidate captions of earlier ingests have."""
        return set(self.load_samples("caption", keys)) if self._has_earlier["sample"] else set()

    def load_samples(self, kind: str, keys: Sequence[str]) -> dict[str, Any]:
        """Stored samples of a kind by key: sample_id, video_id."""
        query = "SELECT key, sample_id, video_id FROM sample WHERE dataset_id = %s AND kind = %s AND key = ANY(%b)"
        return {row.key: row for row in self._rows(query, [self.dataset.dataset_id, kind, list(keys)])}

    def load_keypoints(self, keys: Sequence[str]) -> dict[str, Any]:
        """Stored keypoints by key: keypoint_id, video_id."""
        query = "SELECT key, keypoint_id, video_id FROM keypoint WHERE dataset_id = %s AND key = ANY(%b)"
        return {row.key: row for row in self._rows(query, [self.dataset.dataset_id, list(keys)])}

    def store_rows(self, table: str, rows: Sequence[Mapping[str, Any]]) -> StoreResult:
        """Insert or update rows of one table, as `write_rows` does. To be called in a transaction."""
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
    """Open an ingest of a dataset. A second one of the same dataset waits until this one ends."""
    with _hold_dataset(engine, dataset), _open_own_connection(engine) as connection:
        with connection.transaction():
            store = IngestStore(connection, dataset)
        yield store


@contextmanager
def open_trial_store(engine: Engine, name: str, n_shards: int) -> Iterator[IngestStore]:
    """Open an ingest that is undone at the end, whatever happens; it makes the dataset too, if there is none."""
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
    """A connection that is closed for good: that drops the temporary table, whatever state the connection is in."""
    pooled = engine.raw_connection()
    try:
        yield pooled.driver_connection  # type: ignore[misc]  # engine is psycopg
    finally:
        pooled.invalidate()
        pooled.close()


@contextmanager
def _hold_dataset(engine: Engine, ingested: Dataset) -> Iterator[None]:
    """Wait until no ingest of the dataset is under way, and let none begin meanwhile.

    The lock is on the dataset's row, in a transaction of its own beside the ingest's transactions. To take it needs a
    right that the reader lacks.
    """
    row = sa.select(dataset.c.dataset_id).where(dataset.c.dataset_id == ingested.dataset_id)
    with engine.begin() as connection:
        connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
        # FOR NO KEY UPDATE: rows that point to the dataset can be written.
        connection.execute(row.with_for_update(key_share=True))
        yield
