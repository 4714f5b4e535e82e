"""Comments in Postgres that explain every table, view and column, from the file db/sql/comments.txt.

They hold no data, so they are written anew with the views rather than migrated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

import sqlalchemy as sa
from psycopg import sql
from sqlalchemy.engine import Connection

from db.sql import FOLDER

COMMENTS_FILE = FOLDER / "comments.txt"
# The section of columns that mean the same in all tables and views.
ANY_RELATION = "*"
METRIC_PLACEHOLDER = "<metric>"
Sections = Mapping[str, Mapping[str | None, str]]

_RELATIONS = """
SELECT c.relname AS name,
       c.relkind = 'v' AS is_view,
       ARRAY(SELECT a.attname::text FROM pg_attribute a
             WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum) AS columns
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'public'
  AND c.relkind IN ('r', 'v')
ORDER BY 1
"""


@lru_cache(maxsize=1)
def read_sections() -> Sections:
    """Return the comments in db/sql/comments.txt as {table or view: {column: comment}}; key None has the comment on the
    table itself. Section "*" has columns that mean the same in all tables, and a name such as "<metric>_status" is for
    every metric. The file is read once per process.
    """
    comments: dict[str, dict[str | None, str]] = {}
    relation = ""
    for line in COMMENTS_FILE.read_text(encoding="utf-8").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, _, meaning = line.strip().partition(": ")
        if line.startswith(" "):
            comments[relation][name] = meaning
        else:
            relation = name
            comments[relation] = {None: meaning}
    return comments


def find_comment(relation: str, column: str | None = None, metrics: Iterable[str] = ()) -> str | None:
    """Return the comment on a table or view (`relation`), or on one of its columns; None if db/sql/comments.txt has
    none. A column without a comment of its own gets the one of section "*". `metrics` are names that may replace
    "<metric>" in the names of columns.

    >>> find_comment("sample", "shard") == find_comment("video", "shard")
    True
    >>> find_comment("sample_scores", "vcs_status", ["vcs"])
    'ok, stale, or why there is no value, such as no_reference; NULL where the sample is not scored yet.'
    """
    section = read_sections().get(relation, {})
    if column is None or column in section:
        return section.get(column)
    for metric in metrics:
        if column == metric or column.startswith(f"{metric}_"):
            template = section.get(METRIC_PLACEHOLDER + column.removeprefix(metric))
            if template is not None:
                return template.replace(METRIC_PLACEHOLDER, metric)
    return read_sections()[ANY_RELATION].get(column)


def set_comments(metadata: sa.MetaData) -> None:
    """Set the attribute `comment` of every SQLAlchemy table and column in the metadata to its comment in
    db/sql/comments.txt, or None. No database is touched; a comparison of a database with the metadata then covers
    comments.
    """
    for table in metadata.tables.values():
        table.comment = find_comment(table.name)
        for column in table.columns:
            column.comment = find_comment(table.name, column.name)


def store_comments(connection: Connection, metrics: Iterable[str]) -> None:
    """Write the comments of db/sql/comments.txt on tables, views and columns to the database. Tables that the file does
    not name keep theirs. `metrics` are the names that replace "<metric>" in the names of columns.
    """
    chosen = list(metrics)
    statements = []
    for row in connection.exec_driver_sql(_RELATIONS):
        if row.name not in read_sections():
            continue
        named = sql.Identifier("public", row.name)
        kind = sql.SQL("VIEW" if row.is_view else "TABLE")
        statements.append(sql.SQL("COMMENT ON {} {} IS {}").format(kind, named, find_comment(row.name)))
        statements += [
            sql.SQL("COMMENT ON COLUMN {}.{} IS {}").format(
                named, sql.Identifier(column), find_comment(row.name, column, chosen)
            )
            for column in row.columns
        ]
    raw = connection.connection.driver_connection
    raw.execute(sql.SQL(";").join(statements))  # type: ignore[union-attr]  # the engine is psycopg
