"""The rows of a database in a ZIP file: of every table what COPY prints, and only COPY .. FROM STDIN ever reads it, so
that no statement in a file is run.
"""

from __future__ import annotations

import io
import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import psycopg
from psycopg import sql
from sqlalchemy.engine import Connection
from typing_extensions import LiteralString

# The member of a file with the columns of its tables and the numbers of its sequences, and the most bytes it may have.
_CONTENT = "content.json"
_CONTENT_BYTES = 1 << 24
# Faster than zlib's usual 6, for a somewhat larger file.
_COMPRESSION = 1
# The table with the schema's revision. Its row is made with the tables.
_VERSION = "alembic_version"
_BLOCK = 1 << 18
# By these, numbers and times are printed in full and mean the same on any server, no row is hidden, time has no limit.
_SETTINGS = {
    **dict.fromkeys(("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"), "0"),
    "client_encoding": "UTF8",
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "extra_float_digits": "3",
    "row_security": "off",
}
_PUBLIC = "relnamespace = 'public'::regnamespace"
_COLUMNS = f"""
SELECT c.relname, array_agg(a.attname::text ORDER BY a.attnum) FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
WHERE {_PUBLIC} AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped
  AND a.attgenerated = '' GROUP BY 1 ORDER BY 1
"""
# Those that no row has used yet have no last value.
_SEQUENCES = "SELECT sequencename, last_value FROM pg_sequences WHERE schemaname = 'public'"
# Constraints and indexes that are made anew after the rows: statements that drop them, in this order, and those that
# make them. Foreign keys need the others.
_MADE_BEHIND = f"""
SELECT format('ALTER TABLE public.%I DROP CONSTRAINT %I', relname, conname),
  format('ALTER TABLE public.%I ADD CONSTRAINT %I ', relname, conname) || pg_get_constraintdef(o.oid), contype <> 'f'
FROM pg_constraint o JOIN pg_class c ON c.oid = conrelid
WHERE {_PUBLIC} AND contype IN ('f', 'p', 'u')
UNION ALL
SELECT format('DROP INDEX public.%I', relname), pg_get_indexdef(c.oid), true
FROM pg_index i JOIN pg_class c ON c.oid = indexrelid
WHERE {_PUBLIC} AND NOT EXISTS (SELECT 1 FROM pg_constraint WHERE conindid = c.oid)
ORDER BY 3
"""


class BackupError(ValueError):
    """Raised for a back-up that cannot be written, read or restored; the message gives the reason and the remedy."""

    plain = True


def write_rows(connection: psycopg.Connection[Any], file: Path) -> None:
    """Write the rows of all tables in schema public to a new file, as of one moment, in a transaction that the caller
    ends; one that the connection is in is rolled back. Raises psycopg.Error, and OSError if the file cannot be written.
    """
    names = _format_tables(_prepare(connection))
    connection.rollback()
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    if names.as_string():
        # Before the first query, which fixes the moment: a table that is rewritten after it would seem empty.
        connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(names))
    tables = _prepare(connection)
    with ZipFile(file, "x", ZIP_DEFLATED, compresslevel=_COMPRESSION) as archive:
        for table, columns in tables.items():
            with (
                archive.open(table, "w", force_zip64=True) as member,
                io.BufferedWriter(member, _BLOCK) as rows,
                connection.cursor().copy(_format_copy(table, columns, "TO STDOUT")) as copy,
            ):
                for row in copy:
                    rows.write(row)
        sequences = dict(connection.execute(_SEQUENCES.encode()).fetchall())
        archive.writestr(_CONTENT, json.dumps({"tables": tables, "sequences": sequences}))


