"""How the values of a column are distributed: numbers in bins of round limits, other values by frequency."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.reports.sample_query import QueryContext, parse_conditions
from db.scores.sample_scores import is_number_column
from db.selection.conditions import FilterError, require_column
from db.selection.filters import list_column_names, parse_filter

# A value of theirs is that of one sample, or of one video: there is nothing to count.
UNIQUE_COLUMNS = frozenset({"sample", "video", "text", "dataset"})
_BINS = 24


class Histogram(NamedTuple):
    """Values in bins of equal width: bin i holds those from (first + i) * step to below (first + i + 1) * step.

    counts: without the conditions on the column itself. kept: with them. low, high: the extremes.
    """

    low: float
    high: float
    step: float
    first: int
    counts: tuple[int, ...]
    kept: tuple[int, ...]


class ValueCount(NamedTuple):
    """A value, how many samples have it without the conditions on the column itself, and how many with them."""

    value: str | bool | None
    n: int
    kept: int


def has_number_values(context: QueryContext, name: str) -> bool:
    """Whether the values of a column are numbers. Raises FilterError where there is no such column."""
    return is_number_column(require_column(name, context.select_scores(None, name)[1]).expression)


def count_values(context: QueryContext, name: str) -> Histogram | list[ValueCount]:
    """The values of a column under all conditions on other columns: numbers in bins, others by frequency.

    Only the commonest values that are no numbers are listed. Raises FilterError for a column whose values are counted
    one by one in vain.
    """
    by = next((metric for metric in context.scorers if metric == name.lower()), None)
    scores, columns = context.select_scores(by, name)
    value = require_column(name, columns).expression
    if name.lower() in UNIQUE_COLUMNS:
        raise FilterError(f"each value of {name!r} is one of its own: choose a column whose values come again")
    brush = [
        parse_filter(text, columns) for text in context.query.conditions if list_column_names(text) == {name.lower()}
    ]
    shown = sa.select(value.label("value"), sa.and_(sa.true(), *brush).label("kept")).select_from(scores.from_clause)
    shown = shown.where(scores.dataset_condition, *parse_conditions(context.query, columns, but=name.lower()))
    if is_number_column(value):
        return compute_histogram(context.connection, shown, is_whole=isinstance(value.type, sa.Integer))
    found = shown.subquery()
    n, kept = sa.func.count(), sa.func.count().filter(found.c.kept)
    query = sa.select(found.c.value, n, kept).group_by(found.c.value).order_by(n.desc(), found.c.value).limit(_BINS)
    return [ValueCount(*row) for row in context.connection.execute(query)]


def compute_histogram(connection: Connection, shown: sa.Select[Any], *, is_whole: bool) -> Histogram:
    """Bins of round limits, which the database finds while it counts: the values are read once.

    shown: numbers as column `value`, and as `kept` whether a row is to be counted as kept.
    """
    values = shown.where(shown.selected_columns.value.is_not(None)).cte("values")
    low, high = sa.func.min(values.c.value), sa.func.max(values.c.value)
    # The least of 1, 2, 5 and 10 times a power of ten that makes at most so many bins.
    width = sa.cast((high - low) / float(_BINS), sa.Double)
    power = sa.func.power(10.0, sa.func.floor(sa.func.log(sa.func.nullif(width, 0.0))))
    found = sa.case(*[(width <= times * power, times * power) for times in (1.0, 2.0, 5.0)], else_=10.0 * power)
    step = sa.func.greatest(found, 1.0) if is_whole else sa.func.coalesce(found, 0.1)
    limits = sa.select(low.label("low"), high.label("high"), sa.type_coerce(step, sa.Double).label("step")).cte(
        "limits"
    )
    # A value on a limit belongs to the bin above, whatever the quotient is rounded to.
    place = sa.cast(sa.func.floor(values.c.value / limits.c.step + 1e-9), sa.BigInteger)
    query = sa.select(
        place, sa.func.count(), sa.func.count().filter(values.c.kept), *[sa.func.min(c) for c in limits.c]
    )
    rows = connection.execute(query.select_from(values.join(limits, sa.true())).group_by(place)).all()
    if not rows:
        return Histogram(math.nan, math.nan, math.nan, 0, (), ())
    by_place = {row[0]: (row[1], row[2]) for row in rows}
    filled = [by_place.get(number, (0, 0)) for number in range(min(by_place), max(by_place) + 1)]
    counts, kept = zip(*filled, strict=True)
    return Histogram(float(rows[0][3]), float(rows[0][4]), rows[0][5], min(by_place), counts, kept)
