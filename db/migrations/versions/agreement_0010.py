"""agreement: how each metric agrees with people on a dataset"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "agreement",
        sa.Column("agreement_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("dataset_id", sa.BigInteger(), nullable=False),
        sa.Column("scorer_id", sa.BigInteger(), nullable=True),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("aspect", sa.Text(), nullable=False),
        sa.Column("grouping", sa.Text(), nullable=False),
        sa.Column("statistic", sa.Text(), nullable=False),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("low", sa.Double(), nullable=True),
        sa.Column("high", sa.Double(), nullable=True),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.Column("n_undefined", sa.BigInteger(), nullable=False),
        sa.Column("n_undefined_resamples", sa.BigInteger(), nullable=False),
        sa.Column("n_stale", sa.BigInteger(), nullable=False),
        sa.Column("baseline", sa.Boolean(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["dataset.dataset_id"], name=op.f("fk_agreement_dataset_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["scorer_id"], ["scorer.scorer_id"], name=op.f("fk_agreement_scorer_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("agreement_id", name=op.f("pk_agreement")),
        sa.UniqueConstraint("dataset_id", "metric", "aspect", "grouping", "statistic", name="uq_agreement_statistic"),
    )


def downgrade() -> None:
    op.drop_table("agreement")
