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
    """Return all comments as {table or view: {column: comment}}; the comment on the table itself has the key None. Read
    once.
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
    """Return the comment on a table or view, or on one of its columns; None if the file has none.

    metrics: names that columns such as <metric>_status may begin with.

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
    """Set the `comment` of every SQLAlchemy table and column in the metadata, so that migrations are compared with it;
    no database is touched.
    """
    for table in metadata.tables.values():
        table.comment = find_comment(table.name)
        for column in table.columns:
            column.comment = find_comment(table.name, column.name)


def store_comments(connection: Connection, metrics: Iterable[str]) -> None:
    """Write the comments on all tables and views of this database to Postgres; tables of other programs keep theirs."""
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
