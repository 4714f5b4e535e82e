"""own names: tables video and sample have their key under the name of the table, too"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("video", "sample"):
        op.add_column(name, sa.Column(name, sa.Text(), sa.Computed("key", persisted=True), nullable=True))


def downgrade() -> None:
    for name in ("sample", "video"):
        op.drop_column(name, name)
