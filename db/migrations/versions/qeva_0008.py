"""qeva: questions about videos and summaries, and the answers to them"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    json = postgresql.JSONB(astext_type=sa.Text(), none_as_null=True)
    op.create_table(
        "qeva_question_set",
        sa.Column("question_set_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("model_id", sa.BigInteger(), nullable=False),
        sa.Column("dimension", sa.Text(), nullable=False),
        sa.Column("video_id", sa.BigInteger(), nullable=False),
        sa.Column("sample_id", sa.BigInteger(), nullable=True),
        sa.Column("source_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("n_requested", sa.Integer(), nullable=False),
        sa.Column("n_malformed", sa.Integer(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("written_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("status IN ('ok', 'refused', 'error')", name=op.f("ck_qeva_question_set_status")),
        sa.CheckConstraint("status = 'ok' OR reason IS NOT NULL", name=op.f("ck_qeva_question_set_reason_unless_ok")),
        sa.ForeignKeyConstraint(
            ["model_id"], ["model.model_id"], name=op.f("fk_qeva_question_set_model_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["video_id"], ["video.video_id"], name=op.f("fk_qeva_question_set_video_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["sample_id"], ["sample.sample_id"], name=op.f("fk_qeva_question_set_sample_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("question_set_id", name=op.f("pk_qeva_question_set")),
        sa.UniqueConstraint(
            "model_id",
            "video_id",
            "sample_id",
            "dimension",
            name="uq_qeva_question_set_source",
            postgresql_nulls_not_distinct=True,
        ),
    )
    op.create_index("ix_qeva_question_set_video_id", "qeva_question_set", ["video_id"])
    op.create_index("ix_qeva_question_set_sample_id", "qeva_question_set", ["sample_id"])
    op.create_table(
        "qeva_question",
        sa.Column("question_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("question_set_id", sa.BigInteger(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("choices", json, nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("category", sa.Text(), nullable=True),
        sa.Column("events", json, nullable=False),
        sa.Column("statements", json, nullable=False),
        sa.Column("closed_book", json, nullable=True),
        sa.Column("open_book", sa.Text(), nullable=True),
        sa.Column("decision", sa.Text(), nullable=True),
        sa.Column("filter_reason", sa.Text(), nullable=True),
        sa.Column("filter_failure", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "decision IN ('keep', 'trivial', 'low_quality', 'error')", name=op.f("ck_qeva_question_decision")
        ),
        sa.CheckConstraint(
            "filter_failure IN ('malformed', 'refused', 'error')", name=op.f("ck_qeva_question_filter_failure")
        ),
        sa.CheckConstraint(
            "(filter_failure IS NOT NULL) = (decision IS NOT DISTINCT FROM 'error')",
            name=op.f("ck_qeva_question_failure_iff_error"),
        ),
        sa.ForeignKeyConstraint(
            ["question_set_id"],
            ["qeva_question_set.question_set_id"],
            name=op.f("fk_qeva_question_question_set_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("question_id", name=op.f("pk_qeva_question")),
        sa.UniqueConstraint("question_set_id", "position", name=op.f("uq_qeva_question_question_set_id_position")),
    )
    op.create_table(
        "qeva_answer",
        sa.Column("question_id", sa.BigInteger(), nullable=False),
        sa.Column("sample_id", sa.BigInteger(), nullable=False),
        sa.Column("model_id", sa.BigInteger(), nullable=False),
        sa.Column("context_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("raw", sa.Text(), nullable=False),
        sa.Column("normalised", sa.Text(), nullable=True),
        sa.Column("correct", sa.Boolean(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("score", sa.Double(), nullable=True),
        sa.Column("evidence", sa.Text(), nullable=True),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("answered_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint(
            "status IN ('ok', 'abstain', 'malformed', 'refused', 'error')", name=op.f("ck_qeva_answer_status")
        ),
        sa.CheckConstraint("(status = 'ok') = (normalised IS NOT NULL)", name=op.f("ck_qeva_answer_answer_iff_ok")),
        sa.CheckConstraint(
            "correct IS NULL OR status IN ('ok', 'abstain')", name=op.f("ck_qeva_answer_judged_if_answered")
        ),
        sa.ForeignKeyConstraint(
            ["question_id"], ["qeva_question.question_id"], name=op.f("fk_qeva_answer_question_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["sample_id"], ["sample.sample_id"], name=op.f("fk_qeva_answer_sample_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["model_id"], ["model.model_id"], name=op.f("fk_qeva_answer_model_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("question_id", "sample_id", "model_id", name=op.f("pk_qeva_answer")),
    )
    op.create_index("ix_qeva_answer_sample_id", "qeva_answer", ["sample_id"])


def downgrade() -> None:
    for table in ("qeva_answer", "qeva_question", "qeva_question_set"):
        op.drop_table(table)
