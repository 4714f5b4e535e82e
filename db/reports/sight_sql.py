"""A sight as a statement for `reelsieve sql`."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import JSONB

from db.reports.sight import Ground, collate_column, parse_conditions
from db.scores.present import Column
from db.selection.columns import OWN, RATING
from db.selection.conditions import column_of


def build_sql(on: Ground) -> str:
    """A statement on view sample_scores that gives the same samples in the same order, without parameters."""
    _, columns = on.scores()
    of_view = {name: _of_view(name, column) for name, column in columns.items()}
    shown = dict.fromkeys(["sample", "system", *on.sight.shown, *([on.sight.sort] if on.sight.sort else [])])
    query = sa.select(*[column_of(name, of_view).expression.label(name) for name in shown])
    query = query.select_from(sa.table("sample_scores")).where(sa.column("dataset", sa.Text) == on.sight.dataset.name)
    query = query.where(*parse_conditions(on.sight, of_view))
    if on.sight.sort is not None:
        value = collate_column(column_of(on.sight.sort, of_view).expression)
        query = query.order_by((value.desc() if on.sight.descending else value.asc()).nulls_last())
    # The other styles of parameters double a % in texts.
    dialect = postgresql.dialect(paramstyle="named")  # type: ignore[no-untyped-call]
    return str(query.order_by(sa.column("sample_id")).compile(dialect=dialect, compile_kwargs={"literal_binds": True}))


def _of_view(name: str, column: Column) -> Column:
    """A column as the view has it: own fields and ratings are parts of a column each."""
    if name == "n_characters":
        return sa.func.length(sa.column("text"), type_=sa.Integer)
    if name.startswith(RATING):
        return sa.cast(sa.column("mean_ratings", JSONB)[name.removeprefix(RATING)].astext, sa.Double)
    if name.startswith(OWN):
        return sa.cast(sa.column("own_fields", JSONB)[name.removeprefix(OWN)].astext, column.type)
    return sa.column(name, column.type)
