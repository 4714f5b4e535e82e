"""What spares repeated work: versions of shards, counts of pending work, and digests of views."""

from __future__ import annotations

import sqlalchemy as sa

from db.schema.columns import METADATA, digest, json, parent

# Kept by triggers: the version changes with any sample of a shard and any input of its video.
shard = sa.Table(
    "shard",
    METADATA,
    parent("dataset.dataset_id", primary_key=True),
    sa.Column("shard", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("version", sa.BigInteger, nullable=False),
)

# What was last counted in a shard (db/scores/shards.py); a trigger changes the version with every write of that kind.
shard_count = sa.Table(
    "shard_count",
    METADATA,
    parent("scorer.scorer_id", primary_key=True),
    sa.Column("kind", sa.Text, primary_key=True),
    parent("dataset.dataset_id", primary_key=True),
    sa.Column("shard", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("version", sa.BigInteger, nullable=False),
    # Both versions as the count saw them: a count holds as long as neither has changed.
    sa.Column("counted_version", sa.BigInteger, nullable=True),
    sa.Column("counted_shard_version", sa.BigInteger, nullable=True),
    digest("rule_sha256", nullable=True),
    json("counts"),
    sa.CheckConstraint("kind IN ('scores', 'verdicts')", name="kind"),
)

# The views as they were made, so that a changed definition is noticed.
view_definition = sa.Table(
    "view_definition",
    METADATA,
    sa.Column("name", sa.Text, primary_key=True),
    digest("sql_sha256"),
)
