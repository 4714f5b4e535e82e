"""What `benchmarks.million` says beside its times: plans of slow statements, sizes of rows, and a COPY to compare."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any

import sqlalchemy as sa
from psycopg import sql
from sqlalchemy.engine import Engine

from db.schema import METADATA
from db.server.bulk import copy_rows
from db.server.engine import open_psycopg_transaction

Rows = Mapping[str, Sequence[tuple[Any, ...]]]
SCALES = (10_000_000, 100_000_000)
_SIZED = ("video", "reference", "keypoint", "sample", "score", "verdict_set", "ecs_verdict", "shard_count")
_EXPLAINED = ("select", "with", "insert")


class SlowStatements:
    """Notes every statement of an engine with its time, as a context manager, and explains the slowest."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._taken: dict[str, tuple[float, Any]] = {}
        self._started = 0.0

    def __enter__(self) -> SlowStatements:
        sa.event.listen(self._engine, "before_cursor_execute", self._before)
        sa.event.listen(self._engine, "after_cursor_execute", self._after)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        sa.event.remove(self._engine, "before_cursor_execute", self._before)
        sa.event.remove(self._engine, "after_cursor_execute", self._after)

    def plans(self, n: int) -> list[dict[str, Any]]:
        """Statement, seconds and plan of the n slowest, run once more and taken back.

        Statements on a temporary table are left out: the table went with its transaction.
        """
        plans: list[dict[str, Any]] = []
        for statement, (seconds, values) in sorted(self._taken.items(), key=lambda item: -item[1][0]):
            if len(plans) < n:
                # The table that is missing.
                with suppress(sa.exc.ProgrammingError):
                    plan = self._explain(statement, values)
                    plans.append({"statement": statement, "seconds": seconds, "plan": plan})
        return plans

    def _explain(self, statement: str, values: Any) -> str:
        with self._engine.connect() as connection:
            connection.exec_driver_sql("SET LOCAL work_mem = '64MB'")
            connection.exec_driver_sql("SET LOCAL join_collapse_limit = 20")
            connection.exec_driver_sql("SET LOCAL from_collapse_limit = 20")
            rows = connection.exec_driver_sql(f"EXPLAIN (ANALYZE, TIMING OFF, COSTS OFF) {statement}", values).all()
            connection.rollback()
        return "\n".join(row[0] for row in rows if "never executed" not in row[0])

    def _before(self, *_: Any) -> None:
        self._started = time.perf_counter()

    def _after(self, _connection: Any, _cursor: Any, statement: str, values: Any, *_: Any) -> None:
        taken = time.perf_counter() - self._started
        is_explained = statement.lstrip("- \n").lower().startswith(_EXPLAINED) or statement.startswith("--")
        if is_explained and taken > self._taken.get(statement, (0.0, None))[0]:
            self._taken[statement] = (taken, values)


def row_sizes(engine: Engine, n_samples: int) -> dict[str, Any]:
    """Bytes per row of each table with its indexes, and what a database of more samples would take."""
    query = sa.text(
        "SELECT relname, CAST(reltuples AS bigint) AS n, pg_total_relation_size(oid) AS size FROM pg_class "
        "WHERE relname = ANY(:names) AND relkind = 'r' AND reltuples > 0"
    )
    with engine.connect() as connection:
        rows = connection.execute(query, {"names": list(_SIZED)}).all()
    total = sum(row.size for row in rows)
    projection = {f"{scale:,} samples": f"{total * scale / n_samples / 1e9:,.0f} GB" for scale in SCALES}
    return {"bytes_per_row": {row.relname: round(row.size / row.n) for row in rows}, "projection": projection}


def stored_rows(engine: Engine, dataset: str) -> Rows:
    """A dataset and its videos and samples as Python values, by table."""
    query = "SELECT t.* FROM {} t JOIN dataset d USING (dataset_id) WHERE d.name = :name"
    found = {}
    for name in ("dataset", "video", "sample"):
        with engine.connect() as connection:
            rows = connection.execute(sa.text(query.format(name)), {"name": dataset}).mappings().all()
        found[name] = [tuple(row[column.name] for column in written(name)) for row in rows]
    return found


def copy_all(engine: Engine, rows: Rows) -> None:
    """A binary COPY of rows into each of the tables, in one transaction."""
    with open_psycopg_transaction(engine) as connection:
        for name, values in rows.items():
            copy_rows(connection, sql.Identifier(name), written(name), values)


def written(name: str) -> list[sa.Column[Any]]:
    """The columns of a table that Postgres does not make itself."""
    return [column for column in METADATA.tables[name].columns if column.computed is None]


def forget(engine: Engine, dataset: str) -> None:
    """Delete a dataset, and free its room for the next one."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text("DELETE FROM dataset WHERE name = :name"), {"name": dataset})
        connection.exec_driver_sql("VACUUM video, sample")
