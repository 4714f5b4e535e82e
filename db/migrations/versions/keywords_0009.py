"""keywords: those that chat models extract for EVQAScore"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "keyword_set",
        sa.Column("model_id", sa.BigInteger(), nullable=False),
        sa.Column("text_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("keywords", postgresql.JSONB(astext_type=sa.Text(), none_as_null=True), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("extracted_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("status IN ('ok', 'refused', 'failed')", name=op.f("ck_keyword_set_status")),
        sa.CheckConstraint("(status = 'ok') = (reason IS NULL)", name=op.f("ck_keyword_set_reason_unless_ok")),
        sa.CheckConstraint("status = 'ok' OR keywords = '[]'", name=op.f("ck_keyword_set_keywords_if_ok")),
        sa.ForeignKeyConstraint(
            ["model_id"], ["model.model_id"], name=op.f("fk_keyword_set_model_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("model_id", "text_sha256", name=op.f("pk_keyword_set")),
    )


def downgrade() -> None:
    op.drop_table("keyword_set")
