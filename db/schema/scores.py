"""Tables of scorers, their scores, scores that were replaced, and counts of scores by shard."""

from __future__ import annotations

import sqlalchemy as sa

from db.schema.columns import (
    column,
    declare_table,
    digest_column,
    id_column,
    json_column,
    key_column,
    measure_column,
    parent_column,
    text_column,
    time_column,
)

scorer = declare_table(
    "scorer",
    "A metric with fixed models and parameters; another model or parameter is another scorer.",
    id_column("scorer_id", "Number of the scorer."),
    text_column("metric"),
    column("fingerprint", sa.Text, "SHA-256 of metric, models, parameters and code version.", unique=True),
    json_column("models", "The models by role, each with model_id (its name), revision and params."),
    json_column("params", "Parameters of the metric."),
    text_column("code_version", "Version of the metric's code; it rises when numbers change."),
    text_column("status", "active (sample_scores shows it), candidate (it has no good score yet), or retired."),
    time_column("created_at"),
    sa.CheckConstraint("status IN ('candidate', 'active', 'retired')", name="status"),
    sa.Index("uq_scorer_active_metric", "metric", unique=True, postgresql_where=sa.text("status = 'active'")),
)

score = declare_table(
    "score",
    "The latest score of a sample by a scorer: a value, or a status with the reason why there is none.",
    parent_column("scorer.scorer_id"),
    parent_column("sample.sample_id"),
    digest_column("input_sha256"),
    json_column(
        "input_marks", "Short digest of every input, by which view score_history names the inputs that changed."
    ),
    measure_column("value", "The score; NULL where it is undefined."),
    json_column("components", "Parts of the score, by name."),
    text_column("status", "ok, or why there is no value, such as no_reference or too_short."),
    text_column("error", "The reason in a sentence; NULL where the status is ok.", nullable=True),
    column(
        "is_stale",
        sa.Boolean,
        "Whether an input has changed since, so that views show no value; kept up to date by triggers.",
        server_default="false",
    ),
    text_column("run_id"),
    time_column("scored_at", "When the sample was scored."),
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
shard_count = declare_table(
    "shard_count",
    "Number of samples of a shard that have one status by one scorer; kept up to date by triggers.",
    parent_column("scorer.scorer_id", primary_key=True),
    parent_column("dataset.dataset_id", primary_key=True),
    key_column("shard", sa.Integer),
    key_column(
        "status", sa.Text, "stale where an input changed since the sample was scored, else the status of its score."
    ),
    column("n", sa.BigInteger, "Number of samples."),
)

# Filled by a trigger on score: a score before it was replaced, and the reason for replacing it.
past_score = declare_table(
    "past_score",
    "A score before it was replaced; view score_history shows it with the present ones.",
    id_column("past_score_id", "Number of the row; later ones are higher."),
    parent_column("scorer.scorer_id"),
    parent_column("sample.sample_id"),
    digest_column("input_sha256"),
    measure_column("value", "The score as it was; NULL where it was undefined."),
    json_column("components", "Parts of the score, by name."),
    text_column("status", "ok, or why there was no value."),
    text_column("error", "The reason in a sentence; NULL where the status was ok.", nullable=True),
    text_column("run_id"),
    column("scored_at", sa.DateTime(timezone=True), "When the sample was scored."),
    time_column("replaced_at", "When another score replaced this one."),
    text_column(
        "reason",
        'Why it was replaced: the names of the changed inputs, "inputs" if they are not known, "tried again" after '
        'a failure, or "rule" if no input changed.',
    ),
    sa.Index("ix_past_score_sample_id", "sample_id"),
    sa.Index("ix_past_score_scorer_id", "scorer_id"),
)
