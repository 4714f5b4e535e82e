"""members: the place of a video inside a tar file"""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE video ADD COLUMN member_offset BIGINT")
