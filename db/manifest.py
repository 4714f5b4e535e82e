"""The database half of ingest: what is there already, what this ingest has seen, and writing rows of every table."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import sqlalchemy as sa
from psycopg import sql
from psycopg.rows import namedtuple_row
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection, Engine

from db.bulk import Upserted, copy_rows, upsert
from db.schema import METADATA, dataset, ingest_reject

Rows = Mapping[str, Any]

# By kind of manifest row: the table, and the columns that decide whether a row changed.
TABLES = {
    "video": ("video", ("row_sha256", "content_sha256", "uri", "mtime_ns", "status", "error")),
    "reference": ("reference", ("row_sha256", "video_id")),
    "sample": ("sample", ("row_sha256", "video_id", "shard")),
    "keypoint": ("keypoint", ("row_sha256", "video_id")),
    "keypoint_label": ("keypoint_label", ("row_sha256",)),
    "rating": ("rating", ("row_sha256",)),
}


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset and the number of its shards, which never changes."""

    dataset_id: int
    name: str
    n_shards: int

    def shard_of(self, video_key: str) -> int:
        """The shard of a video: a bucket of the SHA-256 of its key, so that adding a video never moves another."""
        digest = hashlib.sha256(video_key.encode()).digest()
        return int.from_bytes(digest[:8], "big") % self.n_shards


def find_dataset(connection: Connection, name: str) -> Dataset | None:
    """The dataset of this name, or None."""
    query = sa.select(dataset.c.dataset_id, dataset.c.name, dataset.c.n_shards).where(dataset.c.name == name)
    row = connection.execute(query).one_or_none()
    return None if row is None else Dataset(*row)


def list_datasets(connection: Connection) -> list[Dataset]:
    """All datasets by name."""
    query = sa.select(dataset.c.dataset_id, dataset.c.name, dataset.c.n_shards).order_by(dataset.c.name)
    return [Dataset(*row) for row in connection.execute(query)]


def ensure_dataset(connection: Connection, name: str, n_shards: int) -> Dataset:
    """The dataset of this name; `n_shards` counts only when it is new."""
    connection.execute(insert(dataset).values(name=name, n_shards=n_shards).on_conflict_do_nothing())
    found = find_dataset(connection, name)
    assert found is not None
    return found


