"""Count the values of a column over a query's samples: numbers in bins with round limits, other values by frequency."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.reports.sample_query import QueryContext, parse_conditions
from db.scores.sample_scores import is_number_column
from db.selection.conditions import FilterError, require_column
from db.selection.filters import list_column_names, parse_filter
from db.server.arrays import build_id_condition

# A value of theirs is that of one sample, or of one video: there is nothing to count.
UNIQUE_COLUMNS = frozenset({"sample", "video", "text", "dataset"})
_BINS = 24


class Histogram(NamedTuple):
    """Counts of numbers in bins of equal width `step`: bin i begins at (first + i) * step, and a value on a limit is in
    the bin above. `counts` has all rows, and `kept` only those with `kept` true in the query. `low` and `high` are the
    lowest and the highest value.
    """

    low: float
    high: float
    step: float
    first: int
    counts: tuple[int, ...]
    kept: tuple[int, ...]


class ValueCount(NamedTuple):
    """A value of a column, with the number of samples that have it. `n` counts those that meet the query's conditions
    on other columns, and `kept` those that meet all its conditions. `value` is None for samples without a value.
    """

    value: str | bool | None
    n: int
    kept: int


def has_number_values(context: QueryContext, name: str) -> bool:
    """Whether the column `name` holds numbers; upper and lower case count as equal. Raises FilterError if there is no
    such column, and SelectionError for an unknown own field.
    """
    return is_number_column(require_column(name, context.select_scores(None, name)[1]).expression)


def count_values(context: QueryContext, name: str) -> Histogram | list[ValueCount]:
    """Count how often the values of column `name` occur: a histogram of numbers, or the 24 most frequent other values,
    most frequent first. Samples that meet the query's conditions on other columns count; `kept` has those that meet
    all. Raises FilterError for an unknown column, and for one whose values are unique, such as `sample`.

    Raises SelectionError for an unknown own field.
    """
    by = next((metric for metric in context.scorers if metric == name.lower()), None)
    scores, columns = context.select_scores(by, name)
    value = require_column(name, columns).expression
    if name.lower() in UNIQUE_COLUMNS:
        raise FilterError(f"all values of {name!r} are unique, so there is nothing to count: choose another column")
    brush = [
        parse_filter(text, columns) for text in context.query.conditions if list_column_names(text) == {name.lower()}
    ]
    shown = sa.select(value.label("value"), sa.and_(sa.true(), *brush).label("kept")).select_from(scores.from_clause)
    shown = shown.where(scores.dataset_condition, *parse_conditions(context.query, columns, but=name.lower()))
    if is_number_column(value):
        return load_histogram(context.connection, shown, is_whole=isinstance(value.type, sa.Integer))
    values = shown.subquery()
    n, kept = sa.func.count(), sa.func.count().filter(values.c.kept)
    query = sa.select(values.c.value, n, kept).group_by(values.c.value).order_by(n.desc(), values.c.value).limit(_BINS)
    return [ValueCount(*row) for row in context.connection.execute(query)]


def load_column_values(context: QueryContext, name: str, sample_ids: Sequence[int]) -> list[tuple[int, Any, bool]]:
    """Load (sample id, value of column `name`, whether it meets all conditions) of samples of the query's dataset, in
    any order; the value is None for a sample without one. Raises FilterError for an unknown column or a condition that
    is not allowed, and SelectionError for an unknown own field.
    """
    scores, columns = context.select_scores(None, name)
    is_kept = sa.func.coalesce(sa.and_(sa.true(), *parse_conditions(context.query, columns)), False)
    value, sample_id = require_column(name, columns).expression, scores.columns["sample_id"]
    query = sa.select(sample_id, value, is_kept).select_from(scores.from_clause)
    asked = query.where(scores.dataset_condition, build_id_condition(sample_id, sample_ids))
    return [(row[0], row[1], row[2]) for row in context.connection.execute(asked)]


def load_histogram(connection: Connection, shown: sa.Select[Any], *, is_whole: bool) -> Histogram:
    """Return counts of the numbers that a query gives, in at most 25 bins with round limits. Without values the counts
    are empty and the limits NaN. `shown` is a query with the columns `value` and `kept`, a boolean; `is_whole` is
    whether the values are whole numbers, so that no bin is narrower than 1.

    The database computes the limits while it counts, so it reads the values once.
    """
    values = shown.where(shown.selected_columns.value.is_not(None)).cte("values")
    low, high = sa.func.min(values.c.value), sa.func.max(values.c.value)
    # The smallest of 1, 2, 5 and 10 times a power of ten that makes at most so many bins.
    width = sa.cast((high - low) / float(_BINS), sa.Double)
    power = sa.func.power(10.0, sa.func.floor(sa.func.log(sa.func.nullif(width, 0.0))))
    round_width = sa.case(*[(width <= times * power, times * power) for times in (1.0, 2.0, 5.0)], else_=10.0 * power)
    step = sa.func.greatest(round_width, 1.0) if is_whole else sa.func.coalesce(round_width, 0.1)
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
