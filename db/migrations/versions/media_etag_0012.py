"""media etag: the mark by which a store tells the contents of a video's object apart; NULL for files"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("video", sa.Column("etag", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("video", "etag")
