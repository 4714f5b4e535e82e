"""ecs: judged pairs, verdicts on keypoints, and what a threshold rests on"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "verifier",
        sa.Column("verifier_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("model_id", sa.Text(), nullable=False),
        sa.Column("revision", sa.Text(), nullable=False),
        sa.Column("params", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("verifier_id", name=op.f("pk_verifier")),
        sa.UniqueConstraint("fingerprint", name=op.f("uq_verifier_fingerprint")),
    )
    op.create_table(
        "entailment",
        sa.Column("verifier_id", sa.BigInteger(), nullable=False),
        sa.Column("pair_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("probability", sa.Double(), nullable=False),
        sa.Column("truncated", sa.Boolean(), nullable=False),
        sa.CheckConstraint("probability BETWEEN 0 AND 1", name=op.f("ck_entailment_probability")),
        sa.ForeignKeyConstraint(
            ["verifier_id"], ["verifier.verifier_id"], name=op.f("fk_entailment_verifier_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("verifier_id", "pair_sha256", name=op.f("pk_entailment")),
    )
    op.create_table(
        "verdict_set",
        sa.Column("scorer_id", sa.BigInteger(), nullable=False),
        sa.Column("sample_id", sa.BigInteger(), nullable=False),
        sa.Column("input_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("n_sentences", sa.Integer(), nullable=False),
        sa.Column("n_passes", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("verified_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("(status = 'ok') = (error IS NULL)", name=op.f("ck_verdict_set_reason_unless_ok")),
        sa.CheckConstraint("status IN ('ok', 'unverifiable')", name=op.f("ck_verdict_set_status")),
        sa.ForeignKeyConstraint(
            ["sample_id"], ["sample.sample_id"], name=op.f("fk_verdict_set_sample_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["scorer_id"], ["scorer.scorer_id"], name=op.f("fk_verdict_set_scorer_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("scorer_id", "sample_id", name=op.f("pk_verdict_set")),
    )
    op.create_index("ix_verdict_set_sample_id", "verdict_set", ["sample_id"], unique=False)
    op.create_table(
        "ecs_verdict",
        sa.Column("scorer_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("sample_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("keypoint_id", sa.BigInteger(), nullable=False),
        sa.Column("probability", sa.Double(), nullable=True),
        sa.Column("sentence_index", sa.Integer(), nullable=True),
        sa.Column("sentence", sa.Text(), nullable=True),
        sa.Column("is_lower_bound", sa.Boolean(), nullable=False),
        sa.Column("n_passes", sa.Integer(), nullable=False),
        sa.CheckConstraint("probability BETWEEN 0 AND 1", name=op.f("ck_ecs_verdict_probability")),
        sa.CheckConstraint(
            "num_nulls(probability, sentence_index, sentence) IN (0, 3)", name=op.f("ck_ecs_verdict_best_sentence")
        ),
        sa.ForeignKeyConstraint(
            ["keypoint_id"], ["keypoint.keypoint_id"], name=op.f("fk_ecs_verdict_keypoint_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["scorer_id", "sample_id"],
            ["verdict_set.scorer_id", "verdict_set.sample_id"],
            name=op.f("fk_ecs_verdict_scorer_id_sample_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("scorer_id", "sample_id", "keypoint_id", name=op.f("pk_ecs_verdict")),
    )
    op.create_index("ix_ecs_verdict_keypoint_id", "ecs_verdict", ["keypoint_id"], unique=False)
    op.create_index("ix_ecs_verdict_sample_id", "ecs_verdict", ["sample_id"], unique=False)
    op.add_column("threshold", sa.Column("n_positive", sa.BigInteger(), nullable=True))
    op.add_column(
        "threshold",
        sa.Column(
            "details",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            server_default="{}",
            nullable=False,
        ),
    )


def downgrade() -> None:
    op.drop_column("threshold", "details")
    op.drop_column("threshold", "n_positive")
    op.drop_index("ix_ecs_verdict_sample_id", table_name="ecs_verdict")
    op.drop_index("ix_ecs_verdict_keypoint_id", table_name="ecs_verdict")
    op.drop_table("ecs_verdict")
    op.drop_index("ix_verdict_set_sample_id", table_name="verdict_set")
    op.drop_table("verdict_set")
    op.drop_table("entailment")
    op.drop_table("verifier")
