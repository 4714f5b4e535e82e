"""The mark on a stale score, one whose inputs have changed: what sets it, and when.

A score keeps the digest of the inputs that it was made from; it is stale if its sample's inputs have another digest
now. The mark `score.is_stale` records this, and every reader trusts it. It is set when an input changes, by triggers:
on samples, videos and thresholds by those of the migration, and on the tables of a metric from outside by those made
here. All call one function, which compares digests by the inputs of every metric.

A scorer may read a text, and write its score only after the text has changed. So `store_scores` shares a lock on its
shard's row and compares its scores again; a process that marks scores holds that lock exclusively. Then either the
trigger sees the score, or the scorer sees the new text.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.schema.inputs import Input, build_digest_sql, build_marks_sql
from db.sql import read_sql

MetricInputs = Mapping[str, Collection[Input[Any]]]
"""By name of a metric, the inputs of its scores."""

COMPARE, MARK = "compare_scores", "mark_scores"
# By the column that relates a table's rows to samples, the trigger function that marks their scores.
_BY_COLUMN = {"sample_id": "mark_samples", "video_id": "mark_videos", "dataset_id": "mark_datasets"}
_CHANGES = (("INSERT", "NEW"), ("DELETE", "OLD"), ("UPDATE", "NEW"), ("UPDATE", "OLD"), ("TRUNCATE", None))
_PREFIX = "reelsieve_marks"


def build_mark_functions(metrics: MetricInputs) -> dict[str, str]:
    """Return {name: SQL} of the statements that create the functions `compare_scores` and `mark_scores`, which update
    the mark of stale scores. `metrics` has the inputs of every metric's scores, by metric. Scores of other metrics
    never become stale.
    """
    return {
        COMPARE: read_sql("compare_scores").format(digest_by_metric=build_case_by_metric(build_digest_rules(metrics))),
        MARK: read_sql("mark_scores"),
    }


def build_digest_rules(metrics: MetricInputs) -> dict[str, str]:
    """Return by metric an SQL expression that digests the present inputs of a score. The score is stale if its stored
    digest differs from it.
    """
    return {metric: build_digest_sql(inputs, "r.scorer_id") for metric, inputs in metrics.items()}


def find_refused_metrics(connection: Connection, metrics: MetricInputs) -> dict[str, str]:
    """Return the metrics whose inputs Postgres cannot compute, with the first line of the server's error, by metric; {}
    if it can compute all. Runs a query without rows for every metric, and undoes those that fail.
    """
    refused = {}
    for metric, inputs in metrics.items():
        values = "".join(f", {item.value} AS input_{item.name}" for item in inputs).replace(
            "{scorer_id}", "r.scorer_id"
        )
        query = (
            f"SELECT {build_marks_sql(inputs, 'r.scorer_id')}{values} FROM score c JOIN scorer r USING (scorer_id) "
            "JOIN sample s USING (sample_id) JOIN video v USING (video_id) "
            f"WHERE c.input_sha256 <> {build_digest_sql(inputs, 'r.scorer_id')} LIMIT 0"
        )
        try:
            with connection.begin_nested():
                # A percent sign is one.
                connection.exec_driver_sql(query, execution_options={"no_parameters": True})
        except (sa.exc.ProgrammingError, sa.exc.DataError, sa.exc.NotSupportedError) as error:
            refused[metric] = str(error.orig).strip().splitlines()[0]
    return refused


def has_scores(connection: Connection, metrics: Collection[str]) -> bool:
    """Whether the database holds a score by any scorer of these metrics, active or not, in any dataset."""
    query = "SELECT EXISTS (SELECT 1 FROM shard_count JOIN scorer USING (scorer_id) WHERE metric = ANY(:metrics))"
    return bool(connection.scalar(sa.text(query), {"metrics": list(metrics)}))


def lock_shards(connection: Connection, dataset_id: int | None = None) -> None:
    """Lock the rows of a dataset's shards, or of all shards, so that no other process writes their scores until the
    transaction ends; waits for those that are writing. Call it before the transaction locks a view or deletes a sample:
    a process that writes scores locks a shard first, then samples, and then reads views.
    """
    is_of_dataset = "" if dataset_id is None else "WHERE dataset_id = :dataset_id "
    query = sa.text(f"SELECT 1 FROM shard {is_of_dataset}ORDER BY dataset_id, shard FOR UPDATE")
    connection.execute(query, {"dataset_id": dataset_id})


def mark_stale_scores(connection: Connection, metrics: Collection[str]) -> None:
    """Compare all scores of these metrics with the present inputs of their samples, and set or clear their marks as
    stale. The database must have the function `compare_scores`.
    """
    connection.execute(
        sa.text(
            f"SELECT {COMPARE}(ARRAY(SELECT DISTINCT sample_id FROM score JOIN scorer USING (scorer_id) "
            "WHERE metric = ANY(:metrics)), ARRAY(SELECT scorer_id FROM scorer WHERE metric = ANY(:metrics)))"
        ),
        {"metrics": list(metrics)},
    )


def build_case_by_metric(expressions: Mapping[str, str], otherwise: str = "c.input_sha256") -> str:
    """Return an SQL expression that has the value of `expressions[metric]` for a scorer r of that metric, and of
    `otherwise` for any other metric. Without expressions it is `otherwise`.
    """
    if not expressions:
        return otherwise
    cases = " ".join(f"WHEN '{metric}' THEN {expression}" for metric, expression in expressions.items())
    return f"(CASE r.metric {cases} ELSE {otherwise} END)"


def create_mark_triggers(connection: Connection, metrics: MetricInputs) -> None:
    """Create triggers on all tables that inputs of these metrics read (`Input.tables`), so that changes mark scores as
    stale. Those on other tables are dropped. Raises ValueError for a table that does not exist.

    Triggers that are there already stay: making them again would wait for everybody who has written to their table.
    """
    wanted: dict[str, str] = {}
    for metric, inputs in metrics.items():
        for item in inputs:
            for table in item.tables:
                if not sa.inspect(connection).has_table(table):
                    raise ValueError(
                        f"metric {metric} reads table {table}, which neither Reelsieve nor an installed package has: "
                        f"correct, update or uninstall the package of {metric}"
                    )
                quoted = connection.dialect.identifier_preparer.quote(table)
                wanted[quoted] = _choose_trigger_function(connection, table)
    query = sa.text(
        "SELECT tgname, CAST(CAST(tgrelid AS regclass) AS text) AS relation, CAST(CAST(tgfoid AS regproc) AS text) "
        "AS function FROM pg_trigger WHERE tgname LIKE :prefix"
    )
    existing = connection.execute(query, {"prefix": f"{_PREFIX}%"}).all()
    kept = {
        row.relation for row in existing if row.tgname == f"{_PREFIX}_0" and wanted.get(row.relation) == row.function
    }
    for row in existing:
        if row.relation not in kept:
            connection.exec_driver_sql(f"DROP TRIGGER {row.tgname} ON {row.relation}")
    for table, function in wanted.items():
        if table not in kept:
            _create_triggers(connection, table, function)


def _choose_trigger_function(connection: Connection, table: str) -> str:
    """Return the function that marks scores after a change of a table: those of its rows' samples, or all if its rows
    belong to none.
    """
    columns = [column["name"] for column in sa.inspect(connection).get_columns(table)]
    return next((_BY_COLUMN[name] for name in columns if name in _BY_COLUMN), "mark_all")


def _create_triggers(connection: Connection, table: str, function: str) -> None:
    for number, (event, side) in enumerate(_CHANGES):
        by_rows = side is not None and function != "mark_all"
        connection.exec_driver_sql(
            f"CREATE TRIGGER {_PREFIX}_{number} AFTER {event} ON {table} "
            f"{f'REFERENCING {side} TABLE AS touched ' if by_rows else ''}"
            f"FOR EACH STATEMENT EXECUTE FUNCTION {function if by_rows else 'mark_all'}()"
        )
