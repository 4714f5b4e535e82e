"""frame sets: what became of a video's frames under an encoder"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "frame_set",
        sa.Column("encoder_id", sa.BigInteger(), nullable=False),
        sa.Column("video_id", sa.BigInteger(), nullable=False),
        sa.Column("content_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("n_frames", sa.Integer(), nullable=True),
        sa.Column("n_sampled", sa.Integer(), nullable=False),
        sa.Column("reader", sa.Text(), nullable=True),
        sa.Column("encoded_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("(status = 'ok') = (error IS NULL)", name=op.f("ck_frame_set_reason_unless_ok")),
        sa.CheckConstraint("status IN ('ok', 'unreadable', 'failed')", name=op.f("ck_frame_set_status")),
        sa.ForeignKeyConstraint(
            ["encoder_id"], ["encoder.encoder_id"], name=op.f("fk_frame_set_encoder_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["video_id"], ["video.video_id"], name=op.f("fk_frame_set_video_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("encoder_id", "video_id", name=op.f("pk_frame_set")),
    )
    op.create_index("ix_frame_set_video_id", "frame_set", ["video_id"], unique=False)


def downgrade() -> None:
    op.drop_index("ix_frame_set_video_id", table_name="frame_set")
    op.drop_table("frame_set")
