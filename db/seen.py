"""The ids that an ingest has accepted so far: exact, in a temporary table, with a filter in memory before it.

Most ids are new. The filter knows that of nearly all of them, so they cost no question to the database, and the table
gets its index with the first id that may have come before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import psycopg
import sqlalchemy as sa
from numpy.typing import NDArray
from psycopg import sql

from db.bulk import copy_rows

_TABLE = "CREATE TEMPORARY TABLE ingest_seen (kind text, key text, row_sha256 bytea)"
_INDEX = "CREATE UNIQUE INDEX ON ingest_seen (kind, key)"
_COLUMNS: list[sa.Column[Any]] = [
    sa.Column("kind", sa.Text),
    sa.Column("key", sa.Text),
    sa.Column("row_sha256", sa.LargeBinary),
]
# 2^27 bits are 16 MB. Of ten million ids, 4 in 1,000 look as if they came before, and are looked up.
_N_BITS = 2**27
_N_PLACES = 4


class SeenKeys:
    """The accepted ids of one ingest by kind of row, each with the hash of its row."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._bits = np.zeros(_N_BITS // 8, np.uint8)
        self._is_indexed = False
        connection.execute(_TABLE)

    def among(self, kind: str, keys: Sequence[str]) -> dict[str, bytes]:
        """The row hashes of those ids that were added before, by id."""
        places = _places(kind, keys)
        may_hold = (self._bits[places >> 3] >> (places & 7) & 1).all(axis=1)
        possible = [key for key, may in zip(keys, may_hold, strict=True) if may]
        if not possible:
            return {}
        if not self._is_indexed:
            self._connection.execute(_INDEX)
            self._is_indexed = True
        query = b"SELECT key, row_sha256 FROM ingest_seen WHERE kind = %s AND key = ANY(%b)"
        with self._connection.cursor(binary=True) as cursor:
            return {key: bytes(digest) for key, digest in cursor.execute(query, [kind, possible], prepare=False)}

    def add(self, kind: str, rows: Mapping[str, bytes]) -> None:
        """Remember ids that are not among the added ones yet, with their row hashes."""
        copy_rows(self._connection, sql.Identifier("ingest_seen"), _COLUMNS, [(kind, k, h) for k, h in rows.items()])
        places = _places(kind, list(rows)).ravel()
        np.bitwise_or.at(self._bits, places >> 3, (1 << (places & 7)).astype(np.uint8))


def _places(kind: str, keys: Sequence[str]) -> NDArray[np.int64]:
    """The places of each key's bits, shape (keys, places), from 0."""
    digests = np.fromiter((hash((kind, key)) for key in keys), np.int64, len(keys))
    steps = digests >> 27 | 1
    return (digests[:, np.newaxis] + np.arange(_N_PLACES) * steps[:, np.newaxis]) & (_N_BITS - 1)
