"""text chunks: a vector says of how many chunks of its text it is the mean"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("text_embedding", sa.Column("n_chunks", sa.SmallInteger(), nullable=False, server_default="1"))


def downgrade() -> None:
    op.drop_column("text_embedding", "n_chunks")
