"""The temporary table `chosen`: the picked samples with everything that a frozen row keeps of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa
from psycopg import sql
from sqlalchemy.dialects.postgresql import array
from sqlalchemy.engine import Connection
from sqlalchemy.ext.compiler import compiles

from db.schema import selection_item
from db.selection.eligible import EligibleSamples
from db.server.bulk import copy_rows

FROZEN_COLUMNS = ("sample", "video", "kind", "system", "text", "question", "answer", "uri", "content_sha256")
_FROZEN_ORIGIN = ("licence", "source_url")
"""Columns of a sample and its video that a frozen row keeps."""
CHOSEN_TABLE = sa.table(
    "chosen", *[sa.column(c.name, c.type) for c in selection_item.columns if c.name != "selection_id"]
)
_PICKED_TABLE = sa.Table(
    "picked",
    sa.MetaData(),
    sa.Column("rank", sa.BigInteger),
    sa.Column("sample_id", sa.BigInteger),
    sa.Column("value", sa.Double),
    prefixes=["TEMPORARY"],
    postgresql_on_commit="DROP",
)


@dataclass(frozen=True, slots=True)
class PickedSamples:
    """The samples that a recipe takes, in order of rank, with the values that ranked them (`values`) and counts of
    those left out. `n_eligible` is how many samples there were to choose from. `n_duplicates` is how many were left out
    because they are near-duplicates of better ones.

    sample_ids, values: (n,). n_tied: how many of those taken have exactly the value at which the size asked for ends,
    summed over the strata; n_tied_left: how many with this value are left out. Both are None if no value decides, as in
    a random draw. encoder: the identity of the model whose vectors compared texts, None without one.
    """

    sample_ids: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]
    n_eligible: int
    n_tied: int | None
    n_tied_left: int | None
    n_duplicates: int
    encoder: Mapping[str, Any] | None


def create_chosen_table(connection: Connection, eligible: EligibleSamples, picked: PickedSamples) -> None:
    """Create the temporary table `chosen` with a row for every picked sample: its rank from 1, texts, video, and scores
    by every metric. Postgres drops the table when the transaction ends.
    """
    scores, columns = eligible.scores, eligible.scores.columns
    _PICKED_TABLE.create(connection)
    driver: Any = connection.connection.driver_connection
    numbers = zip(picked.sample_ids.tolist(), picked.values.tolist(), strict=True)
    ranked = ((rank, *sample) for rank, sample in enumerate(numbers, start=1))
    copy_rows(driver, sql.Identifier(_PICKED_TABLE.name), list(_PICKED_TABLE.columns), ranked)
    connection.exec_driver_sql(f"ANALYZE {_PICKED_TABLE.name}")
    rows = sa.select(
        _PICKED_TABLE.c.rank,
        columns["sample_id"].label("sample_id"),
        _PICKED_TABLE.c.value,
        *[columns[name].label(name) for name in FROZEN_COLUMNS],
        array([columns[metric] for metric in eligible.metrics]).label("scores"),
        array([scores.is_scored[metric] for metric in eligible.metrics]).label("is_scored"),
        *[columns[name].label(name) for name in _FROZEN_ORIGIN],
    )
    joined = scores.from_clause.join(_PICKED_TABLE, _PICKED_TABLE.c.sample_id == columns["sample_id"])
    query = rows.select_from(joined).where(scores.dataset_condition).order_by(_PICKED_TABLE.c.rank)
    connection.execute(_TemporaryTable(CHOSEN_TABLE.name, query))
    _PICKED_TABLE.drop(connection)


def drop_chosen_table(connection: Connection) -> None:
    """Drop the temporary table `chosen` before the transaction ends, so that it can be created again."""
    connection.exec_driver_sql(f"DROP TABLE {CHOSEN_TABLE.name}")


class _TemporaryTable(sa.Executable, sa.ClauseElement):
    """CREATE TEMPORARY TABLE .. AS a query, with parameters. SQLAlchemy's own writes values into the statement."""

    inherit_cache = False

    def __init__(self, name: str, query: sa.Select[Any]) -> None:
        self.name = name
        self.query = query


@compiles(_TemporaryTable)
def _compile(element: _TemporaryTable, compiler: Any, **options: Any) -> str:
    return f"CREATE TEMPORARY TABLE {element.name} ON COMMIT DROP AS {compiler.process(element.query, **options)}"
