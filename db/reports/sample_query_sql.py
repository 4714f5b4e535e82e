"""Write a query for samples as a statement for `reelsieve sql`."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from db.reports.sample_query import QueryContext, collate_column, parse_conditions
from db.scores.sample_scores import Column
from db.selection.columns import OWN_PREFIX, RATING_PREFIX, TAG_PREFIX
from db.selection.conditions import require_column


def build_sql(context: QueryContext) -> str:
    """Return an SQL statement, without parameters, that selects the query's samples from view sample_scores in the same
    order. It gives key and system, the columns that the query shows, and the one that orders it. Raises FilterError for
    an unknown column.
    """
    _, columns = context.select_scores()
    view_columns = {name: _build_view_column(name, column) for name, column in columns.items()}
    shown = dict.fromkeys(
        ["sample", "system", *context.query.shown, *([context.query.sort] if context.query.sort else [])]
    )
    query = sa.select(*[require_column(name, view_columns).expression.label(name) for name in shown])
    query = query.select_from(sa.table("sample_scores")).where(
        sa.column("dataset", sa.Text) == context.query.dataset.name
    )
    query = query.where(*parse_conditions(context.query, view_columns))
    if context.query.sort is not None:
        value = collate_column(require_column(context.query.sort, view_columns).expression)
        query = query.order_by((value.desc() if context.query.descending else value.asc()).nulls_last())
    # The other styles of parameters double a % in texts.
    dialect = postgresql.dialect(paramstyle="named")  # type: ignore[no-untyped-call]
    return str(query.order_by(sa.column("sample_id")).compile(dialect=dialect, compile_kwargs={"literal_binds": True}))


def _build_view_column(name: str, column: Column) -> Column:
    """Return a column as the view has it: own fields and ratings are parts of JSON columns there,
    and tags are in an array."""
    if name == "n_characters":
        return sa.func.length(sa.column("text"), type_=sa.Integer)
    if name.startswith(RATING_PREFIX):
        return sa.cast(sa.column("mean_ratings", JSONB)[name.removeprefix(RATING_PREFIX)].astext, sa.Double)
    if name.startswith(TAG_PREFIX):
        return sa.literal(name.removeprefix(TAG_PREFIX), sa.Text) == sa.any_(sa.column("tags", ARRAY(sa.Text)))
    if name.startswith(OWN_PREFIX):
        return sa.cast(sa.column("own_fields", JSONB)[name.removeprefix(OWN_PREFIX)].astext, column.type)
    return sa.column(name, column.type)
