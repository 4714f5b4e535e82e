"""Bulk writes: binary COPY into a temporary table, then one INSERT .. ON CONFLICT DO UPDATE of the rows that
changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
import sqlalchemy as sa
from pgvector.sqlalchemy import VECTOR
from psycopg import adapters, sql
from psycopg.adapt import PyFormat
from sqlalchemy.dialects.postgresql import dialect


@dataclass(frozen=True, slots=True)
class UpsertCounts:
    """How many of the given rows an upsert inserted, updated and left unchanged; `+` adds two of these."""

    inserted: int
    updated: int
    unchanged: int

    def __add__(self, other: UpsertCounts) -> UpsertCounts:
        return UpsertCounts(
            self.inserted + other.inserted, self.updated + other.updated, self.unchanged + other.unchanged
        )


def upsert(
    connection: psycopg.Connection[Any],
    table: sa.Table,
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    compare: Sequence[str],
    touch: Sequence[str] = (),
) -> UpsertCounts:
    """Insert rows into a table, or update the stored rows whose `compare` columns differ, and return how many were
    inserted, updated and left unchanged. Rows have values in the order of `columns`, and no key twice. They are matched
    by the table's unique constraint, else by its primary key.

    An update sets all given columns outside the key, and those in `touch` to their server default (a time stamp). JSON
    columns take Python objects or None. Does not commit.
    """
    if not rows:
        return UpsertCounts(0, 0, 0)
    key = list_key_columns(table)
    staging = _fill_staging(connection, table, columns, rows)
    sets = [
        sql.SQL("{c} = EXCLUDED.{c}").format(c=sql.Identifier(column)) for column in columns if column not in key
    ] + [sql.SQL("{} = DEFAULT").format(sql.Identifier(column)) for column in touch]
    changed = sql.SQL("({current}) IS DISTINCT FROM ({new})").format(
        current=_format_names(compare, prefix=table.name), new=_format_names(compare, prefix="excluded")
    )
    # Rows go in by key order: two runs that write the same rows then wait for each other instead of deadlocking.
    statement = sql.SQL(
        "WITH written AS ("
        "INSERT INTO {table} ({columns}) SELECT {columns} FROM {staging} ORDER BY {key} "
        "ON CONFLICT ({key}) DO UPDATE SET {sets} WHERE {changed} RETURNING (xmax = 0) AS fresh) "
        "SELECT count(*) FILTER (WHERE fresh), count(*) FILTER (WHERE NOT fresh) FROM written"
    ).format(
        table=sql.Identifier(table.name),
        columns=_format_names(columns),
        staging=staging,
        key=_format_names(key),
        sets=sql.SQL(", ").join(sets),
        changed=changed,
    )
    counts = connection.execute(statement).fetchone()
    assert counts is not None
    return UpsertCounts(counts[0], counts[1], len(rows) - counts[0] - counts[1])


def upsert_changed(
    connection: psycopg.Connection[Any],
    table: sa.Table,
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    compare: Sequence[str],
    may_exist: bool = True,
) -> UpsertCounts:
    """Insert rows or update changed ones like `upsert`, and return the counts. It is faster, since stored rows are read
    and compared first. `may_exist` is False if no row with these keys is stored; then all are inserted at once.

    Raises psycopg.errors.UniqueViolation if a row to insert is stored already, as when another process writes it
    meanwhile.
    """
    target = sql.Identifier(table.name), [table.columns[name] for name in columns]
    if not may_exist:
        copy_rows(connection, *target, rows)
        return UpsertCounts(len(rows), 0, 0)
    places = [list(columns).index(name) for name in list_key_columns(table)]
    keys = [tuple(row[place] for place in places) for row in rows]
    stored = _load_stored(connection, table, keys, compare)
    compared = [list(columns).index(name) for name in compare]
    new = [row for key, row in zip(keys, rows, strict=True) if key not in stored]
    changed = [
        row
        for key, row in zip(keys, rows, strict=True)
        if key in stored and stored[key] != tuple(row[place] for place in compared)
    ]
    if new:
        copy_rows(connection, *target, new)
    written = upsert(connection, table, columns, changed, compare=compare)
    return UpsertCounts(len(new), 0, len(rows) - len(new) - len(changed)) + written


def _load_stored(
    connection: psycopg.Connection[Any], table: sa.Table, keys: Sequence[tuple[Any, ...]], names: Sequence[str]
) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Return the values of these columns in the rows with these natural keys, by key."""
    key = list_key_columns(table)
    types = [sql.SQL(f"%b::{_type_name(table.columns[name])}[]") for name in key]
    query = sql.SQL("SELECT {columns} FROM unnest({arrays}) AS keys ({key}) JOIN {table} t USING ({key})").format(
        columns=sql.SQL(", ").join([_format_names(key), _format_names(names, prefix="t")]),
        arrays=sql.SQL(", ").join(types),
        key=_format_names(key),
        table=sql.Identifier(table.name),
    )
    # Not prepared, since a statement would keep the plan that it got while the table was empty.
    with connection.cursor(binary=True) as cursor:
        rows = cursor.execute(query, [list(part) for part in zip(*keys, strict=True)], prepare=False)
        return {row[: len(key)]: row[len(key) :] for row in rows}


