"""A query for samples on a page: those of a dataset that meet conditions, in the order of a column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.manifest.datasets import Dataset
from db.manifest.remarks import list_tags
from db.schema import rating, sample
from db.scores.sample_scores import (
    FACT_COLUMNS,
    SIMPLE_SCORES,
    TELLING_FACTS,
    ActiveScorer,
    Column,
    SampleScores,
    build_sample_scores,
    list_dataset_scores,
    load_active_scorers,
    prepare_for_joins,
)
from db.selection.columns import OWN_PREFIX, RATING_PREFIX, TAG_PREFIX, build_own_columns
from db.selection.filters import list_column_names, parse_filter
from db.server.arrays import build_id_condition

TIMEOUT_S = 30
# Of own fields, those of so many samples are suggested.
_LOOKED_THROUGH = 1000


@dataclass(frozen=True, slots=True)
class SampleQuery:
    """A query for those samples of a dataset that meet all conditions, texts in the filter language. `sort` is the
    column that orders them, the highest value first if `descending`; None means the order of ingest. `shown` names
    further columns to load. `sample_ids` are the samples of an area of a map, to which conditions add; None for all.
    """

    dataset: Dataset
    conditions: tuple[str, ...] = ()
    sort: str | None = None
    descending: bool = True
    shown: tuple[str, ...] = ()
    sample_ids: Sequence[int] | None = None

    @property
    def column_names(self) -> set[str]:
        """All columns that the query names in `shown`, `sort` and its conditions; those of conditions in lower case."""
        sort = [self.sort] if self.sort else []
        return {*self.shown, *sort, *(name for text in self.conditions for name in list_column_names(text))}


@dataclass(frozen=True, slots=True)
class QueryContext:
    """A query with all that its statements need: a connection with an open transaction, the names of the dataset's
    metrics and simple scores (`metrics`), and the active scorer by metric (`scorers`).
    """

    connection: Connection
    query: SampleQuery
    metrics: tuple[str, ...]
    scorers: Mapping[str, ActiveScorer]
    _known: dict[Any, tuple[SampleScores, dict[str, Column]]] = field(default_factory=dict, compare=False)

    def select_scores(self, by: str | None = None, *also: str) -> tuple[SampleScores, dict[str, Column]]:
        """Return (joined tables to select from, all columns by name) for statements of this query. Columns include the
        own fields (`extra_...`), mean ratings (`rating_...`) and tags (`tag_...`) that the query names, and those named
        in `also`. With `by`, a metric that has a scorer, the tables hold only samples with a value by it.

        Reads the types of own fields from all samples of the dataset, once for the same arguments. Raises
        SelectionError for an unknown own field, aspect or tag.
        """
        # To know the types of own fields costs a look at all samples.
        if (by, also) not in self._known:
            scores = build_sample_scores(self.query.dataset, self.metrics, self.scorers, by)
            own_fields = build_own_columns(
                self.connection, self.query.dataset, {*self.query.column_names, *also}, scores
            )
            self._known[by, also] = scores, {**scores.view_columns, **own_fields}
        return self._known[by, also]


def prepare_query(connection: Connection, query: SampleQuery) -> QueryContext:
    """Load the metrics and active scorers that the statements of a query need, and return them with the query. Limits
    every later statement of the transaction to 30 seconds (TIMEOUT_S), and sets Postgres's planner for joins of many
    tables.
    """
    connection.exec_driver_sql(f"SET LOCAL statement_timeout = '{TIMEOUT_S}s'")
    prepare_for_joins(connection)
    names = tuple(list_dataset_scores(connection, query.dataset))
    return QueryContext(connection, query, names, load_active_scorers(connection, query.dataset))


def list_suggested_columns(context: QueryContext) -> list[str]:
    """List the names of columns that conditions may use, sorted: columns of view sample_scores, own fields as
    `extra_NAME`, aspects that people rated as `rating_NAME`, and tags as `tag_NAME`. Own fields come from at
    most 1,000 samples of the dataset, so rare ones may be missing.
    """
    _, columns = context.select_scores()
    values = {"dataset_id": context.query.dataset.dataset_id, "most": _LOOKED_THROUGH}
    fields = sa.text(
        "SELECT DISTINCT jsonb_object_keys(extra) FROM (SELECT extra FROM sample WHERE dataset_id = :dataset_id "
        "LIMIT :most) s WHERE jsonb_typeof(extra) = 'object'"
    )
    aspects = sa.select(rating.c.aspect).join(sample).where(sample.c.dataset_id == values["dataset_id"]).distinct()
    own_names = [f"{OWN_PREFIX}{name}" for name in context.connection.scalars(fields, values)]
    own_names += [f"{RATING_PREFIX}{name}" for name in context.connection.scalars(aspects)]
    own_names += [f"{TAG_PREFIX}{tag}" for tag in list_tags(context.connection, context.query.dataset)]
    return sorted({*columns, *own_names} - {"dataset"})


def list_telling_columns(context: QueryContext) -> list[str]:
    """List the names of `list_suggested_columns` that have a value in the dataset, the most useful ones first: metrics,
    people's ratings, simple scores, facts, own fields, all others. Columns in which all samples have the same value
    come last. At most 1,000 samples are read, but all of them for metrics.
    """
    names = list_suggested_columns(context)
    scores, columns = context.select_scores()
    looked_at = sa.select(*[column.label(name) for name, column in columns.items()]).select_from(scores.from_clause)
    some = looked_at.where(scores.dataset_condition).limit(_LOOKED_THROUGH).subquery()
    counts = context.connection.execute(sa.select(*[sa.func.count(column.distinct()) for column in some.c])).one()
    scored = {metric for metric, scorer in context.scorers.items() if scorer.n_defined}
    n_values = {name: n for name, n in zip(columns, counts, strict=True) if name not in scored}
    order = [name for name in context.metrics if name not in SIMPLE_SCORES]
    order += [name for name in names if name.startswith(RATING_PREFIX)]
    order += [*SIMPLE_SCORES, *TELLING_FACTS, *FACT_COLUMNS]
    order += [name for name in names if name.startswith(OWN_PREFIX)]
    order += sorted(names, key=lambda name: name.endswith(("_status", "_models")))
    has_value = [name for name in names if n_values.get(name) != 0]
    return sorted(has_value, key=lambda name: (n_values.get(name) == 1, order.index(name)))


def collate_column(value: Column) -> Column:
    """Return a text column so that it sorts and compares by bytes (collation "C"), which is the same in every database.
    A column of another type is returned unchanged.
    """
    return sa.collate(value, "C") if isinstance(value.type, sa.Text) else value


def parse_conditions(
    query: SampleQuery, columns: Mapping[str, Column], but: str | None = None
) -> list[sa.ColumnElement[bool]]:
    """Return the query's conditions as a list of SQL conditions, made from `columns` (SQL columns by name). Conditions
    that name only the column `but` (in lower case) are left out. Raises FilterError for a condition that is not
    allowed.
    """
    area = [] if query.sample_ids is None else [build_id_condition(sample.c.sample_id, query.sample_ids)]
    conditions = [text for text in query.conditions if but is None or list_column_names(text) != {but}]
    return [*area, *[parse_filter(text, columns) for text in conditions]]
