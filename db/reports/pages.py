"""The samples of a query, page by page, and how many there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from db.manifest.remarks import build_tag_list
from db.reports.sample_query import QueryContext, collate_column, parse_conditions
from db.schema import sample, shard, video
from db.scores.sample_scores import Column, is_number_column
from db.selection.conditions import FilterError, require_column
from db.selection.filters import list_column_names, parse_filter

# A page only needs to know whether a filtered dataset has more samples than this.
MOST_COUNTED = 10_000
NO_PLACE = "the page's address names no valid place to begin (after=): open the first page"
_ALWAYS = ("sample", "kind", "system", "video", "text", "question", "answer", "video_status")


class PageEnd(NamedTuple):
    """The last sample of a page, after which the next page begins: its id, and its value in the column that orders the
    samples. The value is None without such a column, or if the sample has none in it.
    """

    value: Any
    sample_id: int


def load_page(context: QueryContext, after: PageEnd | None, n: int) -> tuple[list[dict[str, Any]], PageEnd | None]:
    """Load the next `n` samples after the end of a page, and return (rows as from `load_rows`, new end); the new end is
    None on the last page. `after` is None for the first page. Samples without a value in the ordering column come last.

    Raises FilterError for a condition that is not allowed and for an `after` of another type than the column, and
    SelectionError for an unknown own field.
    """
    places = _list_places(context, after, n + 1)
    rows = load_rows(context, [place.sample_id for place in places[:n]])
    return rows, places[n - 1] if len(places) > n else None


class Neighbours(NamedTuple):
    """The places around a sample in the order of a query: the two before it, the nearer one last, its own, and the one
    after it. A place beyond either end is None.
    """

    second_before: PageEnd | None
    before: PageEnd | None
    own: PageEnd
    after: PageEnd | None


def find_neighbours(context: QueryContext, sample_id: int) -> Neighbours:
    """Find the samples before and after a sample of the query's dataset, in the order of the query, among those that
    meet its conditions; the sample itself need not meet them. Raises the errors of `load_page`.
    """
    value = None
    if context.query.sort is not None:
        scores, columns = context.select_scores()
        column = require_column(context.query.sort, columns).expression
        is_it = scores.columns["sample_id"] == sample_id
        rows = sa.select(column).select_from(scores.from_clause).where(scores.dataset_condition, is_it)
        value = context.connection.scalar(rows)
    own = PageEnd(value, sample_id)
    before: list[PageEnd | None] = [*_list_places(context, own, 2, is_backward=True), None, None]
    return Neighbours(before[1], before[0], own, next(iter(_list_places(context, own, 1)), None))


def _list_places(context: QueryContext, after: PageEnd | None, n: int, *, is_backward: bool = False) -> list[PageEnd]:
    """List value and id of a page's samples; reading ids first keeps the number of rows read small. is_backward: go
    from the given place to the first page.
    """
    sort = context.query.sort
    if sort is None:
        return _list_without_value(context, None, after, n, is_backward)
    # Those with a value come before those without one.
    has_value = after is None or after.value is not None
    if is_backward:
        ends = [] if has_value else _list_without_value(context, sort, after, n, is_backward)
        if len(ends) < n:
            ends += _list_with_value(context, sort, after if has_value else None, n - len(ends), is_backward)
        return ends
    ends = _list_with_value(context, sort, after, n) if has_value else []
    if len(ends) < n and (not has_value or _passes_null(context, sort)):
        ends += _list_without_value(context, sort, None if has_value else after, n - len(ends))
    return ends


def _passes_null(context: QueryContext, name: str) -> bool:
    """Whether the conditions on this column only let a sample without a value pass; if not, none need be looked for."""
    null = {name: sa.cast(sa.null(), require_column(name, context.select_scores()[1]).expression.type)}
    conditions = [
        parse_filter(text, null) for text in context.query.conditions if list_column_names(text) == {name.lower()}
    ]
    return bool(context.connection.scalar(sa.select(sa.and_(sa.true(), *conditions))))


def _list_with_value(
    context: QueryContext, sort: str, after: PageEnd | None, n: int, is_backward: bool = False
) -> list[PageEnd]:
    by = next((metric for metric in context.scorers if metric == sort.lower()), None)
    scores, columns = context.select_scores(by)
    value, sample_id = collate_column(require_column(sort, columns).expression), scores.columns["sample_id"]
    is_descending = context.query.descending != is_backward
    query = (
        sa.select(value, sample_id).select_from(scores.from_clause).where(scores.dataset_condition, value.is_not(None))
    )
    if after is not None:
        kinds = (int, float) if is_number_column(value) else (value.type.python_type,)
        if type(after.value) not in kinds:
            raise FilterError(NO_PLACE)
        # The address may have a number that the column cannot hold, so both are compared as doubles.
        last = sa.literal(_to_double(after.value)) if is_number_column(value) else sa.literal(after.value, value.type)
        is_beyond, is_no_better = (value < last, value <= last) if is_descending else (value > last, value >= last)
        # The first condition is what an index can begin at.
        query = query.where(is_no_better, sa.or_(is_beyond, _is_later(sample_id, after, is_backward)))
    # The direction in which an index has them; there are no nulls.
    order = value.desc().nulls_last() if is_descending else value.asc().nulls_first()
    by_id = sample_id.desc() if is_backward else sample_id
    query = query.where(*parse_conditions(context.query, columns)).order_by(order, by_id).limit(n)
    return [PageEnd(*row) for row in context.connection.execute(query)]


def _to_double(value: Any) -> float:
    """A number as Postgres compares it. Raises FilterError where it is too great."""
    try:
        return float(value)
    except OverflowError as error:
        raise FilterError(NO_PLACE) from error


def _is_later(sample_id: Column, place: PageEnd, is_backward: bool) -> sa.ColumnElement[bool]:
    return sample_id < place.sample_id if is_backward else sample_id > place.sample_id


def _list_without_value(
    context: QueryContext, sort: str | None, after: PageEnd | None, n: int, is_backward: bool = False
) -> list[PageEnd]:
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
        query = query.where(_is_later(sample_id, after, is_backward))
    query = query.order_by(sample_id.desc() if is_backward else sample_id).limit(n)
    return [PageEnd(None, found_id) for found_id in context.connection.scalars(query)]


def load_rows(context: QueryContext, sample_ids: Sequence[int]) -> list[dict[str, Any]]:
    """Load samples of the query's dataset by id, in the order given, as dicts by column. They have ids, key, kind,
    system, texts, video, its SHA-256, tags, and the columns that the query shows; a metric shown adds
    `<metric>_status`. An id that is no sample of the dataset is left out, and the query's conditions are ignored.
    """
    scores, columns = context.select_scores()
    expressions: dict[str, Any] = {name: scores.columns[name] for name in ("sample_id", *_ALWAYS)}
    expressions |= {"video_id": sample.c.video_id, "content_sha256": video.c.content_sha256}
    expressions["tags"] = build_tag_list(sample.c.sample_id)
    expressions |= {name: require_column(name, columns).expression for name in context.query.shown}
    expressions |= {
        f"{name}_status": columns[f"{name}_status"] for name in context.query.shown if name in context.metrics
    }
    query = sa.select(*[column.label(f"c{place}") for place, column in enumerate(expressions.values())])
    query = query.select_from(scores.from_clause).where(
        scores.dataset_condition, sample.c.sample_id.in_(list(sample_ids))
    )
    rows = [dict(zip(expressions, row, strict=True)) for row in context.connection.execute(query)]
    position = {sample_id: place for place, sample_id in enumerate(sample_ids)}
    return sorted(rows, key=lambda row: position[row["sample_id"]])


def list_video_samples(context: QueryContext, video_id: int) -> list[int]:
    """List the ids of all samples of a video in the query's dataset, ordered by kind, system and id; [] for an unknown
    video. The query's conditions are ignored.
    """
    in_video = sa.and_(sample.c.dataset_id == context.query.dataset.dataset_id, sample.c.video_id == video_id)
    query = sa.select(sample.c.sample_id).where(in_video).order_by(sample.c.kind, sample.c.system, sample.c.sample_id)
    return list(context.connection.scalars(query))


def count_samples(context: QueryContext) -> int:
    """Return how many samples meet the conditions of the query, counting to 10,001 (MOST_COUNTED + 1) at most. Without
    conditions and area it is the exact number of samples in the dataset.
    """
    query = context.query
    if not query.conditions and query.sample_ids is None:
        in_dataset = shard.c.dataset_id == query.dataset.dataset_id
        total = sa.select(sa.func.coalesce(sa.func.sum(shard.c.n_samples), 0)).where(in_dataset)
        return int(context.connection.execute(total).scalar_one())
    scores, columns = context.select_scores()
    some = (
        sa.select(sa.literal(1))
        .select_from(scores.from_clause)
        .where(scores.dataset_condition, *parse_conditions(query, columns))
    )
    counted = sa.select(sa.func.count()).select_from(some.limit(MOST_COUNTED + 1).subquery())
    return int(context.connection.execute(counted).scalar_one())