def insert_missing(
    connection: psycopg.Connection[Any],
    table: sa.Table,
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
) -> int:
    """Insert those rows whose key the table does not have yet, and return their number. Rows have values in the order
    of `columns`; stored rows stay as they are. Does not commit.
    """
    if not rows:
        return 0
    staging = _fill_staging(connection, table, columns, rows)
    statement = sql.SQL(
        "INSERT INTO {table} ({columns}) SELECT {columns} FROM {staging} ORDER BY {key} ON CONFLICT DO NOTHING"
    ).format(
        table=sql.Identifier(table.name),
        columns=_format_names(columns),
        staging=staging,
        key=_format_names(list_key_columns(table)),
    )
    return connection.execute(statement).rowcount


def copy_rows(
    connection: psycopg.Connection[Any],
    target: sql.Composable,
    columns: Sequence[sa.Column[Any]],
    rows: Iterable[Sequence[Any]],
) -> None:
    """Insert rows into the table `target` by a binary COPY, with values in the order of `columns`. A row whose key is
    stored already raises psycopg.errors.UniqueViolation, and nothing is inserted. Does not commit.
    """
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(
        target, sql.SQL(", ").join(sql.Identifier(column.name) for column in columns)
    )
    with connection.cursor() as cursor:
        # Without this psycopg would choose a slow dumper in Python, for a class that is not used here.
        cursor.adapters.register_dumper(bytes, adapters.get_dumper(bytes, PyFormat.BINARY))
        with cursor.copy(statement) as copy:
            copy.set_types([_type_name(column) for column in columns])
            for row in rows:
                copy.write_row(row)


def list_key_columns(table: sa.Table) -> list[str]:
    """List the names of the columns that identify a row of a table: those of its unique constraint, else those of its
    primary key. Of several unique constraints, the first by name counts.
    """
    for constraint in sorted(table.constraints, key=lambda c: str(c.name)):
        if isinstance(constraint, sa.UniqueConstraint):
            return [column.name for column in constraint.columns]
    return [column.name for column in table.primary_key.columns]


def _fill_staging(
    connection: psycopg.Connection[Any],
    table: sa.Table,
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
) -> sql.Composable:
    staging = sql.Identifier(f"staging_{table.name}")
    connection.execute(
        sql.SQL("CREATE TEMPORARY TABLE IF NOT EXISTS {staging} AS SELECT {columns} FROM {table} WITH NO DATA").format(
            staging=staging, columns=_format_names([c.name for c in table.columns]), table=sql.Identifier(table.name)
        )
    )
    connection.execute(sql.SQL("TRUNCATE {}").format(staging))
    copy_rows(connection, staging, [table.columns[name] for name in columns], rows)
    return staging


def _format_names(columns: Sequence[str], prefix: str | None = None) -> sql.Composable:
    if prefix is None:
        return sql.SQL(", ").join(sql.Identifier(column) for column in columns)
    return sql.SQL(", ").join(sql.Identifier(prefix, column) for column in columns)


def _type_name(column: sa.Column[Any]) -> str:
    if isinstance(column.type, VECTOR):
        return "vector"
    return column.type.compile(dialect=dialect()).lower()  # type: ignore[no-untyped-call]  # SQLAlchemy leaves dialects untyped
