"""Tables of QEVA's evidence: questions about videos and summaries, and the answers to them."""

from __future__ import annotations

import sqlalchemy as sa

from db.schema.columns import METADATA, digest, json, now, own_id, parent, text

# The questions of one dimension: of a video, or where a sample is named, of its text.
qeva_question_set = sa.Table(
    "qeva_question_set",
    METADATA,
    own_id("question_set_id"),
    parent("model.model_id"),
    text("dimension"),
    parent("video.video_id"),
    sa.Column("sample_id", sa.BigInteger, sa.ForeignKey("sample.sample_id", ondelete="CASCADE"), nullable=True),
    # What the questions were written from: another summary, or another video, asks for other questions.
    digest("source_sha256"),
    sa.Column("n_requested", sa.Integer, nullable=False),
    sa.Column("n_malformed", sa.Integer, nullable=False),
    text("status"),
    text("reason", nullable=True),
    text("run_id"),
    now("written_at"),
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
    own_id("question_id"),
    parent("qeva_question_set.question_set_id"),
    sa.Column("position", sa.Integer, nullable=False),
    text("kind"),
    text("text"),
    json("choices", nullable=False),
    text("answer"),
    text("category", nullable=True),
    json("events", nullable=False),
    json("statements", nullable=False),
    json("closed_book"),
    text("open_book", nullable=True),
    text("decision", nullable=True),
    text("filter_reason", nullable=True),
    text("filter_failure", nullable=True),
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
    parent("qeva_question.question_id", primary_key=True),
    parent("sample.sample_id", primary_key=True),
    parent("model.model_id", primary_key=True),
    # What the question was answered from: the summary, or the video.
    digest("context_sha256"),
    text("status"),
    text("raw"),
    text("normalised", nullable=True),
    sa.Column("correct", sa.Boolean, nullable=True),
    text("reason", nullable=True),
    sa.Column("score", sa.Double, nullable=True),
    text("evidence", nullable=True),
    text("run_id"),
    now("answered_at"),
    sa.Index("ix_qeva_answer_sample_id", "sample_id"),
    sa.CheckConstraint("status IN ('ok', 'abstain', 'malformed', 'refused', 'error')", name="status"),
    sa.CheckConstraint("(status = 'ok') = (normalised IS NOT NULL)", name="answer_iff_ok"),
    sa.CheckConstraint("correct IS NULL OR status IN ('ok', 'abstain')", name="judged_if_answered"),
)
