"""The ids that one ingest has accepted so far: a filter in memory, and exact answers from a temporary table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import psycopg
import sqlalchemy as sa
from numpy.typing import NDArray
from psycopg import sql

from db.server.bulk import copy_rows

_TABLE = "CREATE TEMPORARY TABLE ingest_seen (kind text, key text, row_sha256 bytea)"
# Made with the first question.
_INDEX = "CREATE UNIQUE INDEX ON ingest_seen (kind, key)"
_COLUMNS: list[sa.Column[Any]] = [
    sa.Column("kind", sa.Text),
    sa.Column("key", sa.Text),
    sa.Column("row_sha256", sa.LargeBinary),
]
# 2^27 bits are 16 MB. Of ten million ids, 4 in 1,000 look as if they came before, and are looked up.
_N_BITS = 2**27
_N_PLACES = 4


class KeyFilter:
    """A Bloom filter of ids by kind of manifest row, 16 MB large. It can rule out that an id was added, but not confirm
    it.
    """

    def __init__(self) -> None:
        self._bits = np.zeros(_N_BITS // 8, np.uint8)

    def list_possible(self, kind: str, keys: Sequence[str]) -> list[str]:
        """Return those of the given ids that may have been added for this kind of row, in their order. The ids left out
        were certainly not added.
        """
        places = _compute_places(kind, keys)
        may_hold = (self._bits[places >> 3] >> (places & 7) & 1).all(axis=1)
        return [key for key, may in zip(keys, may_hold, strict=True) if may]

    def add(self, kind: str, keys: Sequence[str]) -> None:
        """Add ids of this kind of manifest row, such as "caption", to the filter."""
        places = _compute_places(kind, keys).ravel()
        np.bitwise_or.at(self._bits, places >> 3, (1 << (places & 7)).astype(np.uint8))


class SeenKeys:
    """The ids that one ingest has accepted, by kind of manifest row, with the hash of their row. It creates a temporary
    table on its connection and keeps them there.
    """

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._is_indexed = False
        connection.execute(_TABLE)

    def load_digests(self, kind: str, keys: Sequence[str]) -> dict[str, bytes]:
        """Return {id: row hash} of those of the given ids that were added before for this kind of row; others are left
        out. The first call builds the index of the temporary table.
        """
        if not self._is_indexed:
            self._connection.execute(_INDEX)
            self._is_indexed = True
        query = b"SELECT key, row_sha256 FROM ingest_seen WHERE kind = %s AND key = ANY(%b)"
        with self._connection.cursor(binary=True) as cursor:
            return {key: bytes(digest) for key, digest in cursor.execute(query, [kind, keys], prepare=False)}

    def add(self, kind: str, rows: Mapping[str, bytes]) -> None:
        """Insert ids with their row hashes into the temporary table. kind: of manifest row, such as "caption". No id
        may be added twice for one kind.
        """
        copy_rows(self._connection, sql.Identifier("ingest_seen"), _COLUMNS, [(kind, k, h) for k, h in rows.items()])


def _compute_places(kind: str, keys: Sequence[str]) -> NDArray[np.int64]:
    """Return the bits of each key in the filter, from 0, as an array (keys, places)."""
    digests = np.fromiter((hash((kind, key)) for key in keys), np.int64, len(keys))
    steps = digests >> 27 | 1
    return (digests[:, np.newaxis] + np.arange(_N_PLACES) * steps[:, np.newaxis]) & (_N_BITS - 1)
