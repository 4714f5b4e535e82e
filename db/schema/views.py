"""The views that an analyst queries, and the functions of triggers that depend on the metrics.

They hold no data, so they are dropped and made anew rather than migrated.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.evidence.verdicts import MANIFEST_LABEL_SOURCE, VERDICT_INPUTS
from db.schema import METADATA, view_definition
from db.schema.columns import COMMON_COMMENTS
from db.schema.inputs import build_digest_sql, build_marks_sql
from db.schema.marks import (
    MetricInputs,
    build_case_by_metric,
    build_digest_rules,
    build_mark_functions,
    create_mark_triggers,
    find_refused_metrics,
    has_scores,
    lock_shards,
    mark_stale_scores,
)
from db.scores.imported_scores import IMPORTED_VERSION, add_imported_metrics
from db.scores.keypoint_decisions import LABEL_METHOD
from db.sql import read_sql

# Views that depend on no metric, so that inputs of scores may read them. A view comes after the views that it reads.
BASE_VIEWS = (
    "current_rating",
    "current_label",
    "random_rating",
    "wrong_spans",
    "threshold_in_force",
    "dataset_thresholds",
    "shard_thresholds",
)
# Functions that views and queries call, and that depend on no metric.
FUNCTIONS = ("draw_number",)
VIEWS = (
    *BASE_VIEWS,
    "current_score",
    "sample_scores",
    "dataset_summary",
    "score_history",
    "estimated_means",
    "keypoint_verdicts",
    "sample_questions",
    "dictionary",
)
SCORER_COLUMN = "r.scorer_id"
STALE_REASON = (
    f"CASE WHEN r.code_version = '{IMPORTED_VERSION}' THEN 'its text changed since it was imported: import it again by "
    "rs.import_scores' ELSE 'its inputs changed since it was scored: run reelsieve score again' END"
)
# Prefix of the names under which table view_definition has the rules of metrics.
_RULE = "rule_of_"
_MEANINGS = {
    "words_in_common": "F1 score of the distinct words that the text shares with its best reference; a simple score",
    "cosine": "Cosine of the whole caption with its nearest reference, by the text encoder; a simple score",
}
_METRIC = re.compile(r"[a-z][a-z0-9_]{0,39}")


def create_views(connection: Connection, metrics: MetricInputs) -> None:
    """Drop and create all views, trigger functions, triggers and comments, unless those of the database are up to date.
    If the rule for stale scores of a metric has changed, its scores are compared again. A metric whose inputs Postgres
    cannot compute is left out.

    `metrics` has the inputs of every metric's scores; imported metrics in the database are added to it. sample_scores
    has columns `<metric>`, `<metric>_status`, `<metric>_is_stale` and `<metric>_models` for all of them. Raises
    ValueError for a metric whose name is no plain lower-case identifier, and for an input that reads a table that does
    not exist.
    """
    _make_base_views(connection)
    metrics = add_imported_metrics(connection, _exclude_refused(metrics, find_refused_metrics(connection, metrics)))
    definitions, before = _build_definitions(metrics), _load_digests(connection)
    digests = {name: _compute_digest(definition) for name, definition in definitions.items()}
    if before == digests:
        return
    rules = {f"{_RULE}{metric}": rule for metric, rule in build_digest_rules(metrics).items()}
    digests |= {name: hashlib.sha256(rule.encode()).digest() for name, rule in rules.items()}
    ruled = _load_rule_digests(connection)
    changed = [name.removeprefix(_RULE) for name in rules if ruled.get(name) != digests[name]]
    # A new metric has no scores to compare, and no other process needs to wait for it.
    if any(f"{_RULE}{metric}" in ruled for metric in changed) or has_scores(connection, changed):
        lock_shards(connection)
    delete_views(connection)
    connection.execute(sa.delete(view_definition))
    for definition in definitions.values():
        _run(connection, definition)
    connection.execute(sa.insert(view_definition), [{"name": n, "sql_sha256": d} for n, d in digests.items()])
    create_mark_triggers(connection, metrics)
    mark_stale_scores(connection, changed)
    _store_comments(connection)


def _make_base_views(connection: Connection) -> None:
    """Create the views that inputs of scores may read if they are missing: Postgres would refuse such inputs."""
    existing, definitions = set(sa.inspect(connection).get_view_names()), _build_definitions({})
    for name in BASE_VIEWS:
        if name not in existing:
            _run(connection, definitions[name])


def _run(connection: Connection, statements: str) -> None:
    # Without parameters, so that a percent sign is one.
    connection.exec_driver_sql(statements, execution_options={"no_parameters": True})


def _store_comments(connection: Connection) -> None:
    """Write the comments of the declared tables to the database, and one on every column of a view that has none: the
    common comment of its name, or the one that all tables' columns of this name have.
    """
    found: dict[str, set[str | None]] = {}
    statements = []
    for table in METADATA.tables.values():
        statements.append(f"COMMENT ON TABLE {table.name} IS {_quote(table.comment)}")
        for column in table.columns:
            statements.append(f'COMMENT ON COLUMN {table.name}."{column.name}" IS {_quote(column.comment)}')
            found.setdefault(column.name, set()).add(column.comment)
    inherited = {name: comments.pop() for name, comments in found.items() if len(comments) == 1} | COMMON_COMMENTS
    query = sa.text(
        "SELECT CAST(attrelid AS regclass) AS view, attname AS column FROM pg_attribute "
        "WHERE attrelid = ANY(CAST(:views AS regclass[])) AND attnum > 0 AND col_description(attrelid, attnum) IS NULL"
    )
    statements += [
        f'COMMENT ON COLUMN {row.view}."{row.column}" IS {_quote(inherited.get(row.column))}'
        for row in connection.execute(query, {"views": list(VIEWS)})
    ]
    _run(connection, "; ".join(statements))


def _quote(text: str | None) -> str:
    return "NULL" if text is None else "'" + text.replace("'", "''") + "'"


def delete_views(connection: Connection) -> None:
    """Drop all views that `create_views` makes, if they exist; no data is lost. The trigger functions stay."""
    for name in reversed(VIEWS):
        connection.exec_driver_sql(f"DROP VIEW IF EXISTS {name}")


def has_current_views(connection: Connection, metrics: MetricInputs, tables: Sequence[sa.Table] = ()) -> bool:
    """Whether all views and functions exist in the database with the definition that `create_views` would give them
    now. `tables` are those of installed sources, which inputs may read. False if one of these is missing and the
    definitions differ.
    """
    if _matches_definitions(connection, metrics):
        return True
    if not all(sa.inspect(connection).has_table(table.name) for table in tables):
        return False
    refused = find_refused_metrics(connection, metrics)
    return bool(refused) and _matches_definitions(connection, _exclude_refused(metrics, refused))


def explain_refused_metrics(connection: Connection, metrics: MetricInputs) -> dict[str, str]:
    """Return the metrics that the views were created without, each with the error by which Postgres refuses to compute
    its inputs; {} if the views have all. A metric that Postgres can compute by now is left out.

    If all metrics are in the views, only one statement is run.
    """
    made = _load_rule_digests(connection)
    return find_refused_metrics(
        connection, {name: inputs for name, inputs in metrics.items() if f"{_RULE}{name}" not in made}
    )


def _matches_definitions(connection: Connection, metrics: MetricInputs) -> bool:
    definitions = _build_definitions(add_imported_metrics(connection, metrics))
    return _load_digests(connection) == {name: _compute_digest(definition) for name, definition in definitions.items()}


def _exclude_refused(metrics: MetricInputs, refused: Collection[str]) -> MetricInputs:
    return {name: inputs for name, inputs in metrics.items() if name not in refused}


def _load_digests(connection: Connection) -> dict[str, bytes]:
    """Return the definition digests of the views and functions that the database has, by name; {} before the first
    migration.
    """
    if not sa.inspect(connection).has_table(view_definition.name):
        return {}
    name = view_definition.c.name
    is_there = sa.or_(sa.func.to_regclass(name).is_not(None), sa.func.to_regproc(name).is_not(None))
    query = sa.select(name, view_definition.c.sql_sha256).where(is_there)
    return {row.name: bytes(row.sql_sha256) for row in connection.execute(query)}


def _load_rule_digests(connection: Connection) -> dict[str, bytes]:
    """Return the digest of the rule by which scores of each metric were last compared, by _RULE and the
    metric's name.
    """
    query = sa.select(view_definition.c.name, view_definition.c.sql_sha256)
    rows = connection.execute(query.where(view_definition.c.name.startswith(_RULE, autoescape=True)))
    return {row.name: bytes(row.sql_sha256) for row in rows}


def _build_definitions(metrics: MetricInputs) -> dict[str, str]:
    for metric in metrics:
        if not _METRIC.fullmatch(metric):
            raise ValueError(
                f"metric name {metric!r} must be at most 40 lower-case letters, digits and _, a letter first"
            )
    parts = {
        "method_labels": LABEL_METHOD,
        "label_source": MANIFEST_LABEL_SOURCE,
        "stale_reason": STALE_REASON,
        "verdict_digest": build_digest_sql(VERDICT_INPUTS, "e.scorer_id"),
        "marks_by_metric": build_case_by_metric(
            {m: build_marks_sql(i, SCORER_COLUMN) for m, i in metrics.items()}, "c.input_marks"
        ),
        "columns": "".join(map(_build_columns, metrics)),
        "comments": "".join(map(_build_comments, metrics)),
        "joins": "".join(map(_build_join, metrics)),
    }
    functions = {name: read_sql(name) for name in FUNCTIONS} | build_mark_functions(metrics)
    return functions | {name: read_sql(name).format(**parts) for name in VIEWS}


def _build_columns(metric: str) -> str:
    score = f"{metric}_score"
    return (
        f",\n       CASE WHEN NOT {score}.is_stale THEN {score}.value END AS {metric}"
        f",\n       CASE WHEN {score}.is_stale THEN 'stale' ELSE {score}.status END AS {metric}_status"
        f",\n       {score}.is_stale AS {metric}_is_stale"
        f",\n       CASE WHEN {score}.sample_id IS NOT NULL THEN"
        f" (SELECT string_agg(model->>'model_id', ', ' ORDER BY role)"
        f" FROM scorer, jsonb_each(scorer.models) AS used (role, model)"
        f" WHERE metric = '{metric}' AND status = 'active') END AS {metric}_models"
    )


def _build_comments(metric: str) -> str:
    meaning = f"{_MEANINGS[metric]}, NULL" if metric in _MEANINGS else f"Score by {metric}; NULL if there is none,"
    comments = {
        "": f"{meaning} for the reason in {metric}_status.",
        "_status": "ok, stale, or why there is no value, such as no_reference; NULL where the sample is not scored "
        "yet.",
        "_is_stale": "Whether something changed since it was scored, so that it has no value; NULL where it is not "
        "scored.",
        "_models": "Names of the models that made the score, by role.",
    }
    return "".join(
        f"\nCOMMENT ON COLUMN sample_scores.{metric}{end} IS {_quote(text)};" for end, text in comments.items()
    )


def _build_join(metric: str) -> str:
    # A subquery in place of a join: Postgres then knows that it reads the scores of one scorer.
    return (
        f"\nLEFT JOIN score {metric}_score ON {metric}_score.sample_id = s.sample_id AND {metric}_score.scorer_id ="
        f" (SELECT scorer_id FROM scorer WHERE metric = '{metric}' AND status = 'active')"
    )


def _compute_digest(definition: str) -> bytes:
    # With the comments, so that a changed comment is written.
    comments = [(table.comment, [column.comment for column in table.columns]) for table in METADATA.tables.values()]
    return hashlib.sha256(f"{definition}{comments}".encode()).digest()
