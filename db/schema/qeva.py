"""Tables of QEVA's evidence: questions about videos and captions, and the answers to them."""

from __future__ import annotations

import sqlalchemy as sa

from db.schema.columns import METADATA, digest_column, id_column, json_column, parent_column, text_column, time_column

# The questions of one dimension, about a video, or if a sample is named, about its text.
qeva_question_set = sa.Table(
    "qeva_question_set",
    METADATA,
    id_column("question_set_id"),
    parent_column("model.model_id"),
    text_column("dimension"),
    parent_column("video.video_id"),
    sa.Column("sample_id", sa.BigInteger, sa.ForeignKey("sample.sample_id", ondelete="CASCADE"), nullable=True),
    # Digest of the text or video that the questions were written from; if it changes, new questions are needed.
    digest_column("source_sha256"),
    sa.Column("n_requested", sa.Integer, nullable=False),
    sa.Column("n_malformed", sa.Integer, nullable=False),
    text_column("status"),
    text_column("reason", nullable=True),
    text_column("run_id"),
    time_column("written_at"),
    sa.UniqueConstraint(
        "model_id",
        "video_id",
        "sample_id",
        "dimension",
        name="uq_qeva_question_set_source",
        postgresql_nulls_not_distinct=True,
    ),
    sa.Index("ix_qeva_question_set_video_id", "video_id"),
    sa.Index("ix_qeva_question_set_sample_id", "sample_id"),
    sa.CheckConstraint("status IN ('ok', 'refused', 'error')", name="status"),
    sa.CheckConstraint("status = 'ok' OR reason IS NOT NULL", name="reason_unless_ok"),
)

# Without a decision, a question is still to be filtered.
qeva_question = sa.Table(
    "qeva_question",
    METADATA,
    id_column("question_id"),
    parent_column("qeva_question_set.question_set_id"),
    sa.Column("position", sa.Integer, nullable=False),
    text_column("kind"),
    text_column("text"),
    json_column("choices", nullable=False),
    text_column("answer"),
    text_column("category", nullable=True),
    json_column("events", nullable=False),
    json_column("statements", nullable=False),
    json_column("closed_book"),
    text_column("open_book", nullable=True),
    text_column("decision", nullable=True),
    text_column("filter_reason", nullable=True),
    text_column("filter_failure", nullable=True),
    sa.UniqueConstraint("question_set_id", "position"),
    sa.CheckConstraint("decision IN ('keep', 'trivial', 'low_quality', 'error')", name="decision"),
    sa.CheckConstraint("filter_failure IN ('malformed', 'refused', 'error')", name="filter_failure"),
    sa.CheckConstraint(
        "(filter_failure IS NOT NULL) = (decision IS NOT DISTINCT FROM 'error')", name="failure_iff_error"
    ),
)

qeva_answer = sa.Table(
    "qeva_answer",
    METADATA,
    parent_column("qeva_question.question_id", primary_key=True),
    parent_column("sample.sample_id", primary_key=True),
    parent_column("model.model_id", primary_key=True),
    # Digest of the text or video that the question was answered from.
    digest_column("context_sha256"),
    text_column("status"),
    text_column("raw"),
    text_column("normalised", nullable=True),
    sa.Column("correct", sa.Boolean, nullable=True),
    text_column("reason", nullable=True),
    sa.Column("score", sa.Double, nullable=True),
    text_column("evidence", nullable=True),
    text_column("run_id"),
    time_column("answered_at"),
    sa.Index("ix_qeva_answer_sample_id", "sample_id"),
    sa.CheckConstraint("status IN ('ok', 'abstain', 'malformed', 'refused', 'error')", name="status"),
    sa.CheckConstraint("(status = 'ok') = (normalised IS NOT NULL)", name="answer_iff_ok"),
    sa.CheckConstraint("correct IS NULL OR status IN ('ok', 'abstain')", name="judged_if_answered"),
)
