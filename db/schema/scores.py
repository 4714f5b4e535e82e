"""Tables of scorers, their scores, scores that were replaced, and counts of scores by shard."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from db.schema.columns import METADATA, digest_column, id_column, json_column, parent_column, text_column, time_column

scorer = sa.Table(
    "scorer",
    METADATA,
    id_column("scorer_id"),
    text_column("metric"),
    sa.Column("fingerprint", sa.Text, nullable=False, unique=True),
    json_column("models", nullable=False),
    json_column("params", nullable=False),
    text_column("code_version"),
    text_column("status"),
    time_column("created_at"),
    sa.CheckConstraint("status IN ('candidate', 'active', 'retired')", name="status"),
    sa.Index("uq_scorer_active_metric", "metric", unique=True, postgresql_where=sa.text("status = 'active'")),
)

score = sa.Table(
    "score",
    METADATA,
    parent_column("scorer.scorer_id"),
    parent_column("sample.sample_id"),
    digest_column("input_sha256"),
    sa.Column("input_marks", JSONB(none_as_null=True), nullable=False, server_default="{}"),
    sa.Column("value", sa.Double, nullable=True),
    json_column("components", nullable=False),
    text_column("status"),
    text_column("error", nullable=True),
    # Whether an input has changed since: kept by triggers, see db/schema/marks.py.
    sa.Column("is_stale", sa.Boolean, nullable=False, server_default="false"),
    text_column("run_id"),
    time_column("scored_at"),
    # The index has the values next to the key, so that scorers are merged by sample without reading the rows.
    sa.PrimaryKeyConstraint("scorer_id", "sample_id", postgresql_include=["value", "is_stale"]),
    sa.Index("ix_score_sample_id", "sample_id"),
    # Finds the best samples of a scorer without reading the others, and all values without the rows.
    sa.Index(
        "ix_score_scorer_id_value",
        "scorer_id",
        sa.text("value DESC NULLS LAST"),
        postgresql_include=["sample_id", "is_stale"],
    ),
    sa.CheckConstraint("(status = 'ok') = (value IS NOT NULL)", name="value_iff_ok"),
    sa.CheckConstraint("value <> 'NaN' AND abs(value) < 'Infinity'", name="value_finite"),
    sa.CheckConstraint("(status = 'ok') = (error IS NULL)", name="reason_unless_ok"),
)

# Kept by triggers: how many samples of a shard have which status, "stale" if their score was made from other inputs.
shard_count = sa.Table(
    "shard_count",
    METADATA,
    parent_column("scorer.scorer_id", primary_key=True),
    parent_column("dataset.dataset_id", primary_key=True),
    sa.Column("shard", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("status", sa.Text, primary_key=True),
    sa.Column("n", sa.BigInteger, nullable=False),
)

# Filled by a trigger on score: a score before it was replaced, and the reason for replacing it.
past_score = sa.Table(
    "past_score",
    METADATA,
    id_column("past_score_id"),
    parent_column("scorer.scorer_id"),
    parent_column("sample.sample_id"),
    digest_column("input_sha256"),
    sa.Column("value", sa.Double, nullable=True),
    json_column("components", nullable=False),
    text_column("status"),
    text_column("error", nullable=True),
    text_column("run_id"),
    sa.Column("scored_at", sa.DateTime(timezone=True), nullable=False),
    time_column("replaced_at"),
    text_column("reason"),
    sa.Index("ix_past_score_sample_id", "sample_id"),
    sa.Index("ix_past_score_scorer_id", "scorer_id"),
)
