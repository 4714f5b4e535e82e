"""plumbing: a schema of its own for the views that only other views and programs read"""

from __future__ import annotations

from alembic import op

revision = "0015"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("CREATE SCHEMA plumbing")
    op.execute("COMMENT ON SCHEMA plumbing IS 'Views that only other views and programs read.'")


def downgrade() -> None:
    op.execute("DROP SCHEMA plumbing")
