"""selection counts: a selection keeps how many samples it was chosen among, and what it left out"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Without a default: nobody knows the counts of selections made before.
    op.add_column("selection", sa.Column("n_eligible", sa.BigInteger(), nullable=True))
    op.add_column("selection", sa.Column("n_duplicates", sa.BigInteger(), nullable=True))
    op.add_column("selection", sa.Column("unjudged", JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True))


def downgrade() -> None:
    for name in ("unjudged", "n_duplicates", "n_eligible"):
        op.drop_column("selection", name)
