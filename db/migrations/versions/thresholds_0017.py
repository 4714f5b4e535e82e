"""thresholds: cuts on scores and cuts on probabilities of keypoints are tables of their own"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

# The function is of revision 0011: only thresholds on keypoints enter a score.
TRIGGERS = {
    "inserted": "INSERT ON {table} REFERENCING NEW TABLE AS touched",
    "deleted": "DELETE ON {table} REFERENCING OLD TABLE AS touched",
    "moved_away": "UPDATE ON {table} REFERENCING OLD TABLE AS touched",
    "updated": "UPDATE ON {table} REFERENCING NEW TABLE AS touched",
}
COMMON = "scorer_id, dataset_id, scope, shard, method, objective"
LAST = "n, details, created_at"
TO_SCORES = f"""
INSERT INTO score_threshold (score_threshold_id, {COMMON}, at_least, {LAST})
SELECT threshold_id, {COMMON}, value, {LAST} FROM threshold WHERE dimension IS NULL
"""
TO_KEYPOINTS = f"""
INSERT INTO keypoint_threshold (keypoint_threshold_id, {COMMON}, dimension, threshold, n_positive, {LAST})
SELECT threshold_id, {COMMON}, dimension, value, n_positive, {LAST} FROM threshold WHERE dimension IS NOT NULL
"""
FROM_KEYPOINTS = f"""
INSERT INTO threshold (threshold_id, {COMMON}, dimension, value, n_positive, {LAST})
SELECT keypoint_threshold_id, {COMMON}, dimension, threshold, n_positive, {LAST} FROM keypoint_threshold
"""
# Both tables count from 1: a number that is taken becomes a new one. Intervals have no place in the old table.
FROM_SCORES = f"""
INSERT INTO threshold (threshold_id, {COMMON}, value, {LAST})
SELECT CASE WHEN EXISTS (SELECT 1 FROM keypoint_threshold k WHERE k.keypoint_threshold_id = s.score_threshold_id)
            THEN nextval(pg_get_serial_sequence('threshold', 'threshold_id'))
            ELSE s.score_threshold_id END,
       {COMMON}, at_least, {LAST}
FROM score_threshold s
"""


def upgrade() -> None:
    _table("keypoint_threshold", _of_keypoints("threshold", nullable=False), "dimension")
    _table("score_threshold", _of_scores())
    op.execute(TO_KEYPOINTS)
    op.execute(TO_SCORES)
    for table in ("keypoint_threshold", "score_threshold"):
        _count_on(table, f"{table}_id", "threshold", "threshold_id")
    op.drop_table("threshold")
    _triggers("keypoint_threshold")


def downgrade() -> None:
    _table("threshold", _of_keypoints("value", nullable=True), "dimension")
    op.execute(FROM_KEYPOINTS)
    for table in ("keypoint_threshold", "score_threshold"):
        _count_on("threshold", "threshold_id", table, f"{table}_id")
    op.execute(FROM_SCORES)
    op.drop_table("score_threshold")
    op.drop_table("keypoint_threshold")
    _triggers("threshold")


def _of_keypoints(value: str, *, nullable: bool) -> list[sa.Column[object]]:
    return [
        sa.Column("dimension", sa.Text(), nullable=nullable),
        sa.Column(value, sa.Double(), nullable=False),
        sa.Column("n_positive", sa.BigInteger(), nullable=True),
    ]


def _of_scores() -> list[sa.Column[object]]:
    return [
        sa.Column("at_least", sa.Double(), nullable=False),
        sa.Column("low", sa.Double(), nullable=True),
        sa.Column("high", sa.Double(), nullable=True),
        sa.Column("n_good", sa.BigInteger(), nullable=True),
    ]


def _table(name: str, own: list[sa.Column[object]], *unique: str) -> None:
    op.create_table(
        name,
        sa.Column(f"{name}_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("scorer_id", sa.BigInteger(), nullable=False),
        sa.Column("dataset_id", sa.BigInteger(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("shard", sa.Integer(), nullable=True),
        *own,
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("objective", sa.Text(), nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.Column(
            "details",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            server_default="{}",
            nullable=False,
        ),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("scope IN ('dataset', 'shard')", name=op.f(f"ck_{name}_scope")),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["dataset.dataset_id"], name=op.f(f"fk_{name}_dataset_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["scorer_id"], ["scorer.scorer_id"], name=op.f(f"fk_{name}_scorer_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint(f"{name}_id", name=op.f(f"pk_{name}")),
        sa.UniqueConstraint(
            *("scorer_id", "dataset_id", "scope", "shard", *unique, "method", "objective"),
            name=op.f(f"uq_{name}_scope"),
            postgresql_nulls_not_distinct=True,
        ),
    )


def _count_on(table: str, key: str, other: str, other_key: str) -> None:
    """Let the next number of a table be greater than all of its own and of the other table."""
    op.execute(
        f"SELECT setval(pg_get_serial_sequence('{table}', '{key}'), "
        f"(SELECT max(number) FROM (SELECT {key} AS number FROM {table} UNION ALL "
        f"SELECT {other_key} FROM {other}) both_tables))"
    )


def _triggers(table: str) -> None:
    for name, change in TRIGGERS.items():
        op.execute(
            f"CREATE TRIGGER {table}_counts_{name} AFTER {change.format(table=table)} "
            "FOR EACH STATEMENT EXECUTE FUNCTION change_thresholds()"
        )
    op.execute(
        f"CREATE TRIGGER {table}_counts_emptied AFTER TRUNCATE ON {table} "
        "FOR EACH STATEMENT EXECUTE FUNCTION forget_counts()"
    )
