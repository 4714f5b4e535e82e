"""chat: valid answers of language models, and every call that was made for them"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "chat_reply",
        sa.Column("request_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("model_id", sa.BigInteger(), nullable=False),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("data", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False),
        sa.Column("calls", sa.Integer(), nullable=False),
        sa.Column("tokens_in", sa.BigInteger(), nullable=False),
        sa.Column("tokens_out", sa.BigInteger(), nullable=False),
        sa.Column("money", sa.Double(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["model_id"], ["model.model_id"], name=op.f("fk_chat_reply_model_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("request_sha256", name=op.f("pk_chat_reply")),
    )
    op.create_index("ix_chat_reply_model_id", "chat_reply", ["model_id"], unique=False)
    op.create_table(
        "chat_call",
        sa.Column("chat_call_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("model_id", sa.BigInteger(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("request_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("http_status", sa.Integer(), nullable=True),
        sa.Column("tokens_in", sa.BigInteger(), nullable=False),
        sa.Column("tokens_out", sa.BigInteger(), nullable=False),
        sa.Column("money", sa.Double(), nullable=True),
        sa.Column("duration_s", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint(
            "outcome IN ('ok', 'malformed', 'truncated', 'refused', 'unreachable', 'rejected', 'wrong_model')",
            name=op.f("ck_chat_call_outcome"),
        ),
        sa.CheckConstraint("(outcome = 'ok') = (error IS NULL)", name=op.f("ck_chat_call_reason_unless_ok")),
        sa.ForeignKeyConstraint(
            ["model_id"], ["model.model_id"], name=op.f("fk_chat_call_model_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("chat_call_id", name=op.f("pk_chat_call")),
    )
    op.create_index("ix_chat_call_model_id", "chat_call", ["model_id"], unique=False)
    op.create_index("ix_chat_call_run_id", "chat_call", ["run_id"], unique=False)


def downgrade() -> None:
    op.drop_index("ix_chat_call_run_id", table_name="chat_call")
    op.drop_index("ix_chat_call_model_id", table_name="chat_call")
    op.drop_table("chat_call")
    op.drop_index("ix_chat_reply_model_id", table_name="chat_reply")
    op.drop_table("chat_reply")
