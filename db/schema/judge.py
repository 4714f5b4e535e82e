"""Tables of the judge's answers, and of the parts of datasets that a metric is asked about."""

from __future__ import annotations

import sqlalchemy as sa

from db.schema.columns import METADATA, digest_column, id_column, json_column, parent_column, text_column, time_column

# One answer of a judge about the text of a sample; scores are made of the one with repeat 0.
judge_answer = sa.Table(
    "judge_answer",
    METADATA,
    parent_column("sample.sample_id", primary_key=True),
    parent_column("model.model_id", primary_key=True),
    sa.Column("repeat", sa.Integer, primary_key=True, autoincrement=False),
    # Digest of the text and the video that were judged.
    digest_column("context_sha256"),
    sa.Column("score", sa.Integer, nullable=True),
    sa.Column("value", sa.Double, nullable=True),
    text_column("value_from", nullable=True),
    json_column("spans", nullable=False),
    sa.Column("n_not_in_text", sa.Integer, nullable=False),
    sa.Column("n_surplus", sa.Integer, nullable=False),
    text_column("why", nullable=True),
    text_column("status"),
    text_column("reason", nullable=True),
    text_column("run_id"),
    time_column("answered_at"),
    sa.CheckConstraint("status IN ('ok', 'refused', 'cut', 'malformed', 'failed')", name="status"),
    sa.CheckConstraint("value_from IN ('logprobs', 'answer')", name="value_from"),
    # Refuses NaN too, which Postgres holds to be greater than every number.
    sa.CheckConstraint("value BETWEEN 0 AND 1", name="value"),
    sa.CheckConstraint("(status = 'ok') = (value IS NOT NULL)", name="value_iff_ok"),
    sa.CheckConstraint("(status = 'ok') = (reason IS NULL)", name="reason_unless_ok"),
    sa.CheckConstraint("num_nulls(score, value, value_from, why) IN (0, 4)", name="whole_answer"),
)

# A draw asks a metric only about the first n samples of a dataset, or of those that meet a condition, by draw_number.
sample_draw = sa.Table(
    "sample_draw",
    METADATA,
    id_column("draw_id"),
    parent_column("dataset.dataset_id"),
    text_column("metric"),
    sa.Column("seed", sa.BigInteger, nullable=False),
    text_column("condition", nullable=True),
    sa.Column("n_wanted", sa.BigInteger, nullable=False),
    # The greatest id of a sample when it was taken: it is taken again when there are newer samples.
    sa.Column("last_sample_id", sa.BigInteger, nullable=False),
    time_column("drawn_at"),
    sa.UniqueConstraint("dataset_id", "metric", "seed", "condition", postgresql_nulls_not_distinct=True),
    sa.CheckConstraint("n_wanted > 0", name="n_wanted"),
)

# The samples that the draws of a metric have reached; once drawn, a sample stays drawn. A judge is to give n_answers.
drawn_sample = sa.Table(
    "drawn_sample",
    METADATA,
    parent_column("sample.sample_id", primary_key=True),
    sa.Column("metric", sa.Text, primary_key=True),
    time_column("drawn_at"),
    sa.Column("n_answers", sa.Integer, nullable=False, server_default="1"),
    sa.CheckConstraint("n_answers > 0", name="n_answers"),
)
