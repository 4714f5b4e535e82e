"""The views an analyst queries. They hold no data, so they are dropped and made anew rather than migrated."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.evidence.verdicts import MANIFEST_LABELS, VERDICT_INPUTS
from db.schema import view_definition
from db.schema.comments import FILE as COMMENTS
from db.schema.comments import write_comments
from db.schema.inputs import Input, input_digest, input_marks
from db.scores.shards import score_tally
from db.scores.thresholds import METHOD_LABELS
from db.sql import read_sql

MetricInputs = Mapping[str, Collection[Input[Any]]]
"""The inputs of each metric's scores, by metric."""

# A view comes after the views that it reads. Those that only views and programs read stand in schema plumbing.
PLUMBING = "plumbing"
VIEWS = (
    "threshold_in_force",
    "dataset_thresholds",
    "shard_thresholds",
    "plumbing.shard_status",
    "plumbing.fresh_shard",
    "plumbing.dataset_status",
    "plumbing.fresh_scorer",
    "plumbing.unknown_shard",
    "current_score",
    "sample_scores",
    "dataset_summary",
    "score_history",
    "keypoint_verdicts",
    "sample_questions",
    "dictionary",
)
SCORER_ID = "r.scorer_id"
STALE = "'its inputs changed since it was scored: run reelsieve score again'"
_METRIC = re.compile(r"[a-z][a-z0-9_]{0,39}")


def create_views(connection: Connection, metrics: MetricInputs) -> None:
    """Drop and make all views and write all comments, unless what the database has is up to date.

    sample_scores has columns `<metric>`, `<metric>_status`, `<metric>_is_stale` and `<metric>_models` for each metric.
    Raises ValueError for a metric whose name is no plain lower-case identifier.
    """
    if is_up_to_date(connection, metrics):
        return
    _drop_views(connection)
    for name, definition in _definitions(metrics).items():
        connection.exec_driver_sql(definition)
        row = {"name": name, "sql_sha256": _digest(definition)}
        connection.execute(sa.insert(view_definition).values(row))
    write_comments(connection, metrics)


def is_up_to_date(connection: Connection, metrics: MetricInputs) -> bool:
    """Whether every view exists with the definition that it would get now."""
    if not sa.inspect(connection).has_table(view_definition.name):
        return False
    is_there = sa.func.to_regclass(view_definition.c.name).is_not(None)
    query = sa.select(view_definition.c.name, view_definition.c.sql_sha256).where(is_there)
    made = {row.name: bytes(row.sql_sha256) for row in connection.execute(query)}
    return made == {name: _digest(definition) for name, definition in _definitions(metrics).items()}


def _drop_views(connection: Connection) -> None:
    """Remove every view, the last made first."""
    for name in reversed(VIEWS):
        connection.exec_driver_sql(f"DROP VIEW IF EXISTS {name}")
    if sa.inspect(connection).has_table(view_definition.name):
        connection.execute(sa.delete(view_definition))


def prepare_for_views(connection: Connection) -> None:
    """Settings for statements over sample_scores at a million rows, for the rest of the transaction.

    The view joins more tables than Postgres would put in order by itself, and what is ranked lies in memory.
    """
    prepare_for_joins(connection)
    connection.exec_driver_sql("SET LOCAL work_mem = '64MB'")


def prepare_for_joins(connection: Connection) -> None:
    """Let Postgres put all tables of a statement in order, for the rest of the transaction.

    Compiling such a statement would take longer than running it.
    """
    for setting in ("join_collapse_limit = 20", "from_collapse_limit = 20", "jit = off"):
        connection.exec_driver_sql(f"SET LOCAL {setting}")


