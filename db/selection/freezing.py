"""Ranks samples and freezes the best of them. All statements of one freezing see one snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import aggregate_order_by, array
from sqlalchemy.engine import Connection
from sqlalchemy.ext.compiler import compiles

from db.schema import selection_item
from db.scores.present import Column, PresentScores
from db.selection.ties import ALL, SizeCut

# What a frozen row keeps of a sample and its video, by the names of the columns.
FROZEN = ("sample", "video", "kind", "system", "text", "question", "answer", "uri", "content_sha256")
_PICKED = sa.table("picked", sa.column("rank"), sa.column("sample_id"), sa.column("value"))
_CHOSEN = sa.table("chosen", *[sa.column(c.name, c.type) for c in selection_item.columns if c.name != "selection_id"])


class Size(NamedTuple):
    """How many samples are eligible, how many of them are kept, and the value of the worst one kept.

    n_tied: how many of those kept have the value at which the size asked for ends, summed over the strata; n_tied_left:
    how many with this value are left. Both are None where no value decides, as in a random draw.
    """

    n_eligible: int
    n: int
    cutoff: float
    n_tied: int | None
    n_tied_left: int | None


def kept(share: float, n: int) -> int:
    """How many of n rows a share keeps: floor(share * n), at least 1. The share is meant as written in decimals.

    >>> kept(0.125, 363), kept(0.1, 30), kept(0.01, 5)
    (45, 3, 1)
    """
    return max(1, int(Fraction(str(share)) * n))


def cut_all(connection: Connection, scores: PresentScores, by: str, keep: float, n_eligible: int) -> SizeCut | None:
    """Where a share ends of so many samples, all that have a score `by`; None of none."""
    if not n_eligible:
        return None
    n, value = kept(keep, n_eligible), scores.columns[by]
    eligible = sa.select(value).select_from(scores.rows).where(scores.of_dataset, value.is_not(None))
    worst = eligible.order_by(value.desc().nulls_last()).offset(n - 1).limit(1)
    return _cut(connection, scores, value, None, n, connection.execute(worst).scalar_one())


def cut_some(
    connection: Connection, scores: PresentScores, value: Column, keep: float, condition: sa.ColumnElement[bool] | None
) -> tuple[int, SizeCut] | None:
    """How many samples have a value and fulfil the condition, and where a share of them ends; None of none."""
    place = sa.func.greatest(1, sa.func.floor(sa.literal(Decimal(str(keep)), sa.Numeric) * sa.func.count()))
    in_order = sa.type_coerce(sa.func.array_agg(aggregate_order_by(value, value.desc())), sa.ARRAY(sa.Double))
    query = sa.select(sa.func.count(), in_order[sa.cast(place, sa.Integer)]).select_from(scores.rows)
    query = query.where(scores.of_dataset, value.is_not(None))
    n_eligible, worst = connection.execute(query if condition is None else query.where(condition)).one()
    if not n_eligible:
        return None
    return n_eligible, _cut(connection, scores, value, condition, kept(keep, n_eligible), worst)


def _cut(
    connection: Connection,
    scores: PresentScores,
    value: Column,
    condition: sa.ColumnElement[bool] | None,
    n: int,
    worst: float,
) -> SizeCut:
    """The cut whose value is that of the n-th best sample."""
    is_above, is_at = sa.func.count().filter(value > worst), sa.func.count().filter(value == worst)
    query = sa.select(is_above, is_at).select_from(scores.rows).where(scores.of_dataset, value >= worst)
    n_above, n_at = connection.execute(query if condition is None else query.where(condition)).one()
    return SizeCut(ALL, worst, n, n_above, n_at)


def choose_best(
    connection: Connection,
    scores: PresentScores,
    value: Column,
    size: Size,
    condition: sa.ColumnElement[bool] | None,
    metrics: Sequence[str],
) -> str:
    """Put the best rows into the temporary table `chosen`; the hash over their kinds, keys and values.

    Equal values are ranked by kind and key.
    """
    columns = scores.columns
    order = (value.desc(), columns["kind"], sa.collate(columns["sample"], "C"))
    rank = sa.func.row_number().over(order_by=order)
    best = _frozen(scores, metrics, rank, value).select_from(scores.rows)
    best = best.where(scores.of_dataset, value >= size.cutoff)
    if condition is not None:
        best = best.where(condition)
    ranked = best.subquery("ranked")
    return _choose(connection, sa.select(ranked).where(ranked.c.rank <= size.n))


def choose_these(
    connection: Connection,
    scores: PresentScores,
    sample_ids: Sequence[int],
    values: Sequence[float],
    metrics: Sequence[str],
) -> str:
    """Put these samples, the first of rank 1, into the temporary table `chosen`; the hash."""
    connection.exec_driver_sql(
        "CREATE TEMPORARY TABLE picked (rank bigint, sample_id bigint, value double precision) ON COMMIT DROP"
    )
    driver: Any = connection.connection.driver_connection
    with driver.cursor().copy("COPY picked FROM STDIN") as copy:
        for rank, (sample_id, value) in enumerate(zip(sample_ids, values, strict=True), start=1):
            copy.write_row((rank, sample_id, value))
    connection.exec_driver_sql("ANALYZE picked")
    joined = scores.rows.join(_PICKED, _PICKED.c.sample_id == scores.columns["sample_id"])
    rows = _frozen(scores, metrics, _PICKED.c.rank, _PICKED.c.value).select_from(joined)
    score_hash = _choose(connection, rows.where(scores.of_dataset))
    connection.exec_driver_sql("DROP TABLE picked")
    return score_hash


def _frozen(scores: PresentScores, metrics: Sequence[str], rank: Any, value: Any) -> sa.Select[Any]:
    """What is frozen of rows, with a rank and a value."""
    columns = scores.columns
    return sa.select(
        rank.label("rank"),
        columns["sample_id"].label("sample_id"),
        value.label("value"),
        *[columns[name].label(name) for name in FROZEN],
        array([columns[metric] for metric in metrics]).label("scores"),
        array([scores.is_scored[metric] for metric in metrics]).label("is_scored"),
    )


def _choose(connection: Connection, rows: sa.Select[Any]) -> str:
    connection.execute(_TemporaryTable(_CHOSEN.name, rows))
    of_hash = sa.func.concat_ws("\t", _CHOSEN.c.kind, _CHOSEN.c.sample, sa.cast(_CHOSEN.c.value, sa.Text)) + "\n"
    lines = sa.func.string_agg(sa.func.convert_to(of_hash, "UTF8"), aggregate_order_by(sa.literal(b""), _CHOSEN.c.rank))
    score_hash: str = connection.execute(sa.select(sa.func.encode(sa.func.sha256(lines), "hex"))).scalar_one()
    return score_hash


def freeze_chosen(connection: Connection, selection_id: int) -> None:
    """Copy the chosen rows to the selection."""
    names = [column.name for column in _CHOSEN.columns]
    rows = sa.select(sa.literal(selection_id), *_CHOSEN.columns)
    connection.execute(sa.insert(selection_item).from_select(["selection_id", *names], rows))


def forget_chosen(connection: Connection) -> None:
    """Drop the temporary table."""
    connection.exec_driver_sql(f"DROP TABLE {_CHOSEN.name}")


class _TemporaryTable(sa.Executable, sa.ClauseElement):
    """CREATE TEMPORARY TABLE .. AS a query, with parameters. SQLAlchemy's own writes values into the statement."""

    inherit_cache = False

    def __init__(self, name: str, query: sa.Select[Any]) -> None:
        self.name = name
        self.query = query


@compiles(_TemporaryTable)
def _compile(element: _TemporaryTable, compiler: Any, **options: Any) -> str:
    return f"CREATE TEMPORARY TABLE {element.name} ON COMMIT DROP AS {compiler.process(element.query, **options)}"
