"""Put the rows of a dump file into existing tables. The file is read as text: no statement in it is ever run."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import psycopg
from psycopg import sql
from typing_extensions import LiteralString

from db.server.backup import BackupError, build_program_error, find_program

# Lines of the script that pg_restore makes of a dump: the head of a table's rows, their end, a sequence's number.
_HEAD = re.compile(r"COPY (.+?)(?: \((.*)\))? +FROM stdin;\n")
_END = b"\\.\n"
_NUMBER = re.compile(r"SELECT pg_catalog\.setval\('public\.(\w+)', (\d+), (true|false)\);\n")
# A table of ours; its name is quoted where it is a word of SQL.
_TABLE = re.compile(r'public\."?(\w+)"?')
# The table with the schema's revision. Its row is made with the tables.
_VERSION = "alembic_version"
_BLOCK = 1 << 18
_PUBLIC = "relnamespace = 'public'::regnamespace"
_COLUMNS = f"""
SELECT c.relname, array_agg(a.attname::text) FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
WHERE {_PUBLIC} AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped GROUP BY 1
"""
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


class _TornFile(BackupError):
    """Raised for a file that ends within a table."""


def replace_rows(
    connection: psycopg.Connection[Any], file: Path, revision: str | None = None
) -> tuple[set[str], list[str]]:
    """Replace the rows of all tables in schema public by those of the dump file, and return (names of the tables
    filled, names of tables in the file that do not exist here). A table that the file does not have is emptied. No
    trigger fires, so the rows are stored as they were.

    revision: what the file must have in table alembic_version, whose row stays as it is; None for anything. Raises
    BackupError for a damaged or unexpected file, and psycopg.Error if rows do not fit into the tables. Does not commit.
    """
    tables: dict[str, list[str]] = dict(connection.execute(_COLUMNS.encode()).fetchall())
    filled, left_out = set[str](), list[str]()
    with _drop_keys_meanwhile(connection, tables), _open_script(file) as script:
        for line in script:
            text = line.decode(errors="replace")
            if number := _NUMBER.fullmatch(text):
                _set_sequence(connection, number)
            elif head := _HEAD.fullmatch(text):
                known = _TABLE.fullmatch(head[1])
                table = known[1] if known else head[1]
                if table in filled:
                    raise BackupError(f"{file} has table {table} twice: give an intact back-up")
                rows = _read_rows(file, script)
                if table not in tables:
                    left_out.append(table)
                    deque(rows, maxlen=0)
                    continue
                filled.add(table)
                if table == _VERSION:
                    _check_revision(file, b"".join(rows).decode(errors="replace").strip(), revision)
                else:
                    _copy(connection, table, _check_columns(file, table, head[2] or "", tables[table]), rows)
    return filled, left_out


@contextmanager
def _drop_keys_meanwhile(connection: psycopg.Connection[Any], tables: Collection[str]) -> Iterator[None]:
    """Empty the tables, and drop their triggers, keys and indexes until the context ends, since making them at once is
    faster.
    """
    made = connection.execute(_MADE_BEHIND.encode()).fetchall()
    names = sql.SQL(", ").join(sql.Identifier("public", table) for table in tables if table != _VERSION)
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


@contextmanager
def _open_script(file: Path) -> Iterator[IO[bytes]]:
    """Yield the script that pg_restore makes of a dump as a stream of lines. It only reads the file, without a
    server.
    """
    command = [find_program("pg_restore"), "--data-only", "--file=-", str(file)]
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors) as process,
    ):
        assert process.stdout is not None
        try:
            yield process.stdout
        except _TornFile:
            # The reason that pg_restore gives is better.
            if process.wait() == 0:
                raise
        except BaseException:
            process.kill()
            raise
        if process.wait():
            errors.seek(0)
            raise build_program_error("pg_restore", errors.read().decode(errors="replace")) from None


def _read_rows(file: Path, script: IO[bytes]) -> Iterator[bytes]:
    """Yield lines up to the end of the table's rows."""
    for line in script:
        if line == _END:
            return
        yield line
    raise _TornFile(f"{file} ends in the middle of a table: give a complete back-up")


def _copy(connection: psycopg.Connection[Any], table: str, columns: Collection[str], rows: Iterator[bytes]) -> None:
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier("public", table), names)
    with connection.cursor().copy(statement) as copy:
        block = bytearray()
        for row in rows:
            block += row
            if len(block) >= _BLOCK:
                copy.write(block)
                block = bytearray()
        copy.write(block)


def _check_columns(file: Path, table: str, listed: str, known: Collection[str]) -> list[str]:
    columns = [name.strip('"') for name in listed.split(", ")]
    for name in columns:
        if name not in known:
            raise BackupError(
                f"{file} has a column {name!r} that table {table} does not have here: give an intact back-up"
            )
    return columns


def _set_sequence(connection: psycopg.Connection[Any], match: re.Match[str]) -> None:
    """Let a sequence continue where it was; one that does not exist here is skipped."""
    query = (
        "SELECT setval(oid, %s::numeric::bigint, %s) FROM pg_class WHERE relname = %s AND relkind = 'S' AND " + _PUBLIC
    )
    connection.execute(query.encode(), [match[2], match[3] == "true", match[1]])


def _check_revision(file: Path, stored: str, revision: str | None) -> None:
    if revision is not None and stored != revision:
        raise BackupError(f"{file} has schema {stored}, but backup.json names {revision}: give an intact back-up")
