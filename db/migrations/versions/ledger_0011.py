"""ledger: what is counted per shard is kept, with a version by which a change since then is noticed"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

# Postgres calls convert_to stable, since conversions can be replaced; the one to UTF-8 is not.
UTF8 = """
CREATE FUNCTION utf8(text) RETURNS bytea LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN convert_to($1, 'UTF8')
"""
PAIR = (
    "CASE WHEN kind = 'qa' THEN sha256(text_sha256 || sha256(utf8(COALESCE(question, ''))) "
    "|| sha256(utf8(COALESCE(answer, '')))) END"
)
SEGMENTS = "CASE WHEN segments IS NOT NULL THEN sha256(utf8(CAST(segments AS text))) END"
# A data set that is being deleted takes its shards along.
CHANGE_SHARDS = """
CREATE FUNCTION change_shards() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO shard (dataset_id, shard, version)
    SELECT dataset_id, shard, nextval('change_number')
    FROM (SELECT DISTINCT t.dataset_id, t.shard
          FROM touched t
          JOIN dataset USING (dataset_id)
          ORDER BY t.dataset_id, t.shard) changed
    ON CONFLICT (dataset_id, shard) DO UPDATE SET version = EXCLUDED.version;
    RETURN NULL;
END $$
"""
CHANGE_COUNTS = """
CREATE FUNCTION change_counts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO shard_count (scorer_id, kind, dataset_id, shard, version)
    SELECT scorer_id, TG_ARGV[0], dataset_id, shard, nextval('change_number')
    FROM (SELECT DISTINCT t.scorer_id, s.dataset_id, s.shard
          FROM touched t
          JOIN sample s USING (sample_id)
          JOIN scorer USING (scorer_id)
          ORDER BY t.scorer_id, s.dataset_id, s.shard) changed
    ON CONFLICT (scorer_id, kind, dataset_id, shard) DO UPDATE SET version = EXCLUDED.version;
    RETURN NULL;
END $$
"""
# Only the thresholds that are in force enter a score. Locked in order first, so that two writers wait for each other.
CHANGE_THRESHOLDS = """
CREATE FUNCTION change_thresholds() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1
    FROM shard_count
    WHERE kind = 'scores'
      AND (scorer_id, dataset_id) IN (SELECT scorer_id, dataset_id FROM touched
                                      WHERE scope = 'dataset' AND method = 'keypoint_labels')
    ORDER BY scorer_id, dataset_id, shard
    FOR NO KEY UPDATE;
    UPDATE shard_count
    SET version = nextval('change_number')
    WHERE kind = 'scores'
      AND (scorer_id, dataset_id) IN (SELECT scorer_id, dataset_id FROM touched
                                      WHERE scope = 'dataset' AND method = 'keypoint_labels');
    RETURN NULL;
END $$
"""
FORGET_COUNTS = """
CREATE FUNCTION forget_counts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM shard_count;
    RETURN NULL;
END $$
"""
# A row that was changed or deleted may differ from the manifest's.
FORGET_TABLES = """
CREATE FUNCTION forget_tables() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM ingested_table WHERE dataset_id IN (SELECT dataset_id FROM touched);
    RETURN NULL;
END $$
"""
FORGET_TABLES_OF_SAMPLES = """
CREATE FUNCTION forget_tables_of_samples() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM ingested_table
    WHERE dataset_id IN (SELECT s.dataset_id FROM touched JOIN sample s USING (sample_id));
    RETURN NULL;
END $$
"""
FORGET_ALL_TABLES = """
CREATE FUNCTION forget_all_tables() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM ingested_table;
    RETURN NULL;
