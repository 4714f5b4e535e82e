"""The samples of a sight page by page, and how many there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from db.reports.sight import Ground, collate_column, parse_conditions
from db.schema import sample, shard, video
from db.scores.present import is_number
from db.selection.conditions import FilterError, column_of
from db.selection.filters import names_in, parse_filter

# Of a filtered dataset it is enough to know whether there are more.
MOST_COUNTED = 10_000
NO_PLACE = "the address names no place where a page could begin: open the first page"
_ALWAYS = ("sample", "kind", "system", "video", "text", "question", "answer", "video_status")


class Place(NamedTuple):
    """Where a page ends: the value of its last sample in the column of the order, and the id of this sample."""

    value: Any
    sample_id: int


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
    value, sample_id = collate_column(column_of(sort, columns).expression), scores.columns["sample_id"]
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
    query = query.where(*parse_conditions(on.sight, columns)).order_by(order, sample_id).limit(n)
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
    query = sa.select(sample_id).select_from(scores.rows).where(scores.of_dataset, *parse_conditions(on.sight, columns))
    if sort is not None:
        query = query.where(column_of(sort, columns).expression.is_(None))
    if after is not None:
        query = query.where(sample_id > after.sample_id)
    return [Place(None, found) for found in on.connection.scalars(query.order_by(sample_id).limit(n))]


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
    some = sa.select(sa.literal(1)).select_from(scores.rows).where(scores.of_dataset, *parse_conditions(sight, columns))
    counted = sa.select(sa.func.count()).select_from(some.limit(MOST_COUNTED + 1).subquery())
    return int(on.connection.execute(counted).scalar_one())