class IngestStore:
    """One ingest's own connection: it keeps the list of ids seen so far in a temporary table, not in memory."""

    def __init__(self, connection: psycopg.Connection[Any], dataset: Dataset) -> None:
        self.dataset = dataset
        self._connection = connection

    def transaction(self) -> Any:
        """A context manager: everything inside is written, or nothing."""
        return self._connection.transaction()

    def forget_rejects(self, sources: Sequence[str]) -> None:
        """Drop the rejects that an earlier ingest of the same files left."""
        self._connection.execute(
            "DELETE FROM ingest_reject WHERE dataset_id = %s AND source = ANY(%s)",
            [self.dataset.dataset_id, list(sources)],
        )

    def write_rejects(self, rows: Sequence[tuple[str, int, str, str, str]]) -> None:
        """Store (source, line, code, reason, raw) of refused rows."""
        columns = ["dataset_id", "source", "line", "code", "reason", "raw"]
        values = [(self.dataset.dataset_id, *row) for row in rows]
        upsert(self._connection, ingest_reject, columns, values, compare=["code", "reason", "raw"])

    def seen(self, kind: str, keys: Sequence[str]) -> dict[str, bytes]:
        """Which of the ids this ingest has accepted before, with the hash of the row."""
        query = "SELECT key, row_sha256 FROM ingest_seen WHERE kind = %s AND key = ANY(%b)"
        return {row.key: bytes(row.row_sha256) for row in self._rows(query, [kind, list(keys)])}

    def mark_seen(self, kind: str, rows: Mapping[str, bytes]) -> None:
        """Remember accepted ids for the rest of this ingest."""
        columns: list[sa.Column[Any]] = [
            sa.Column("kind", sa.Text),
            sa.Column("key", sa.Text),
            sa.Column("row_sha256", sa.LargeBinary),
        ]
        copy_rows(self._connection, sql.Identifier("ingest_seen"), columns, [(kind, k, h) for k, h in rows.items()])

    def videos(self, keys: Sequence[str]) -> dict[str, Any]:
        """Stored videos by key, with all columns."""
        query = "SELECT * FROM video WHERE dataset_id = %s AND key = ANY(%b)"
        return {row.key: row for row in self._rows(query, [self.dataset.dataset_id, list(keys)])}

    def segment_counts(self, video_ids: Sequence[int]) -> dict[int, int]:
        """The largest number of segments that a reference of each video has; videos without any are left out."""
        query = (
            "SELECT video_id, max(jsonb_array_length(segments)) AS n_segments FROM reference "
            "WHERE video_id = ANY(%b) AND jsonb_typeof(segments) = 'array' GROUP BY video_id"
        )
        return {row.video_id: row.n_segments for row in self._rows(query, [list(video_ids)])}

    def references(self, keys: Sequence[str]) -> dict[str, Any]:
        """Stored references by key: reference_id, video_id."""
        query = "SELECT key, reference_id, video_id FROM reference WHERE dataset_id = %s AND key = ANY(%b)"
        return {row.key: row for row in self._rows(query, [self.dataset.dataset_id, list(keys)])}

    def samples(self, kind: str, keys: Sequence[str]) -> dict[str, Any]:
        """Stored samples of a kind by key: sample_id, video_id."""
        query = "SELECT key, sample_id, video_id FROM sample WHERE dataset_id = %s AND kind = %s AND key = ANY(%b)"
        return {row.key: row for row in self._rows(query, [self.dataset.dataset_id, kind, list(keys)])}

    def keypoints(self, keys: Sequence[str]) -> dict[str, Any]:
        """Stored keypoints by key: keypoint_id, video_id."""
        query = "SELECT key, keypoint_id, video_id FROM keypoint WHERE dataset_id = %s AND key = ANY(%b)"
        return {row.key: row for row in self._rows(query, [self.dataset.dataset_id, list(keys)])}

    def write(self, kind: str, rows: Sequence[Rows]) -> Upserted:
        """Insert or update rows of one table; all rows must have the same columns."""
        if not rows:
            return Upserted(0, 0, 0)
        name, compare = TABLES[kind]
        columns = list(rows[0])
        values = [tuple(row.values()) for row in rows]
        return upsert(self._connection, METADATA.tables[name], columns, values, compare=compare)

    def _rows(self, query: str, values: Sequence[Any]) -> list[Any]:
        # Binary, since a thousand keys take long to quote. Not prepared, since a statement would keep the plan that it
        # got while the tables were empty, which reads all their rows.
        with self._connection.cursor(row_factory=namedtuple_row, binary=True) as cursor:
            return cursor.execute(query.encode(), values, prepare=False).fetchall()


@contextmanager
def ingest_store(engine: Engine, dataset: Dataset) -> Iterator[IngestStore]:
    """Open an ingest of a dataset. A second one of the same dataset waits until this one ends."""
    pooled = engine.raw_connection()
    connection: psycopg.Connection[Any] = pooled.driver_connection  # type: ignore[assignment]  # engine is psycopg
    try:
        connection.execute("SELECT pg_advisory_lock(hashtext('reelsieve ingest'), %s)", [dataset.dataset_id])
        connection.execute(
            "CREATE TEMPORARY TABLE ingest_seen (kind text, key text, row_sha256 bytea, PRIMARY KEY (kind, key))"
        )
        connection.commit()
        yield IngestStore(connection, dataset)
    finally:
        # Closing for good drops the temporary tables and frees the lock, whatever state the connection is in.
        pooled.invalidate()
        pooled.close()


def list_rejects(connection: Connection, dataset_id: int) -> list[dict[str, Any]]:
    """Refused rows as {source, line, code, reason}, by source and line."""
    columns = [ingest_reject.c[name] for name in ("source", "line", "code", "reason")]
    query = sa.select(*columns).where(ingest_reject.c.dataset_id == dataset_id).order_by(*columns[:2])
    return [dict(row) for row in connection.execute(query).mappings()]