def replace_rows(opened: Connection, file: Path, revision: str | None = None) -> tuple[set[str], list[str]]:
    """Replace the rows of all tables in schema public by those of a file, and return (names of the tables filled, names
    of tables in the file that do not exist here). A table that the file does not have is emptied. No trigger fires, so
    the rows are stored as they were.

    revision: what the file must have in table alembic_version, whose row stays as it is; None for anything. Raises
    BackupError for a damaged or unexpected file, and psycopg.Error if rows do not fit into the tables. Does not commit.
    """
    connection: psycopg.Connection[Any] = opened.connection.driver_connection  # type: ignore[assignment]  # psycopg's
    known = _prepare(connection)
    filled, left_out = set[str](), list[str]()
    with _report_damage(file):
        archive = ZipFile(file)
    with archive, _empty_tables_without_keys(connection, known):
        tables, sequences = _read_content(archive, file)
        for table, columns in tables.items():
            if table not in known:
                left_out.append(table if table.isprintable() else ascii(table))
                continue
            filled.add(table)
            rows = _read_member(archive, file, table)
            if table == _VERSION:
                _check_revision(file, next(rows, b"").decode(errors="replace").strip(), revision)
                continue
            for name in set(columns) - set(known[table]):
                raise BackupError(
                    f"{file} has a column {name!r} that table {table} does not have here: give an intact back-up"
                )
            with connection.cursor().copy(_format_copy(table, columns, "FROM STDIN")) as copy:
                for block in rows:
                    copy.write(block)
        for name, _ in connection.execute(_SEQUENCES.encode()).fetchall():
            if (number := sequences.get(name)) is not None:
                connection.execute("SELECT setval(format('public.%%I', %s::text)::regclass, %s)", [name, number])
    return filled, left_out


def _prepare(connection: psycopg.Connection[Any]) -> dict[str, list[str]]:
    """Set what COPY depends on until the transaction ends, and return the columns of every table in schema public."""
    for name, value in _SETTINGS.items():
        connection.execute("SELECT set_config(%s, %s, true)", [name, value])
    return dict(connection.execute(_COLUMNS.encode()).fetchall())


def _format_tables(tables: Collection[str]) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier("public", table) for table in tables)


def _format_copy(table: str, columns: Collection[str], direction: LiteralString) -> sql.Composed:
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    return sql.SQL("COPY {} ({}) {}").format(sql.Identifier("public", table), names, sql.SQL(direction))


@contextmanager
def _report_damage(file: Path) -> Iterator[None]:
    """Raise BackupError for whatever goes wrong: a file that somebody changed makes its readers fail in any way."""
    try:
        yield
    except Exception as error:
        raise BackupError(f"{file} is damaged: give an intact back-up") from error


def _read_content(archive: ZipFile, file: Path) -> tuple[dict[str, list[str]], dict[str, int]]:
    """Return (columns by table, numbers by sequence)."""
    with _report_damage(file), archive.open(_CONTENT) as member:
        content = json.loads(member.read(_CONTENT_BYTES))
        tables = {str(table): [str(name) for name in columns] for table, columns in content["tables"].items()}
        return tables, {name: int(number) for name, number in content["sequences"].items() if number is not None}


def _read_member(archive: ZipFile, file: Path, name: str) -> Iterator[bytes]:
    with _report_damage(file), archive.open(name) as member:
        while block := member.read(_BLOCK):
            yield block


@contextmanager
def _empty_tables_without_keys(connection: psycopg.Connection[Any], tables: Collection[str]) -> Iterator[None]:
    """Empty the tables, and drop their triggers, keys and indexes until the context ends, since making them at once is
    faster.
    """
    made = connection.execute(_MADE_BEHIND.encode()).fetchall()
    names = _format_tables([table for table in tables if table != _VERSION])
    _set_triggers(connection, tables, "DISABLE")
    for drop, _make, _ in made:
        connection.execute(drop)
    if names.as_string():
        connection.execute(sql.SQL("TRUNCATE {}").format(names))
    yield
    for _drop, make, _ in reversed(made):
        connection.execute(make)
    _set_triggers(connection, tables, "ENABLE")


def _set_triggers(connection: psycopg.Connection[Any], tables: Collection[str], state: LiteralString) -> None:
    for table in tables:
        query = sql.SQL(f"ALTER TABLE {{}} {state} TRIGGER USER").format(sql.Identifier("public", table))
        connection.execute(query)


def _check_revision(file: Path, stored: str, revision: str | None) -> None:
    if revision is not None and stored != revision:
        raise BackupError(f"{file} has schema {stored}, but backup.json names {revision}: give an intact back-up")