END $$
"""
TOUCHED = {
    "inserted": ("INSERT", "NEW"),
    "deleted": ("DELETE", "OLD"),
    "moved_away": ("UPDATE", "OLD"),
    "updated": ("UPDATE", "NEW"),
}
# By table the function that its changes call, and which changes do.
CHANGED = {
    "sample": ("change_shards()", tuple(TOUCHED)),
    "video": ("change_shards()", ("updated",)),
    "score": ("change_counts('scores')", tuple(TOUCHED)),
    "verdict_set": ("change_counts('verdicts')", tuple(TOUCHED)),
    "ecs_verdict": ("change_counts('verdicts')", tuple(TOUCHED)),
    "threshold": ("change_thresholds()", tuple(TOUCHED)),
}
INGESTED = {
    **dict.fromkeys(("video", "reference", "keypoint", "sample"), "forget_tables()"),
    **dict.fromkeys(("rating", "keypoint_label"), "forget_tables_of_samples()"),
}
FUNCTIONS = (
    CHANGE_SHARDS,
    CHANGE_COUNTS,
    CHANGE_THRESHOLDS,
    FORGET_COUNTS,
    FORGET_TABLES,
    FORGET_TABLES_OF_SAMPLES,
    FORGET_ALL_TABLES,
)
EMPTIED = ("sample", "score", "verdict_set", "ecs_verdict", "threshold")


def upgrade() -> None:
    op.execute(UTF8)
    for name, made in (("pair_sha256", PAIR), ("segments_sha256", SEGMENTS)):
        op.execute(f"ALTER TABLE sample ADD COLUMN {name} bytea GENERATED ALWAYS AS ({made}) STORED")
    _tables()
    _ingested_table()
    # Locked first, so that every shard of an uncommitted sample is there.
    op.execute("LOCK TABLE sample IN SHARE MODE")
    op.execute(
        "INSERT INTO shard (dataset_id, shard, version) "
        "SELECT dataset_id, shard, nextval('change_number') FROM (SELECT DISTINCT dataset_id, shard FROM sample) s"
    )
    for function in FUNCTIONS:
        op.execute(function)
    _triggers()
    op.create_index(
        "ix_score_scorer_id_value",
        "score",
        ["scorer_id", sa.text("value DESC NULLS LAST")],
        unique=False,
        postgresql_include=["sample_id"],
    )


def downgrade() -> None:
    op.drop_index("ix_score_scorer_id_value", table_name="score")
    for table in EMPTIED:
        op.execute(f"DROP TRIGGER {table}_counts_emptied ON {table}")
    for table, (_, changes) in CHANGED.items():
        for name in changes:
            op.execute(f"DROP TRIGGER {table}_counts_{name} ON {table}")
    for table in INGESTED:
        for event in ("update", "delete", "truncate"):
            op.execute(f"DROP TRIGGER {table}_forgets_{event} ON {table}")
    for function in (
        *("change_shards", "change_counts", "change_thresholds", "forget_counts"),
        *("forget_tables", "forget_tables_of_samples", "forget_all_tables"),
    ):
        op.execute(f"DROP FUNCTION {function}")
    op.drop_table("ingested_table")
    op.drop_table("shard_count")
    op.drop_table("shard")
    op.execute("DROP SEQUENCE change_number")
    for column in ("pair_sha256", "segments_sha256"):
        op.drop_column("sample", column)
    op.execute("DROP FUNCTION utf8")


def _triggers() -> None:
    for table, (function, changes) in CHANGED.items():
        for name in changes:
            event, side = TOUCHED[name]
            op.execute(
                f"CREATE TRIGGER {table}_counts_{name} AFTER {event} ON {table} REFERENCING {side} TABLE AS touched "
                f"FOR EACH STATEMENT EXECUTE FUNCTION {function}"
            )
    for table in EMPTIED:
        op.execute(
            f"CREATE TRIGGER {table}_counts_emptied AFTER TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION forget_counts()"
        )
    for table, function in INGESTED.items():
        for event in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER {table}_forgets_{event.lower()} AFTER {event} ON {table} "
                f"REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION {function}"
            )
        op.execute(
            f"CREATE TRIGGER {table}_forgets_truncate AFTER TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION forget_all_tables()"
        )


def _ingested_table() -> None:
    op.create_table(
        "ingested_table",
        sa.Column("dataset_id", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("content_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("n_rows", sa.BigInteger(), nullable=False),
        sa.Column("n_rejected", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["dataset.dataset_id"], name=op.f("fk_ingested_table_dataset_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("dataset_id", "kind", name=op.f("pk_ingested_table")),
    )


def _tables() -> None:
    op.execute("CREATE SEQUENCE change_number")
    op.create_table(
        "shard",
        sa.Column("dataset_id", sa.BigInteger(), nullable=False),
        sa.Column("shard", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["dataset.dataset_id"], name=op.f("fk_shard_dataset_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("dataset_id", "shard", name=op.f("pk_shard")),
    )
    op.create_table(
        "shard_count",
        sa.Column("scorer_id", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("dataset_id", sa.BigInteger(), nullable=False),
        sa.Column("shard", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("counted_version", sa.BigInteger(), nullable=True),
        sa.Column("counted_shard_version", sa.BigInteger(), nullable=True),
        sa.Column("rule_sha256", sa.LargeBinary(), nullable=True),
        sa.Column("counts", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.CheckConstraint("kind IN ('scores', 'verdicts')", name=op.f("ck_shard_count_kind")),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["dataset.dataset_id"], name=op.f("fk_shard_count_dataset_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["scorer_id"], ["scorer.scorer_id"], name=op.f("fk_shard_count_scorer_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("scorer_id", "kind", "dataset_id", "shard", name=op.f("pk_shard_count")),
    )
