"""Storage behind `ingest`: it looks up stored rows, remembers the ids of this ingest and stores all tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import psycopg
import sqlalchemy as sa
from psycopg import sql
from psycopg.rows import class_row, namedtuple_row
from psycopg.types.json import Jsonb
from sqlalchemy.engine import Engine

from db.evidence.models import compute_fingerprint
from db.evidence.video_vectors import EncoderOfVectors, build_identity
from db.manifest.datasets import Dataset
from db.manifest.rejects import RejectRow
from db.manifest.rows import StoreResult, store_rows
from db.manifest.seen_keys import KeyFilter, SeenKeys
from db.schema import dataset, ingest_reject
from db.server.bulk import upsert


class IngestedTable(NamedTuple):
    """The record of a manifest's table as it was last ingested. kind: of its rows, such as "video". content_sha256:
    digest (32 bytes) of all that its rows depend on. n_rows, n_rejected: how many rows were stored and refused.
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
    "video_embedding": "video",
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
    """The database as one ingest into a dataset reads and writes it, on a connection of its own. Ids accepted by this
    ingest are kept in a temporary table.
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
        """Return a context manager that opens a transaction on the store's connection: it commits at the end, and rolls
        back on an error. In a trial store it is a savepoint, and nothing is committed.
        """
        return self._connection.transaction()

    def load_ingested_tables(self) -> dict[str, IngestedTable]:
        """Return {kind: record} of the manifest tables whose rows the dataset still holds as they were ingested; {}
        before the first ingest. Needs a transaction.
        """
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
        """Yield a row with uri, status, size_bytes, mtime_ns, ctime_ns, inode and etag of every video of the dataset
        that has a file, in bounded memory. Needs a transaction.
        """
        columns = b"uri, status, size_bytes, mtime_ns, ctime_ns, inode, etag"
        query = b"SELECT " + columns + b" FROM video WHERE dataset_id = %s AND uri IS NOT NULL"
        with self._connection.cursor("media", row_factory=namedtuple_row) as cursor:
            cursor.itersize = 10_000
            yield from cursor.execute(query, [self.dataset.dataset_id])

    def load_scales(self) -> dict[str, str]:
        """Return the names of the declared scales of ratings, by aspect. Needs a transaction."""
        query = "SELECT aspect, scale FROM rating_scale WHERE dataset_id = %s"
        return {row.aspect: row.scale for row in self._rows(query, [self.dataset.dataset_id])}

    def store_scale(self, aspect: str, scale: str, least: float | None, most: float | None, is_turned: bool) -> bool:
        """Store the scale of an aspect and return True; return False and store nothing if the dataset has ratings of
        the aspect outside of the scale, or given in a browser on another scale. scale: its name. least, most: its ends,
        None for all numbers. is_turned: whether the lowest number is best. Needs a transaction.
        """
        values = {"dataset_id": self.dataset.dataset_id, "aspect": aspect, "scale": scale}
        values |= {"least": least, "most": most, "is_turned": is_turned}
        unfit = (
            "SELECT g.value FROM rating g JOIN sample s USING (sample_id) WHERE s.dataset_id = %(dataset_id)s "
            "AND g.aspect = %(aspect)s AND (g.value < %(least)s::float8 OR g.value > %(most)s::float8 "
            "OR (g.extra->>'scale' IS NOT NULL AND (g.extra->>'scale' <> '1-5' OR %(scale)s <> '1-5'))) LIMIT 1"
        )
        if self._rows(unfit, values):
            return False
        self._connection.execute(
            "INSERT INTO rating_scale VALUES (%(dataset_id)s, %(aspect)s, %(scale)s, %(least)s, %(most)s, "
            "%(is_turned)s) ON CONFLICT (dataset_id, aspect) DO UPDATE SET scale = EXCLUDED.scale, "
            "least = EXCLUDED.least, most = EXCLUDED.most, lowest_is_best = EXCLUDED.lowest_is_best",
            values,
        )
        return True

    def delete_rejects(self, sources: Sequence[str]) -> None:
        """Delete the rejects that are stored for these files of the dataset's manifest."""
        self._connection.execute(
            "DELETE FROM ingest_reject WHERE dataset_id = %s AND source = ANY(%s)",
            [self.dataset.dataset_id, list(sources)],
        )

    def list_rejects(self, sources: Sequence[str]) -> list[dict[str, Any]]:
        """List the stored rejects of these files as dicts with source (the file), line, code, n_rows and reason,
        ordered by file and line. n_rows: how many refused rows an entry stands for.
        """
        query = (
            "SELECT source, line, code, n_rows, reason FROM ingest_reject "
            "WHERE dataset_id = %s AND source = ANY(%b) ORDER BY source, line"
        )
        return [row._asdict() for row in self._rows(query, [self.dataset.dataset_id, list(sources)])]

    def store_rejects(self, rows: Sequence[RejectRow]) -> None:
        """Insert refused rows into table `ingest_reject`, or update those of the same file and line."""
        columns = ["dataset_id", *RejectRow._fields]
        values = [(self.dataset.dataset_id, *row) for row in rows]
        upsert(self._connection, ingest_reject, columns, values, compare=["code", "reason", "raw", "n_rows"])

    def load_seen_digests(self, kind: str, keys: Sequence[str]) -> dict[str, bytes]:
        """Return {id: row hash} of those of the given ids that this ingest has already accepted; others are left out.
        kind: of manifest row, such as "caption". If the dataset had no rows of this kind before, accepted ids count
        once their rows are stored.
        """
        possible = self._filter.list_possible(kind, keys)
        if not possible:
            return {}
        if kind not in self._first_kinds:
            return self._seen_keys.load_digests(kind, possible)
        query = " UNION ALL ".join(_STORED[kind])
        values = {"dataset_id": self.dataset.dataset_id, "keys": possible}
        return {row.key: bytes(row.row_sha256) for row in self._rows(query, values)}

    def mark_seen(self, kind: str, rows: Mapping[str, bytes]) -> None:
        """Remember these accepted ids and row hashes until this ingest ends. kind: of manifest row, such as "caption".
        Call it once for every id.
        """
        self._filter.add(kind, list(rows))
        if kind not in self._first_kinds:
            self._seen_keys.add(kind, rows)

    def load_videos(self, keys: Sequence[str]) -> dict[str, Any]:
        """Return the stored videos with these keys as {key: row with video_id, shard, duration_s and content_sha256};
        unknown keys are left out.
        """
        query = (
            "SELECT key, video_id, shard, duration_s, content_sha256 FROM video WHERE dataset_id = %s AND key = ANY(%b)"
        )
        return {row.key: row for row in self._rows(query, [self.dataset.dataset_id, list(set(keys))])}

    def load_earlier_videos(self, keys: Sequence[str]) -> dict[str, Any]:
        """Return the stored videos with these keys as {key: row with all columns of table `video`}; unknown keys are
        left out. {} if the dataset had no video before this ingest.
        """
        if not self._has_earlier["video"]:
            return {}
        query = "SELECT * FROM video WHERE dataset_id = %s AND key = ANY(%b)"
        return {row.key: row for row in self._rows(query, [self.dataset.dataset_id, list(keys)])}

    def count_segments(self, video_ids: Sequence[int]) -> dict[int, int]:
        """Return {video id: largest number of timed segments in a reference of the video}. Videos without a reference
        that has segments are left out.
        """
        query = (
            "SELECT video_id, max(jsonb_array_length(segments)) AS n_segments FROM reference "
            "WHERE video_id = ANY(%b) AND jsonb_typeof(segments) = 'array' GROUP BY video_id"
        )
        return {row.video_id: row.n_segments for row in self._rows(query, [list(video_ids)])}

    def load_earlier_reference_keys(self, keys: Sequence[str]) -> set[str]:
        """Return those of the given keys that stored references of this dataset have. Empty if the dataset had no
        reference before this ingest.
        """
        if not self._has_earlier["reference"]:
            return set()
        query = "SELECT key FROM reference WHERE dataset_id = %s AND key = ANY(%b)"
        return {row.key for row in self._rows(query, [self.dataset.dataset_id, list(keys)])}

    def load_earlier_caption_keys(self, keys: Sequence[str]) -> set[str]:
        """Return those of the given keys that stored captions of this dataset have. Empty if the dataset had no sample
        before this ingest.
        """
        return set(self.load_samples("caption", keys)) if self._has_earlier["sample"] else set()

    def load_samples(self, kind: str, keys: Sequence[str]) -> dict[str, Any]:
        """Return the stored samples of one kind with these keys as {key: row with sample_id and video_id}; unknown keys
        are left out. kind: "caption" or "qa".
        """
        query = "SELECT key, sample_id, video_id FROM sample WHERE dataset_id = %s AND kind = %s AND key = ANY(%b)"
        return {row.key: row for row in self._rows(query, [self.dataset.dataset_id, kind, list(keys)])}

    def load_keypoints(self, keys: Sequence[str]) -> dict[str, Any]:
        """Return the stored keypoints with these keys as {key: row with keypoint_id and video_id}; unknown keys are
        left out.
        """
        query = "SELECT key, keypoint_id, video_id FROM keypoint WHERE dataset_id = %s AND key = ANY(%b)"
        return {row.key: row for row in self._rows(query, [self.dataset.dataset_id, list(keys)])}

    def register_encoder(self, name: str) -> EncoderOfVectors:
        """Return the encoder with this name of vectors that manifests bring; a new one is inserted into table `model`.
        Needs a transaction, until whose end other ingests wait for this encoder: its vectors are of one length.
        """
        identity = build_identity(name)
        columns = "INSERT INTO model (name, revision, params, fingerprint) VALUES (%s, %s, %s, %s) "
        values = [name, identity["revision"], Jsonb(identity["params"]), compute_fingerprint(identity)]
        # An update locks the row, which must happen before the length is read.
        on_conflict = "ON CONFLICT (fingerprint) DO UPDATE SET name = EXCLUDED.name"
        self._connection.execute(f"{columns}{on_conflict}".encode(), values)
        query = (
            "SELECT model_id, (SELECT vector_dims(embedding) FROM video_embedding e WHERE e.model_id = m.model_id "
            "LIMIT 1) AS length FROM model m WHERE fingerprint = %s"
        )
        (row,) = self._rows(query, values[-1:])
        return EncoderOfVectors(*row)

    def load_vector_rows(self, model_id: int, video_ids: Sequence[int]) -> dict[int, Any]:
        """Return {video id: row with content_sha256 and row_sha256} of the stored vectors of these videos by one
        encoder; videos without one are left out.
        """
        query = (
            "SELECT video_id, content_sha256, row_sha256 FROM video_embedding "
            "WHERE model_id = %s AND video_id = ANY(%b)"
        )
        return {row.video_id: row for row in self._rows(query, [model_id, list(video_ids)])}

    def store_rows(self, table: str, rows: Sequence[Mapping[str, Any]]) -> StoreResult:
        """Insert or update rows of a manifest table such as "video", and return counts and the rows that the database
        refused, with reasons. rows: values by column; all must have the same columns. Needs a transaction.

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
def open_ingest_store(engine: Engine, dataset: Dataset, *, is_shared: bool = False) -> Iterator[IngestStore]:
    """Yield a store for an ingest into a dataset, on a connection that is closed at the end. It first waits until no
    other ingest into the same dataset is running, and keeps later ones waiting. is_shared: other shared ones may run.
    """
    with _hold_dataset(engine, dataset, is_shared), _open_own_connection(engine) as connection:
        with connection.transaction():
            store = IngestStore(connection, dataset)
        yield store


@contextmanager
def open_trial_store(engine: Engine, name: str) -> Iterator[IngestStore]:
    """Yield a store for an ingest whose changes are rolled back at the end in any case. A missing dataset is created
    within it, with one shard.
    """
    with _open_own_connection(engine) as connection, connection.transaction(force_rollback=True):
        connection.execute("INSERT INTO dataset (name, n_shards) VALUES (%s, 1) ON CONFLICT DO NOTHING", [name])
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
def _hold_dataset(engine: Engine, ingested: Dataset, is_shared: bool) -> Iterator[None]:
    """Wait until no ingest into the dataset is running, and keep others waiting meanwhile.

    The lock is on the dataset's row, in a transaction separate from the ingest's own. Taking it needs a right that the
    reader lacks.
    """
    row = sa.select(dataset.c.dataset_id).where(dataset.c.dataset_id == ingested.dataset_id)
    with engine.begin() as connection:
        connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
        # FOR NO KEY UPDATE: rows that point to the dataset can be written.
        connection.execute(row.with_for_update(read=is_shared, key_share=not is_shared))
        yield
