"""Store rows of a manifest's tables, and leave out those that the database refuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import psycopg
import sqlalchemy as sa

from db.schema import METADATA
from db.server.bulk import UpsertCounts, upsert, upsert_changed

# The columns that decide whether a row changed, by table.
_COMPARED = {
    "video": (
        *("row_sha256", "content_sha256", "uri", "mtime_ns", "ctime_ns", "inode", "etag", "member_offset"),
        *("status", "error"),
    ),
    "reference": ("row_sha256", "video_id"),
    "sample": ("row_sha256", "video_id", "shard"),
    "keypoint": ("row_sha256", "video_id"),
    "keypoint_label": ("row_sha256",),
    "rating": ("row_sha256",),
    "video_embedding": ("row_sha256", "content_sha256"),
}
# Classes of SQLSTATE that blame the row: data that does not fit, a broken constraint, a limit such as that of an index.
_OF_THE_ROW = ("22", "23", "54")


class StoreResult(NamedTuple):
    """The outcome of storing rows. counts: how many were inserted, updated and unchanged. refused: by position in the
    rows given, from 0, the database's reason for not storing a row.
    """

    counts: UpsertCounts
    refused: dict[int, str]


def store_rows(
    connection: psycopg.Connection[Any], name: str, rows: Sequence[Mapping[str, Any]], *, may_exist: bool
) -> StoreResult:
    """Insert or update rows of a manifest table such as "video", and return counts and refused rows. A row that the
    database refuses does not stop the others. rows: values by column; all must have the same columns. may_exist: False
    if no row with these keys is stored yet. Needs a transaction.

    A stored row counts as changed by some of its columns, such as its hash. Errors that no row causes, such as a lost
    connection or a full disk, are raised.
    """
    if not rows:
        return StoreResult(UpsertCounts(0, 0, 0), {})
    table, compare = METADATA.tables[name], _COMPARED[name]
    columns, values = list(rows[0]), [tuple(row.values()) for row in rows]
    try:
        with connection.transaction():
            return StoreResult(
                upsert_changed(connection, table, columns, values, compare=compare, may_exist=may_exist), {}
            )
    except psycopg.Error as error:
        if not _blames_the_row(error):
            raise
    # Some row is refused, or another process has written one of them meanwhile.
    return _upsert_accepted(connection, table, columns, values, compare)


def _upsert_accepted(
    connection: psycopg.Connection[Any],
    table: sa.Table,
    columns: Sequence[str],
    values: Sequence[tuple[Any, ...]],
    compare: Sequence[str],
) -> StoreResult:
    try:
        with connection.transaction():
            return StoreResult(upsert(connection, table, columns, values, compare=compare), {})
    except psycopg.Error as error:
        if not _blames_the_row(error):
            raise
        if len(values) == 1:
            return StoreResult(UpsertCounts(0, 0, 0), {0: error.diag.message_primary or str(error)})
    # One refusal undoes the whole statement, so the two halves are tried separately.
    middle = len(values) // 2
    first = _upsert_accepted(connection, table, columns, values[:middle], compare)
    second = _upsert_accepted(connection, table, columns, values[middle:], compare)
    refused = first.refused | {middle + position: reason for position, reason in second.refused.items()}
    return StoreResult(first.counts + second.counts, refused)


def _blames_the_row(error: psycopg.Error) -> bool:
    # A value that psycopg itself cannot send raises a DataError without a state.
    return isinstance(error, psycopg.DataError) or (error.sqlstate or "").startswith(_OF_THE_ROW)
