"""What somebody looks at: the samples of a dataset that pass conditions, in the order of a column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.manifest.datasets import Dataset
from db.schema import rating, sample
from db.scores.sample_scores import (
    ActiveScorer,
    Column,
    SampleScores,
    build_sample_scores,
    list_dataset_scores,
    load_active_scorers,
    prepare_for_joins,
)
from db.selection.columns import OWN, RATING, build_own_columns
from db.selection.filters import list_column_names, parse_filter

TIMEOUT_S = 30
# Of own fields, those of so many samples are suggested.
_LOOKED_THROUGH = 1000


@dataclass(frozen=True, slots=True)
class SampleQuery:
    """What somebody looks at: the samples that pass all conditions of the filter language, in the order of a column.

    sort: None for the order of ingest. shown: further columns that are read.
    """

    dataset: Dataset
    conditions: tuple[str, ...] = ()
    sort: str | None = None
    descending: bool = True
    shown: tuple[str, ...] = ()

    @property
    def column_names(self) -> set[str]:
        """Every column that it mentions."""
        sort = [self.sort] if self.sort else []
        return {*self.shown, *sort, *(name for text in self.conditions for name in list_column_names(text))}


@dataclass(frozen=True, slots=True)
class QueryContext:
    """What the statements about a sight share: the connection's transaction, all scores and their scorers.

    metrics: with the simple scores.
    """

    connection: Connection
    query: SampleQuery
    metrics: tuple[str, ...]
    scorers: Mapping[str, ActiveScorer]
    _known: dict[Any, tuple[SampleScores, dict[str, Column]]] = field(default_factory=dict, compare=False)

    def select_scores(self, by: str | None = None, *also: str) -> tuple[SampleScores, dict[str, Column]]:
        """The samples, those with a value by metric `by` alone where it has a scorer; and the columns by name.

        also: own fields and ratings that are wanted beside those of the sight.
        """
        # To know the types of own fields costs a look at all samples.
        if (by, also) not in self._known:
            scores = build_sample_scores(self.query.dataset, self.metrics, self.scorers, by)
            own = build_own_columns(self.connection, self.query.dataset, {*self.query.column_names, *also}, scores)
            self._known[by, also] = scores, {**scores.view_columns, **own}
        return self._known[by, also]


def prepare_query(connection: Connection, query: SampleQuery) -> QueryContext:
    """Look up what a sight rests on. No statement of the transaction takes longer than TIMEOUT_S from now on."""
    connection.exec_driver_sql(f"SET LOCAL statement_timeout = '{TIMEOUT_S}s'")
    prepare_for_joins(connection)
    names = tuple(list_dataset_scores(connection, query.dataset))
    return QueryContext(connection, query, names, load_active_scorers(connection, query.dataset))


def list_suggested_columns(context: QueryContext) -> list[str]:
    """The columns that conditions may name; of own fields those that the first samples have."""
    _, columns = context.select_scores()
    values = {"dataset_id": context.query.dataset.dataset_id, "most": _LOOKED_THROUGH}
    fields = sa.text(
        "SELECT DISTINCT jsonb_object_keys(extra) FROM (SELECT extra FROM sample WHERE dataset_id = :dataset_id "
        "LIMIT :most) s WHERE jsonb_typeof(extra) = 'object'"
    )
    aspects = sa.select(rating.c.aspect).join(sample).where(sample.c.dataset_id == values["dataset_id"]).distinct()
    own = [f"{OWN}{name}" for name in context.connection.scalars(fields, values)]
    own += [f"{RATING}{name}" for name in context.connection.scalars(aspects)]
    return sorted({*columns, *own} - {"dataset"})


def collate_column(value: Column) -> Column:
    """Return the column with the order of bytes, where it is text: the same everywhere, and that of `<`."""
    return sa.collate(value, "C") if isinstance(value.type, sa.Text) else value


def parse_conditions(
    query: SampleQuery, columns: Mapping[str, Column], but: str | None = None
) -> list[sa.ColumnElement[bool]]:
    """Return the conditions of a sight as SQL, without those that name only the column `but`."""
    return [parse_filter(text, columns) for text in query.conditions if but is None or list_column_names(text) != {but}]
