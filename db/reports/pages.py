"""The samples of a sight page by page, and how many there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from db.reports.sample_query import QueryContext, collate_column, parse_conditions
from db.schema import sample, shard, video
from db.scores.sample_scores import is_number_column
from db.selection.conditions import FilterError, require_column
from db.selection.filters import list_column_names, parse_filter

# Of a filtered dataset it is enough to know whether there are more.
MOST_COUNTED = 10_000
NO_PLACE = "the address names no place where a page could begin: open the first page"
_ALWAYS = ("sample", "kind", "system", "video", "text", "question", "answer", "video_status")


class PageEnd(NamedTuple):
    """Where a page ends: the value of its last sample in the column of the order, and the id of this sample."""

    value: Any
    sample_id: int


def load_page(context: QueryContext, after: PageEnd | None, n: int) -> tuple[list[dict[str, Any]], PageEnd | None]:
    """The n samples that follow a place, with their columns, and the place where the next page begins, if any.

    Samples without a value in the column of the order come last. Raises FilterError for what no condition may say, and
    SelectionError for an own field that is unknown.
    """
    places = _list_places(context, after, n + 1)
    rows = load_rows(context, [place.sample_id for place in places[:n]])
    return rows, places[n - 1] if len(places) > n else None


def _list_places(context: QueryContext, after: PageEnd | None, n: int) -> list[PageEnd]:
    """The samples of a page by value and id; by ids alone the rows that are read stay few."""
    sight = context.query
    if sight.sort is None:
        return _list_without_value(context, None, after, n)
    if after is not None and after.value is None:
        return _list_without_value(context, sight.sort, after, n)
    found = _list_with_value(context, sight.sort, after, n)
    if len(found) < n and _passes_null(context, sight.sort):
        found += _list_without_value(context, sight.sort, None, n - len(found))
    return found


def _passes_null(context: QueryContext, name: str) -> bool:
    """Whether conditions on this column alone let a sample without a value pass: none need be looked for otherwise."""
    null = {name: sa.cast(sa.null(), require_column(name, context.select_scores()[1]).expression.type)}
    alone = [parse_filter(text, null) for text in context.query.conditions if list_column_names(text) == {name.lower()}]
    return bool(context.connection.scalar(sa.select(sa.and_(sa.true(), *alone))))


def _list_with_value(context: QueryContext, sort: str, after: PageEnd | None, n: int) -> list[PageEnd]:
    by = next((metric for metric in context.scorers if metric == sort.lower()), None)
    scores, columns = context.select_scores(by)
    value, sample_id = collate_column(require_column(sort, columns).expression), scores.columns["sample_id"]
    query = (
        sa.select(value, sample_id).select_from(scores.from_clause).where(scores.dataset_condition, value.is_not(None))
    )
    if after is not None:
        kinds = (int, float) if is_number_column(value) else (value.type.python_type,)
        if type(after.value) not in kinds:
            raise FilterError(NO_PLACE)
        # A number of the address may be none that the column can hold: it is compared as what it is.
        last = sa.literal(_to_double(after.value)) if is_number_column(value) else sa.literal(after.value, value.type)
        is_beyond, is_no_better = (
            (value < last, value <= last) if context.query.descending else (value > last, value >= last)
        )
        # The first condition is what an index can begin at.
        query = query.where(is_no_better, sa.or_(is_beyond, sample_id > after.sample_id))
    # The direction in which an index has them; there are no nulls.
    order = value.desc().nulls_last() if context.query.descending else value.asc().nulls_first()
    query = query.where(*parse_conditions(context.query, columns)).order_by(order, sample_id).limit(n)
    return [PageEnd(*row) for row in context.connection.execute(query)]


def _to_double(value: Any) -> float:
    """A number as Postgres compares it. Raises FilterError where it is too great."""
    try:
        return float(value)
    except OverflowError as error:
        raise FilterError(NO_PLACE) from error


def _list_without_value(context: QueryContext, sort: str | None, after: PageEnd | None, n: int) -> list[PageEnd]:
    """Samples in the order of ingest: without a value in a column, or all."""
    scores, columns = context.select_scores()
    sample_id = scores.columns["sample_id"]
    query = (
        sa.select(sample_id)
        .select_from(scores.from_clause)
        .where(scores.dataset_condition, *parse_conditions(context.query, columns))
    )
    if sort is not None:
        query = query.where(require_column(sort, columns).expression.is_(None))
    if after is not None:
        query = query.where(sample_id > after.sample_id)
    return [PageEnd(None, found) for found in context.connection.scalars(query.order_by(sample_id).limit(n))]


def load_rows(context: QueryContext, sample_ids: Sequence[int]) -> list[dict[str, Any]]:
    """The samples of these ids in their order, each with id, key, texts, video and the columns that the sight shows."""
    scores, columns = context.select_scores()
    wanted: dict[str, Any] = {name: scores.columns[name] for name in ("sample_id", *_ALWAYS)}
    wanted |= {"video_id": sample.c.video_id, "content_sha256": video.c.content_sha256}
    wanted |= {name: require_column(name, columns).expression for name in context.query.shown}
    wanted |= {f"{name}_status": columns[f"{name}_status"] for name in context.query.shown if name in context.metrics}
    query = sa.select(*[column.label(f"c{place}") for place, column in enumerate(wanted.values())])
    query = query.select_from(scores.from_clause).where(
        scores.dataset_condition, sample.c.sample_id.in_(list(sample_ids))
    )
    rows = [dict(zip(wanted, row, strict=True)) for row in context.connection.execute(query)]
    position = {sample_id: place for place, sample_id in enumerate(sample_ids)}
    return sorted(rows, key=lambda row: position[row["sample_id"]])


def list_video_samples(context: QueryContext, video_id: int) -> list[int]:
    """The samples of a video, by kind and system."""
    own = sa.and_(sample.c.dataset_id == context.query.dataset.dataset_id, sample.c.video_id == video_id)
    query = sa.select(sample.c.sample_id).where(own).order_by(sample.c.kind, sample.c.system, sample.c.sample_id)
    return list(context.connection.scalars(query))


def count_samples(context: QueryContext) -> int:
    """How many samples there are; where a condition holds some back, at most MOST_COUNTED + 1."""
    sight = context.query
    if not sight.conditions:
        of_dataset = shard.c.dataset_id == sight.dataset.dataset_id
        total = sa.select(sa.func.coalesce(sa.func.sum(shard.c.n_samples), 0)).where(of_dataset)
        return int(context.connection.execute(total).scalar_one())
    scores, columns = context.select_scores()
    some = (
        sa.select(sa.literal(1))
        .select_from(scores.from_clause)
        .where(scores.dataset_condition, *parse_conditions(sight, columns))
    )
    counted = sa.select(sa.func.count()).select_from(some.limit(MOST_COUNTED + 1).subquery())
    return int(context.connection.execute(counted).scalar_one())
