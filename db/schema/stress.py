"""Tables of stressed metrics: how much fixed rewrites of captions change their values."""

from __future__ import annotations

import sqlalchemy as sa

from db.schema.columns import METADATA, json_column, parent_column, text_column, time_column

stress_result = sa.Table(
    "stress_result",
    METADATA,
    parent_column("dataset.dataset_id", primary_key=True),
    parent_column("scorer.scorer_id", primary_key=True),
    sa.Column("seed", sa.BigInteger, nullable=False),
    sa.Column("n_drawn", sa.BigInteger, nullable=False),
    sa.Column("n_timed", sa.BigInteger, nullable=False),
    sa.Column("n_unscored", sa.BigInteger, nullable=False),
    sa.Column("n_captions", sa.BigInteger, nullable=False),
    sa.Column("n_videos", sa.BigInteger, nullable=False),
    sa.Column("small_change", sa.Double, nullable=False),
    time_column("stressed_at"),
    sa.Index("ix_stress_result_scorer_id", "scorer_id"),
)

stress_effect = sa.Table(
    "stress_effect",
    METADATA,
    sa.Column("dataset_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("scorer_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("rewrite", sa.Text, primary_key=True),
    sa.Column("keeps_truth", sa.Boolean, nullable=False),
    text_column("conclusion"),
    sa.Column("n", sa.BigInteger, nullable=False),
    sa.Column("n_videos", sa.BigInteger, nullable=False),
    sa.Column("change", sa.Double, nullable=True),
    sa.Column("low", sa.Double, nullable=True),
    sa.Column("high", sa.Double, nullable=True),
    sa.Column("rank_change", sa.Double, nullable=True),
    sa.Column("rank_low", sa.Double, nullable=True),
    sa.Column("rank_high", sa.Double, nullable=True),
    sa.Column("rise_share", sa.Double, nullable=True),
    sa.Column("fall_share", sa.Double, nullable=True),
    sa.Column("p_value", sa.Double, nullable=True),
    sa.Column("n_not_applicable", sa.BigInteger, nullable=False),
    json_column("unscored", nullable=False),
    sa.Column("best_look_alike", sa.Double, nullable=True),
    sa.Column("all_look_alike", sa.Double, nullable=True),
    sa.ForeignKeyConstraint(
        ["dataset_id", "scorer_id"], ["stress_result.dataset_id", "stress_result.scorer_id"], ondelete="CASCADE"
    ),
    sa.CheckConstraint("conclusion IN ('gains_from_nothing', 'does_not_lose', 'fine', 'open')", name="conclusion"),
)
