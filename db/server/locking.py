"""Lock rows that other rows point to, so that nobody deletes them while those other rows are written."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import psycopg
import sqlalchemy as sa
from psycopg import sql
from sqlalchemy.engine import Connection


def lock_ids(connection: Connection, key: sa.Column[int], ids: Collection[int]) -> set[int]:
    """Return those of the ids that exist in the column `key`, and lock their rows: nobody can delete them until the
    transaction ends. Waits while another transaction deletes one of them.
    """
    if not ids:
        return set()
    query = sa.select(key).where(key == sa.any_(sa.bindparam("ids"))).order_by(key)
    return set(connection.scalars(query.with_for_update(read=True, key_share=True), {"ids": list(ids)}))


def lock_ids_for_copy(
    connection: psycopg.Connection[Any], key: sa.Column[int], ids: Collection[int], *, is_exclusive: bool = False
) -> set[int]:
    """Return those of the ids that exist in the column `key`, and lock their rows against deletion, on a psycopg
    connection. With `is_exclusive`, another caller for the same rows waits until this transaction ends.
    """
    query = sql.SQL("SELECT {key} FROM {table} WHERE {key} = ANY(%s) ORDER BY {key} FOR {strength}").format(
        key=sql.Identifier(key.name),
        table=sql.Identifier(key.table.name),
        strength=sql.SQL("NO KEY UPDATE" if is_exclusive else "KEY SHARE"),
    )
    return {row[0] for row in connection.execute(query, [list(ids)])}