def _definitions(metrics: MetricInputs) -> dict[str, str]:
    for metric in metrics:
        if not _METRIC.fullmatch(metric):
            raise ValueError(f"metric name {metric!r} must be lower-case letters, digits and underscores")
    parts = {
        "method_labels": METHOD_LABELS,
        "label_source": MANIFEST_LABELS,
        "stale_reason": STALE,
        "verdict_digest": input_digest(VERDICT_INPUTS, "e.scorer_id"),
        "rule_by_metric": _by_metric({m: _rule(i) for m, i in metrics.items()}, "sha256('')"),
        "digest_by_metric": _by_metric({m: input_digest(i, SCORER_ID) for m, i in metrics.items()}, "c.input_sha256"),
        "marks_by_metric": _by_metric({m: input_marks(i, SCORER_ID) for m, i in metrics.items()}, "c.input_marks"),
        "columns": "".join(_columns(metric, inputs) for metric, inputs in metrics.items()),
        "joins": "".join(_join(metric) for metric in metrics),
    }
    return {name: read_sql(_bare(name)).format(**parts) for name in VIEWS}


def _bare(name: str) -> str:
    return name.removeprefix(f"{PLUMBING}.")


def _by_metric(expressions: Mapping[str, str], otherwise: str) -> str:
    """The SQL expression that a score is compared with; `otherwise` stands for a metric that is not installed here."""
    if not expressions:
        return otherwise
    cases = " ".join(f"WHEN '{metric}' THEN {expression}" for metric, expression in expressions.items())
    return f"(CASE r.metric {cases} ELSE {otherwise} END)"


def _rule(inputs: Collection[Input[Any]]) -> str:
    """SQL of what identifies the counts of a metric's scores; NULL, which equals nothing, where none are kept."""
    rule = score_tally(inputs).rule_sha256
    return "CAST(NULL AS bytea)" if rule is None else f"CAST('\\x{rule.hex()}' AS bytea)"


def _columns(metric: str, inputs: Collection[Input[Any]]) -> str:
    score = f"{metric}_score"
    # Sample and score are read again to compare them: so in a fresh shard the value comes from an index alone.
    is_fresh = (
        f"(CASE WHEN EXISTS"
        f" (SELECT 1 FROM plumbing.fresh_scorer WHERE metric = '{metric}' AND status = 'active') THEN true"
        f" WHEN ({score}.scorer_id, s.dataset_id, s.shard) IN"
        f" (SELECT f.scorer_id, f.dataset_id, f.shard FROM plumbing.fresh_shard f) THEN true"
        f" ELSE (SELECT c.input_sha256 = {input_digest(inputs, 'c.scorer_id')} "
        f" FROM score c JOIN sample s USING (sample_id) JOIN video v USING (video_id)"
        f" WHERE c.scorer_id = {score}.scorer_id AND c.sample_id = {score}.sample_id) END)"
    )
    return (
        f",\n       CASE WHEN {is_fresh} THEN {score}.value END AS {metric}"
        f",\n       CASE WHEN {score}.sample_id IS NULL THEN NULL WHEN {is_fresh} THEN {score}.status ELSE 'stale' END"
        f" AS {metric}_status"
        f",\n       CASE WHEN {score}.sample_id IS NOT NULL THEN NOT {is_fresh} END AS {metric}_is_stale"
        f",\n       CASE WHEN {score}.sample_id IS NOT NULL THEN"
        f" (SELECT string_agg(model->>'model_id', ', ' ORDER BY role)"
        f" FROM scorer, jsonb_each(scorer.models) AS used (role, model)"
        f" WHERE metric = '{metric}' AND status = 'active') END AS {metric}_models"
    )


def _join(metric: str) -> str:
    # A subquery in place of a join: Postgres then knows that it reads the scores of one scorer.
    return (
        f"\nLEFT JOIN score {metric}_score ON {metric}_score.sample_id = s.sample_id AND {metric}_score.scorer_id ="
        f" (SELECT scorer_id FROM scorer WHERE metric = '{metric}' AND status = 'active')"
    )


def _digest(definition: str) -> bytes:
    # With the comments, so that a changed comment is written.
    return hashlib.sha256(definition.encode() + COMMENTS.read_bytes()).digest()
