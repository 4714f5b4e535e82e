"""Which tables of a manifest a dataset holds unchanged.

Triggers forget a dataset's tables with every row that somebody changes or deletes (migration 0011).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import psycopg
from psycopg.rows import class_row


class IngestedTable(NamedTuple):
    """A table as it was last ingested.

    content_sha256: the digest (32 bytes) of everything that its rows depend on. n_rows: the rows that are stored.
    n_rejected: the rows that were refused.
    """

    kind: str
    content_sha256: bytes
    n_rows: int
    n_rejected: int


class MediaState(NamedTuple):
    """A video's file as it was ingested, with the columns of table `video`."""

    uri: str
    status: str
    size_bytes: int
    mtime_ns: int | None
    ctime_ns: int | None
    inode: int | None
    etag: str | None


def ingested_tables(connection: psycopg.Connection[Any], dataset_id: int) -> dict[str, IngestedTable]:
    """The tables that the dataset holds unchanged, by kind."""
    query = "SELECT kind, content_sha256, n_rows, n_rejected FROM ingested_table WHERE dataset_id = %s"
    with connection.cursor(row_factory=class_row(IngestedTable)) as cursor:
        return {table.kind: table for table in cursor.execute(query, [dataset_id])}


def replace_ingested_tables(
    connection: psycopg.Connection[Any], dataset_id: int, tables: Sequence[IngestedTable]
) -> None:
    """Remember these tables of the dataset, and no others. To be called in a transaction."""
    connection.execute("DELETE FROM ingested_table WHERE dataset_id = %s", [dataset_id])
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO ingested_table (dataset_id, kind, content_sha256, n_rows, n_rejected) "
            "VALUES (%s, %s, %s, %s, %s)",
            [(dataset_id, *table) for table in tables],
        )


def media_states(connection: psycopg.Connection[Any], dataset_id: int) -> Iterator[MediaState]:
    """The files of the dataset's videos, in bounded memory. To be called in a transaction."""
    columns = ", ".join(MediaState._fields)
    query = f"SELECT {columns} FROM video WHERE dataset_id = %s AND uri IS NOT NULL"
    with connection.cursor("media_states", row_factory=class_row(MediaState)) as cursor:
        cursor.itersize = 10_000
        yield from cursor.execute(query.encode(), [dataset_id])
