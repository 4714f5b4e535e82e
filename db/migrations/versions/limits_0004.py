"""limits: how many refused rows one line of ingest_reject stands for"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("ingest_reject", sa.Column("n_rows", sa.BigInteger(), server_default="1", nullable=False))


def downgrade() -> None:
    op.drop_column("ingest_reject", "n_rows")
