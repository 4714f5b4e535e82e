"""The samples of a dataset as somebody looks through them: pages in the order of a column, counts, histograms, SQL."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.engine import Connection

from db.manifest.datasets import Dataset
from db.schema import rating, sample, shard, video
from db.scores.present import (
    ActiveScorer,
    Column,
    PresentScores,
    active_scorers,
    is_number,
    known_scores,
    prepare_for_joins,
    present_scores,
)
from db.selection.columns import OWN, RATING, own_columns
from db.selection.conditions import FilterError, column_of
from db.selection.filters import names_in, parse_filter

# Of a filtered dataset it is enough to know whether there are more.
MOST_COUNTED = 10_000
TIMEOUT_S = 30
NO_PLACE = "the address names no place where a page could begin: open the first page"
# Of own fields, those of so many samples are suggested.
_LOOKED_THROUGH = 1000
# A value of theirs is that of one sample, or of one video: there is nothing to count.
UNCOUNTED = frozenset({"sample", "video", "text", "dataset"})
_BINS = 24
_ALWAYS = ("sample", "kind", "system", "video", "text", "question", "answer", "video_status")


@dataclass(frozen=True, slots=True)
class Sight:
    """What somebody looks at: the samples that pass all conditions of the filter language, in the order of a column.

    sort: None for the order of ingest. shown: further columns that are read.
    """

    dataset: Dataset
    conditions: tuple[str, ...] = ()
    sort: str | None = None
    descending: bool = True
    shown: tuple[str, ...] = ()

    @property
    def names(self) -> set[str]:
        """Every column that it mentions."""
        sort = [self.sort] if self.sort else []
        return {*self.shown, *sort, *(name for text in self.conditions for name in names_in(text))}


class Place(NamedTuple):
    """Where a page ends: the value of its last sample in the column of the order, and the id of this sample."""

    value: Any
    sample_id: int


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


@dataclass(frozen=True, slots=True)
class Ground:
    """What the statements about a sight share: the connection's transaction, all scores and their scorers.

    metrics: with the simple scores.
    """

    connection: Connection
    sight: Sight
    metrics: tuple[str, ...]
    scorers: Mapping[str, ActiveScorer]
    _known: dict[Any, tuple[PresentScores, dict[str, Column]]] = field(default_factory=dict, compare=False)

    def scores(self, by: str | None = None, *also: str) -> tuple[PresentScores, dict[str, Column]]:
        """The samples, those with a value by metric `by` alone where it has a scorer; and the columns by name.

        also: own fields and ratings that are wanted beside those of the sight.
        """
        # To know the types of own fields costs a look at all samples.
        if (by, also) not in self._known:
            scores = present_scores(self.sight.dataset, self.metrics, self.scorers, by)
            own = own_columns(self.connection, self.sight.dataset, {*self.sight.names, *also}, scores)
            self._known[by, also] = scores, {**scores.shown, **own}
        return self._known[by, also]


def ground(connection: Connection, sight: Sight) -> Ground:
    """Look up what a sight rests on. No statement of the transaction takes longer than TIMEOUT_S from now on."""
    connection.exec_driver_sql(f"SET LOCAL statement_timeout = '{TIMEOUT_S}s'")
    prepare_for_joins(connection)
    names = tuple(known_scores(connection, sight.dataset))
    return Ground(connection, sight, names, active_scorers(connection, sight.dataset))


def suggested_columns(on: Ground) -> list[str]:
    """The columns that conditions may name; of own fields those that the first samples have."""
    _, columns = on.scores()
    values = {"dataset_id": on.sight.dataset.dataset_id, "most": _LOOKED_THROUGH}
    fields = sa.text(
        "SELECT DISTINCT jsonb_object_keys(extra) FROM (SELECT extra FROM sample WHERE dataset_id = :dataset_id "
        "LIMIT :most) s WHERE jsonb_typeof(extra) = 'object'"
    )
    aspects = sa.select(rating.c.aspect).join(sample).where(sample.c.dataset_id == values["dataset_id"]).distinct()
    own = [f"{OWN}{name}" for name in on.connection.scalars(fields, values)]
    own += [f"{RATING}{name}" for name in on.connection.scalars(aspects)]
    return sorted({*columns, *own} - {"dataset"})


# Pages.


def page_of(on: Ground, after: Place | None, n: int) -> tuple[list[dict[str, Any]], Place | None]:
    """The n samples that follow a place, with their columns, and the place where the next page begins, if any.

    Samples without a value in the column of the order come last. Raises FilterError for what no condition may say, and
    SelectionError for an own field that is unknown.
    """
    places = _places(on, after, n + 1)
    rows = rows_of(on, [place.sample_id for place in places[:n]])
    return rows, places[n - 1] if len(places) > n else None


def _places(on: Ground, after: Place | None, n: int) -> list[Place]:
    """The samples of a page by value and id; by ids alone the rows that are read stay few."""
    sight = on.sight
    if sight.sort is None:
        return _without_value(on, None, after, n)
    if after is not None and after.value is None:
        return _without_value(on, sight.sort, after, n)
    found = _with_value(on, sight.sort, after, n)
    if len(found) < n and _passes_null(on, sight.sort):
        found += _without_value(on, sight.sort, None, n - len(found))
    return found


def _passes_null(on: Ground, name: str) -> bool:
    """Whether conditions on this column alone let a sample without a value pass: none need be looked for otherwise."""
    null = {name: sa.cast(sa.null(), column_of(name, on.scores()[1]).expression.type)}
    alone = [parse_filter(text, null) for text in on.sight.conditions if names_in(text) == {name.lower()}]
    return bool(on.connection.scalar(sa.select(sa.and_(sa.true(), *alone))))


def _with_value(on: Ground, sort: str, after: Place | None, n: int) -> list[Place]:
    by = next((metric for metric in on.scorers if metric == sort.lower()), None)
    scores, columns = on.scores(by)
    value, sample_id = _sortable(column_of(sort, columns).expression), scores.columns["sample_id"]
    query = sa.select(value, sample_id).select_from(scores.rows).where(scores.of_dataset, value.is_not(None))
    if after is not None:
        kinds = (int, float) if is_number(value) else (value.type.python_type,)
        if type(after.value) not in kinds:
            raise FilterError(NO_PLACE)
        # A number of the address may be none that the column can hold: it is compared as what it is.
        last = sa.literal(_to_double(after.value)) if is_number(value) else sa.literal(after.value, value.type)
        is_beyond, is_no_better = (
            (value < last, value <= last) if on.sight.descending else (value > last, value >= last)
        )
        # The first condition is what an index can begin at.
        query = query.where(is_no_better, sa.or_(is_beyond, sample_id > after.sample_id))
    # The direction in which an index has them; there are no nulls.
    order = value.desc().nulls_last() if on.sight.descending else value.asc().nulls_first()
    query = query.where(*_conditions(on.sight, columns)).order_by(order, sample_id).limit(n)
    return [Place(*row) for row in on.connection.execute(query)]


def _to_double(value: Any) -> float:
    """A number as Postgres compares it. Raises FilterError where it is too great."""
    try:
        return float(value)
    except OverflowError as error:
        raise FilterError(NO_PLACE) from error


def _without_value(on: Ground, sort: str | None, after: Place | None, n: int) -> list[Place]:
    """Samples in the order of ingest: without a value in a column, or all."""
    scores, columns = on.scores()
    sample_id = scores.columns["sample_id"]
    query = sa.select(sample_id).select_from(scores.rows).where(scores.of_dataset, *_conditions(on.sight, columns))
    if sort is not None:
        query = query.where(column_of(sort, columns).expression.is_(None))
    if after is not None:
        query = query.where(sample_id > after.sample_id)
    return [Place(None, found) for found in on.connection.scalars(query.order_by(sample_id).limit(n))]


def _sortable(value: Column) -> Column:
    """The column with the order of bytes, where it is text: the same everywhere, and that of `<`."""
    return sa.collate(value, "C") if isinstance(value.type, sa.Text) else value


def _conditions(sight: Sight, columns: Mapping[str, Column], but: str | None = None) -> list[sa.ColumnElement[bool]]:
    """All conditions, but for those on one column alone."""
    return [parse_filter(text, columns) for text in sight.conditions if but is None or names_in(text) != {but}]


def rows_of(on: Ground, sample_ids: Sequence[int]) -> list[dict[str, Any]]:
    """The samples of these ids in their order, each with id, key, texts, video and the columns that the sight shows."""
    scores, columns = on.scores()
    wanted: dict[str, Any] = {name: scores.columns[name] for name in ("sample_id", *_ALWAYS)}
    wanted |= {"video_id": sample.c.video_id, "content_sha256": video.c.content_sha256}
    wanted |= {name: column_of(name, columns).expression for name in on.sight.shown}
    wanted |= {f"{name}_status": columns[f"{name}_status"] for name in on.sight.shown if name in on.metrics}
    query = sa.select(*[column.label(f"c{place}") for place, column in enumerate(wanted.values())])
    query = query.select_from(scores.rows).where(scores.of_dataset, sample.c.sample_id.in_(list(sample_ids)))
    rows = [dict(zip(wanted, row, strict=True)) for row in on.connection.execute(query)]
    position = {sample_id: place for place, sample_id in enumerate(sample_ids)}
    return sorted(rows, key=lambda row: position[row["sample_id"]])


def ids_of_video(on: Ground, video_id: int) -> list[int]:
    """The samples of a video, by kind and system."""
    own = sa.and_(sample.c.dataset_id == on.sight.dataset.dataset_id, sample.c.video_id == video_id)
    query = sa.select(sample.c.sample_id).where(own).order_by(sample.c.kind, sample.c.system, sample.c.sample_id)
    return list(on.connection.scalars(query))


def count(on: Ground) -> int:
    """How many samples there are; where a condition holds some back, at most MOST_COUNTED + 1."""
    sight = on.sight
    if not sight.conditions:
        of_dataset = shard.c.dataset_id == sight.dataset.dataset_id
        total = sa.select(sa.func.coalesce(sa.func.sum(shard.c.n_samples), 0)).where(of_dataset)
        return int(on.connection.execute(total).scalar_one())
    scores, columns = on.scores()
    some = sa.select(sa.literal(1)).select_from(scores.rows).where(scores.of_dataset, *_conditions(sight, columns))
    counted = sa.select(sa.func.count()).select_from(some.limit(MOST_COUNTED + 1).subquery())
    return int(on.connection.execute(counted).scalar_one())


# Histograms.


def has_numbers(on: Ground, name: str) -> bool:
    """Whether the values of a column are numbers. Raises FilterError where there is no such column."""
    return is_number(column_of(name, on.scores(None, name)[1]).expression)


def distribution_of(on: Ground, name: str) -> Histogram | list[ValueCount]:
    """The values of a column under all conditions on other columns: numbers in bins, others by frequency.

    Only the commonest values that are no numbers are listed. Raises FilterError for a column whose values are counted
    one by one in vain.
    """
    by = next((metric for metric in on.scorers if metric == name.lower()), None)
    scores, columns = on.scores(by, name)
    value = column_of(name, columns).expression
    if name.lower() in UNCOUNTED:
        raise FilterError(f"each value of {name!r} is one of its own: choose a column whose values come again")
    brush = [parse_filter(text, columns) for text in on.sight.conditions if names_in(text) == {name.lower()}]
    shown = sa.select(value.label("value"), sa.and_(sa.true(), *brush).label("kept")).select_from(scores.rows)
    shown = shown.where(scores.of_dataset, *_conditions(on.sight, columns, but=name.lower()))
    if is_number(value):
        return binned(on.connection, shown, is_whole=isinstance(value.type, sa.Integer))
    found = shown.subquery()
    n, kept = sa.func.count(), sa.func.count().filter(found.c.kept)
    query = sa.select(found.c.value, n, kept).group_by(found.c.value).order_by(n.desc(), found.c.value).limit(_BINS)
    return [ValueCount(*row) for row in on.connection.execute(query)]


def binned(connection: Connection, shown: sa.Select[Any], *, is_whole: bool) -> Histogram:
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


# The same in SQL, for `reelsieve sql`.


def as_sql(on: Ground) -> str:
    """A statement on view sample_scores that gives the same samples in the same order, without parameters."""
    _, columns = on.scores()
    of_view = {name: _of_view(name, column) for name, column in columns.items()}
    shown = dict.fromkeys(["sample", "system", *on.sight.shown, *([on.sight.sort] if on.sight.sort else [])])
    query = sa.select(*[column_of(name, of_view).expression.label(name) for name in shown])
    query = query.select_from(sa.table("sample_scores")).where(sa.column("dataset", sa.Text) == on.sight.dataset.name)
    query = query.where(*_conditions(on.sight, of_view))
    if on.sight.sort is not None:
        value = _sortable(column_of(on.sight.sort, of_view).expression)
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
