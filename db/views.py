"""The views an analyst queries. They hold no data, so they are dropped and made anew rather than migrated."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection

VIEWS = ("sample_scores", "dataset_summary", "score_history", "keypoint_verdicts")
_SQL = Path(__file__).parent / "sql"
_METRIC = re.compile(r"[a-z][a-z0-9_]{0,39}")


def create_views(connection: Connection, metrics: Sequence[str]) -> None:
    """Make every view; sample_scores has columns `<metric>`, `<metric>_status` and `<metric>_models` for each metric.

    Raises ValueError for a metric whose name is no plain lower-case identifier.
    """
    if not is_up_to_date(connection, metrics):
        connection.execute(sa.text("DROP VIEW IF EXISTS sample_scores"))
        connection.exec_driver_sql(_sample_scores_sql(metrics))
    for name in VIEWS[1:]:
        connection.exec_driver_sql((_SQL / f"{name}.sql").read_text())


def is_up_to_date(connection: Connection, metrics: Sequence[str]) -> bool:
    """Whether sample_scores has the columns of these metrics."""
    return _columns(connection, "sample_scores") == sample_scores_columns(metrics)


def drop_views(connection: Connection) -> None:
    """Remove every view, so that a migration may change the tables below them."""
    for name in VIEWS:
        connection.exec_driver_sql(f"DROP VIEW IF EXISTS {name}")


def sample_scores_columns(metrics: Sequence[str]) -> list[str]:
    """The columns of sample_scores in order."""
    base = [
        "dataset",
        "shard",
        "video",
        "kind",
        "sample",
        "system",
        "text",
        "video_status",
        "duration_s",
        "sample_id",
    ]
    return base + [column for metric in metrics for column in (metric, f"{metric}_status", f"{metric}_models")]


def _sample_scores_sql(metrics: Sequence[str]) -> str:
    for metric in metrics:
        if not _METRIC.fullmatch(metric):
            raise ValueError(f"metric name {metric!r} must be lower-case letters, digits and underscores")
    columns = "".join(
        f",\n       {m}_score.value AS {m},\n       {m}_score.status AS {m}_status"
        f",\n       {m}_models.models AS {m}_models"
        for m in metrics
    )
    joins = "".join(
        f"\nLEFT JOIN scorer {m}_scorer ON {m}_scorer.metric = '{m}' AND {m}_scorer.status = 'active'"
        f"\nLEFT JOIN score {m}_score ON {m}_score.scorer_id = {m}_scorer.scorer_id"
        f" AND {m}_score.sample_id = s.sample_id"
        # Grouped by scorer_id, so that Postgres sees one row per scorer and drops the join where nobody asks for it.
        f"\nLEFT JOIN (SELECT scorer_id, string_agg(model->>'model_id', ', ' ORDER BY role) AS models"
        f" FROM scorer, jsonb_each(scorer.models) AS used (role, model) GROUP BY scorer_id) {m}_models"
        f" ON {m}_models.scorer_id = {m}_score.scorer_id"
        for m in metrics
    )
    return (_SQL / "sample_scores.sql").read_text().format(columns=columns, joins=joins)


def _columns(connection: Connection, view: str) -> list[str]:
    query = sa.text(
        "SELECT column_name FROM information_schema.columns "
        "WHERE table_schema = 'public' AND table_name = :view ORDER BY ordinal_position"
    )
    return list(connection.scalars(query, {"view": view}))
