"""The views an analyst queries. They hold no data, so they are dropped and made anew rather than migrated."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.inputs import Input, input_digest, input_marks
from db.schema import view_definition
from db.thresholds import METHOD_LABELS
from db.verdicts import MANIFEST_LABELS, VERDICT_INPUTS

MetricInputs = Mapping[str, Collection[Input[Any]]]
"""The inputs of each metric's scores, by metric."""

# A view comes after the views that it reads.
VIEWS = (
    "threshold_in_force",
    "current_score",
    "sample_scores",
    "dataset_summary",
    "score_history",
    "keypoint_verdicts",
)
SCORER_ID = "r.scorer_id"
STALE = "'its inputs changed since it was scored: run reelsieve score again'"
_SQL = Path(__file__).parent / "sql"
_METRIC = re.compile(r"[a-z][a-z0-9_]{0,39}")


def create_views(connection: Connection, metrics: MetricInputs) -> None:
    """Drop and make all views, unless their definitions in the database are up to date.

    sample_scores has columns `<metric>`, `<metric>_status` and `<metric>_models` for each metric. Raises ValueError for
    a metric whose name is no plain lower-case identifier.
    """
    if is_up_to_date(connection, metrics):
        return
    drop_views(connection)
    for name, definition in _definitions(metrics).items():
        connection.exec_driver_sql(definition)
        row = {"name": name, "sql_sha256": _digest(definition)}
        connection.execute(sa.insert(view_definition).values(row))


def is_up_to_date(connection: Connection, metrics: MetricInputs) -> bool:
    """Whether every view exists with the definition that it would get now."""
    if not sa.inspect(connection).has_table(view_definition.name):
        return False
    is_there = sa.func.to_regclass(view_definition.c.name).is_not(None)
    query = sa.select(view_definition.c.name, view_definition.c.sql_sha256).where(is_there)
    made = {row.name: bytes(row.sql_sha256) for row in connection.execute(query)}
    return made == {name: _digest(definition) for name, definition in _definitions(metrics).items()}


def drop_views(connection: Connection) -> None:
    """Remove every view, so that a migration may change the tables below them."""
    for name in reversed(VIEWS):
        connection.exec_driver_sql(f"DROP VIEW IF EXISTS {name}")
    if sa.inspect(connection).has_table(view_definition.name):
        connection.execute(sa.delete(view_definition))


def _definitions(metrics: MetricInputs) -> dict[str, str]:
    for metric in metrics:
        if not _METRIC.fullmatch(metric):
            raise ValueError(f"metric name {metric!r} must be lower-case letters, digits and underscores")
    parts = {
        "method_labels": METHOD_LABELS,
        "label_source": MANIFEST_LABELS,
        "stale_reason": STALE,
        "verdict_digest": input_digest(VERDICT_INPUTS, "e.scorer_id"),
        "digest_by_metric": _by_metric({m: input_digest(i, SCORER_ID) for m, i in metrics.items()}, "c.input_sha256"),
        "marks_by_metric": _by_metric({m: input_marks(i, SCORER_ID) for m, i in metrics.items()}, "c.input_marks"),
        "columns": "".join(_columns(metric, inputs) for metric, inputs in metrics.items()),
        "joins": "".join(_joins(metric) for metric in metrics),
    }
    return {name: (_SQL / f"{name}.sql").read_text().format(**parts) for name in VIEWS}


def _by_metric(expressions: Mapping[str, str], otherwise: str) -> str:
    """The SQL expression that a score is compared with; `otherwise` stands for a metric that is not installed here."""
    if not expressions:
        return otherwise
    cases = " ".join(f"WHEN '{metric}' THEN {expression}" for metric, expression in expressions.items())
    return f"(CASE r.metric {cases} ELSE {otherwise} END)"


def _columns(metric: str, inputs: Collection[Input[Any]]) -> str:
    score = f"{metric}_score"
    is_fresh = f"{score}.input_sha256 = {input_digest(inputs, f'{metric}_scorer.scorer_id')}"
    return (
        f",\n       CASE WHEN {is_fresh} THEN {score}.value END AS {metric}"
        f",\n       CASE WHEN {score}.sample_id IS NULL THEN NULL WHEN {is_fresh} THEN {score}.status ELSE 'stale' END"
        f" AS {metric}_status"
        f",\n       {metric}_models.models AS {metric}_models"
    )


def _joins(m: str) -> str:
    return (
        f"\nLEFT JOIN scorer {m}_scorer ON {m}_scorer.metric = '{m}' AND {m}_scorer.status = 'active'"
        f"\nLEFT JOIN score {m}_score ON {m}_score.scorer_id = {m}_scorer.scorer_id"
        f" AND {m}_score.sample_id = s.sample_id"
        # Grouped by scorer_id, so that Postgres sees one row per scorer and drops the join where nobody asks for it.
        f"\nLEFT JOIN (SELECT scorer_id, string_agg(model->>'model_id', ', ' ORDER BY role) AS models"
        f" FROM scorer, jsonb_each(scorer.models) AS used (role, model) GROUP BY scorer_id) {m}_models"
        f" ON {m}_models.scorer_id = {m}_score.scorer_id"
    )


def _digest(definition: str) -> bytes:
    return hashlib.sha256(definition.encode()).digest()
