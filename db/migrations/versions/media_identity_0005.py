"""media identity: change time and inode of a video's file, unknown for what was ingested before"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("video", sa.Column("ctime_ns", sa.BigInteger(), nullable=True))
    op.add_column("video", sa.Column("inode", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    op.drop_column("video", "inode")
    op.drop_column("video", "ctime_ns")
