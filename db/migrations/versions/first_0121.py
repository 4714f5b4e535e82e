"""first: all tables as they stand before the first release"""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import op
from pgvector.sqlalchemy import VECTOR
from sqlalchemy.dialects import postgresql

revision = "0121"
down_revision = None
branch_labels = None
depends_on = None

FUNCTIONS = Path(__file__).with_suffix(".sql")
# An UPDATE fires twice, since a row may leave one shard or video for another.
CHANGES = (
    ("inserted", "INSERT", "NEW"),
    ("deleted", "DELETE", "OLD"),
    ("updated", "UPDATE", "NEW"),
    ("moved_away", "UPDATE", "OLD"),
)
DIGESTS = {"reference": "refresh_reference_digests()", "keypoint": "refresh_keypoint_digests()"}
# Whose scores a change may make stale; of the tables of a metric from outside db/schema/marks.py takes care.
MARKED = {"sample": "mark_samples()", "video": "mark_videos()"}
INGESTED = {
    **dict.fromkeys(("video", "sample", "reference", "keypoint"), "forget_tables()"),
    **dict.fromkeys(("rating", "keypoint_label"), "forget_tables_of_samples()"),
}


def upgrade() -> None:
    op.get_bind().exec_driver_sql(FUNCTIONS.read_text())
    _make_tables()
    for table, function in DIGESTS.items():
        for name, event, side in CHANGES:
            _trigger(f"{table}_{name}", event, table, side, function)
    for table, function in MARKED.items():
        _trigger(f"{table}_marks", "UPDATE", table, "NEW", function)
    for name, event, side in CHANGES:
        _trigger(f"keypoint_threshold_marks_{name}", event, "keypoint_threshold", side, "mark_thresholds()")
        by = 1 if side == "NEW" else -1
        _trigger(f"score_counts_{name}", event, "score", side, f"count_scores('{by}')")
    _trigger("keypoint_threshold_marks_emptied", "TRUNCATE", "keypoint_threshold", None, "mark_all()")
    _trigger("score_counts_emptied", "TRUNCATE", "score", None, "forget_score_counts()")
    _trigger("sample_counts_inserted", "INSERT", "sample", "NEW", "count_new_samples()")
    _trigger("sample_counts_deleted", "DELETE", "sample", "OLD", "count_shards_again()")
    _trigger("sample_counts_emptied", "TRUNCATE", "sample", None, "forget_sample_counts()")
    op.execute(
        "CREATE TRIGGER sample_counts_moved AFTER UPDATE ON sample REFERENCING OLD TABLE AS gone NEW TABLE AS come "
        "FOR EACH STATEMENT EXECUTE FUNCTION count_moved_samples()"
    )
    for table, function in INGESTED.items():
        for event in ("DELETE", "UPDATE"):
            _trigger(f"{table}_forgets_{event.lower()}", event, table, "OLD", function)
        _trigger(f"{table}_forgets_truncate", "TRUNCATE", table, None, "forget_all_tables()")
    _trigger("selection_forgets_deleted", "DELETE", "selection", "OLD", "forget_items()", rows="gone")
    _trigger("selection_forgets_truncated", "TRUNCATE", "selection", None, "forget_all_items()")
    op.execute(
        "CREATE TRIGGER keep_past_score AFTER UPDATE ON score FOR EACH ROW WHEN (OLD.input_sha256 IS DISTINCT FROM "
        "NEW.input_sha256 OR OLD.value IS DISTINCT FROM NEW.value OR OLD.status IS DISTINCT FROM NEW.status) "
        "EXECUTE FUNCTION keep_past_score()"
    )
    op.execute(
        "CREATE TRIGGER dataset_names_selections AFTER UPDATE OF name ON dataset "
        "FOR EACH ROW WHEN (OLD.name <> NEW.name) EXECUTE FUNCTION name_selections()"
    )


def _trigger(name: str, event: str, table: str, side: str | None, function: str, rows: str = "touched") -> None:
    referencing = f"REFERENCING {side} TABLE AS {rows} " if side else ""
    op.execute(
        f"CREATE TRIGGER {name} AFTER {event} ON {table} {referencing}FOR EACH STATEMENT EXECUTE FUNCTION {function}"
    )


def _make_tables() -> None:
    op.create_table(
        "dataset",
        sa.Column("dataset_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("n_shards", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("n_shards BETWEEN 1 AND 10000", name=op.f("ck_dataset_n_shards")),
        sa.PrimaryKeyConstraint("dataset_id", name=op.f("pk_dataset")),
        sa.UniqueConstraint("name", name=op.f("uq_dataset_name")),
    )
    op.create_table(
        "model",
        sa.Column("model_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("revision", sa.Text(), nullable=False),
        sa.Column("params", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("model_id", name=op.f("pk_model")),
        sa.UniqueConstraint("fingerprint", name=op.f("uq_model_fingerprint")),
    )
    op.create_table(
        "scorer",
        sa.Column("scorer_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("models", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False),
        sa.Column("params", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False),
        sa.Column("code_version", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("status IN ('candidate', 'active', 'retired')", name=op.f("ck_scorer_status")),
        sa.PrimaryKeyConstraint("scorer_id", name=op.f("pk_scorer")),
        sa.UniqueConstraint("fingerprint", name=op.f("uq_scorer_fingerprint")),
    )
    op.create_index(
        "uq_scorer_active_metric", "scorer", ["metric"], unique=True, postgresql_where=sa.text("status = 'active'")
    )
    op.create_table(
        "selection_item",
        sa.Column("selection_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("rank", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("sample_id", sa.BigInteger(), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.Column("sample", sa.Text(), nullable=False),
        sa.Column("video", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("system", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("question", sa.Text(), nullable=True),
        sa.Column("answer", sa.Text(), nullable=True),
        sa.Column("uri", sa.Text(), nullable=True),
        sa.Column("content_sha256", sa.LargeBinary(), nullable=True),
        sa.Column("scores", sa.ARRAY(sa.Double()), nullable=False),
        sa.Column("is_scored", sa.ARRAY(sa.Boolean()), nullable=False),
        sa.PrimaryKeyConstraint("selection_id", "rank", name=op.f("pk_selection_item")),
    )
    op.create_table(
        "view_definition",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("sql_sha256", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_view_definition")),
    )
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
    op.create_table(
        "chat_call",
        sa.Column("chat_call_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("model_id", sa.BigInteger(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("request_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("http_status", sa.Integer(), nullable=True),
        sa.Column("tokens_in", sa.BigInteger(), nullable=False),
        sa.Column("tokens_out", sa.BigInteger(), nullable=False),
        sa.Column("money", sa.Double(), nullable=True),
        sa.Column("duration_s", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("(outcome = 'ok') = (error IS NULL)", name=op.f("ck_chat_call_reason_unless_ok")),
        sa.CheckConstraint(
            "outcome IN ('ok', 'malformed', 'truncated', 'refused', 'unreachable', 'rejected', 'wrong_model')",
            name=op.f("ck_chat_call_outcome"),
        ),
        sa.ForeignKeyConstraint(
            ["model_id"], ["model.model_id"], name=op.f("fk_chat_call_model_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("chat_call_id", name=op.f("pk_chat_call")),
    )
    op.create_index("ix_chat_call_model_id", "chat_call", ["model_id"], unique=False)
    op.create_index("ix_chat_call_run_id", "chat_call", ["run_id"], unique=False)
    op.create_table(
        "chat_reply",
        sa.Column("request_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("model_id", sa.BigInteger(), nullable=False),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("data", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False),
        sa.Column("calls", sa.Integer(), nullable=False),
        sa.Column("tokens_in", sa.BigInteger(), nullable=False),
        sa.Column("tokens_out", sa.BigInteger(), nullable=False),
        sa.Column("money", sa.Double(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["model_id"], ["model.model_id"], name=op.f("fk_chat_reply_model_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("request_sha256", name=op.f("pk_chat_reply")),
    )
    op.create_index("ix_chat_reply_model_id", "chat_reply", ["model_id"], unique=False)
    op.create_table(
        "entailment",
        sa.Column("model_id", sa.BigInteger(), nullable=False),
        sa.Column("pair_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("probability", sa.Double(), nullable=False),
        sa.Column("truncated", sa.Boolean(), nullable=False),
        sa.CheckConstraint("probability BETWEEN 0 AND 1", name=op.f("ck_entailment_probability")),
        sa.ForeignKeyConstraint(
            ["model_id"], ["model.model_id"], name=op.f("fk_entailment_model_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("model_id", "pair_sha256", name=op.f("pk_entailment")),
    )
    op.create_table(
        "ingest_reject",
        sa.Column("dataset_id", sa.BigInteger(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("line", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("code", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("raw", sa.Text(), nullable=False),
        sa.Column("n_rows", sa.BigInteger(), server_default="1", nullable=False),
        sa.Column("ingested_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["dataset.dataset_id"], name=op.f("fk_ingest_reject_dataset_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("dataset_id", "source", "line", name=op.f("pk_ingest_reject")),
    )
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
    op.create_table(
        "keypoint_threshold",
        sa.Column("keypoint_threshold_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("scorer_id", sa.BigInteger(), nullable=False),
        sa.Column("dataset_id", sa.BigInteger(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("shard", sa.Integer(), nullable=True),
        sa.Column("dimension", sa.Text(), nullable=False),
        sa.Column("threshold", sa.Double(), nullable=False),
        sa.Column("n_positive", sa.BigInteger(), nullable=True),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("objective", sa.Text(), nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.Column(
            "details", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), server_default="{}", nullable=False
        ),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("scope IN ('dataset', 'shard')", name=op.f("ck_keypoint_threshold_scope")),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["dataset.dataset_id"], name=op.f("fk_keypoint_threshold_dataset_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["scorer_id"], ["scorer.scorer_id"], name=op.f("fk_keypoint_threshold_scorer_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("keypoint_threshold_id", name=op.f("pk_keypoint_threshold")),
        sa.UniqueConstraint(
            "scorer_id",
            "dataset_id",
            "scope",
            "shard",
            "dimension",
            "method",
            "objective",
            name="uq_keypoint_threshold_scope",
            postgresql_nulls_not_distinct=True,
        ),
    )
    op.create_table(
        "keyword_set",
        sa.Column("model_id", sa.BigInteger(), nullable=False),
        sa.Column("text_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("keywords", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("extracted_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("(status = 'ok') = (reason IS NULL)", name=op.f("ck_keyword_set_reason_unless_ok")),
        sa.CheckConstraint("status = 'ok' OR keywords = '[]'", name=op.f("ck_keyword_set_keywords_if_ok")),
        sa.CheckConstraint("status IN ('ok', 'refused', 'failed')", name=op.f("ck_keyword_set_status")),
        sa.ForeignKeyConstraint(
            ["model_id"], ["model.model_id"], name=op.f("fk_keyword_set_model_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("model_id", "text_sha256", name=op.f("pk_keyword_set")),
    )
    op.create_table(
        "score_threshold",
        sa.Column("score_threshold_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("scorer_id", sa.BigInteger(), nullable=False),
        sa.Column("dataset_id", sa.BigInteger(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("shard", sa.Integer(), nullable=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("at_least", sa.Double(), nullable=False),
        sa.Column("low", sa.Double(), nullable=True),
        sa.Column("high", sa.Double(), nullable=True),
        sa.Column("n_good", sa.BigInteger(), nullable=True),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("objective", sa.Text(), nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.Column(
            "details", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), server_default="{}", nullable=False
        ),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("kind IN ('caption', 'qa')", name=op.f("ck_score_threshold_kind")),
        sa.CheckConstraint("scope IN ('dataset', 'shard')", name=op.f("ck_score_threshold_scope")),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["dataset.dataset_id"], name=op.f("fk_score_threshold_dataset_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["scorer_id"], ["scorer.scorer_id"], name=op.f("fk_score_threshold_scorer_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("score_threshold_id", name=op.f("pk_score_threshold")),
        sa.UniqueConstraint(
            "scorer_id",
            "dataset_id",
            "scope",
            "shard",
            "kind",
            "method",
            "objective",
            name="uq_score_threshold_scope",
            postgresql_nulls_not_distinct=True,
        ),
    )
    op.create_table(
        "selection",
        sa.Column("selection_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("dataset_id", sa.BigInteger(), nullable=True),
        sa.Column("dataset_name", sa.Text(), nullable=False),
        sa.Column("spec", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.Column("cutoff", sa.Double(), nullable=True),
        sa.Column("score_hash", sa.Text(), nullable=False),
        sa.Column("n_eligible", sa.BigInteger(), nullable=False),
        sa.Column("n_duplicates", sa.BigInteger(), nullable=False),
        sa.Column("unjudged", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False),
        sa.Column("metrics", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column("models", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["dataset.dataset_id"], name=op.f("fk_selection_dataset_id"), ondelete="SET NULL"
        ),
        sa.PrimaryKeyConstraint("selection_id", name=op.f("pk_selection")),
    )
    op.create_index("ix_selection_dataset_id_score_hash", "selection", ["dataset_id", "score_hash"], unique=False)
    op.create_table(
        "shard",
        sa.Column("dataset_id", sa.BigInteger(), nullable=False),
        sa.Column("shard", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("n_samples", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["dataset.dataset_id"], name=op.f("fk_shard_dataset_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("dataset_id", "shard", name=op.f("pk_shard")),
    )
    op.create_table(
        "shard_count",
        sa.Column("scorer_id", sa.BigInteger(), nullable=False),
        sa.Column("dataset_id", sa.BigInteger(), nullable=False),
        sa.Column("shard", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["dataset.dataset_id"], name=op.f("fk_shard_count_dataset_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["scorer_id"], ["scorer.scorer_id"], name=op.f("fk_shard_count_scorer_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("scorer_id", "dataset_id", "shard", "status", name=op.f("pk_shard_count")),
    )
    op.create_table(
        "text_embedding",
        sa.Column("model_id", sa.BigInteger(), nullable=False),
        sa.Column("text_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("embedding", VECTOR(), nullable=False),
        sa.Column("n_chunks", sa.SmallInteger(), server_default="1", nullable=False),
        sa.ForeignKeyConstraint(
            ["model_id"], ["model.model_id"], name=op.f("fk_text_embedding_model_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("model_id", "text_sha256", name=op.f("pk_text_embedding")),
    )
    op.create_table(
        "text_fact",
        sa.Column("text_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("words", sa.Integer(), nullable=False),
        sa.Column("sentences", sa.Integer(), nullable=False),
        sa.Column("repetition", sa.Double(), nullable=True),
        sa.Column("boilerplate", sa.Double(), nullable=True),
        sa.Column("digit_share", sa.Double(), nullable=True),
        sa.Column("name_share", sa.Double(), nullable=True),
        sa.Column("language", sa.Text(), nullable=True),
        sa.Column("described_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("text_sha256", name=op.f("pk_text_fact")),
    )
    op.create_table(
        "video",
        sa.Column("video_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("dataset_id", sa.BigInteger(), nullable=False),
        sa.Column("shard", sa.Integer(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("uri", sa.Text(), nullable=True),
        sa.Column("content_sha256", sa.LargeBinary(), nullable=True),
        sa.Column("size_bytes", sa.BigInteger(), nullable=True),
        sa.Column("mtime_ns", sa.BigInteger(), nullable=True),
        sa.Column("ctime_ns", sa.BigInteger(), nullable=True),
        sa.Column("inode", sa.BigInteger(), nullable=True),
        sa.Column("etag", sa.Text(), nullable=True),
        sa.Column("duration_s", sa.Double(), nullable=True),
        sa.Column("fps", sa.Double(), nullable=True),
        sa.Column("n_frames", sa.Integer(), nullable=True),
        sa.Column("width", sa.Integer(), nullable=True),
        sa.Column("height", sa.Integer(), nullable=True),
        sa.Column("codec", sa.Text(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("extra", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.Column("row_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("references_sha256", sa.LargeBinary(), nullable=True),
        sa.Column("reference_segments_digest", sa.LargeBinary(), nullable=True),
        sa.Column("keypoints_sha256", sa.LargeBinary(), nullable=True),
        sa.Column("video", sa.Text(), sa.Computed("key", persisted=True), nullable=True),
        sa.CheckConstraint("status IN ('ok', 'damaged', 'undecodable', 'text_only')", name=op.f("ck_video_status")),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["dataset.dataset_id"], name=op.f("fk_video_dataset_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("video_id", name=op.f("pk_video")),
        sa.UniqueConstraint("dataset_id", "key", name=op.f("uq_video_dataset_id_key")),
    )
    op.create_index("ix_video_dataset_id_shard", "video", ["dataset_id", "shard"], unique=False)
    op.create_table(
        "frame_embedding",
        sa.Column("model_id", sa.BigInteger(), nullable=False),
        sa.Column("video_id", sa.BigInteger(), nullable=False),
        sa.Column("frame_index", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("time_s", sa.Double(), nullable=False),
        sa.Column("embedding", VECTOR(), nullable=False),
        sa.ForeignKeyConstraint(
            ["model_id"], ["model.model_id"], name=op.f("fk_frame_embedding_model_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["video_id"], ["video.video_id"], name=op.f("fk_frame_embedding_video_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("model_id", "video_id", "frame_index", name=op.f("pk_frame_embedding")),
    )
    op.create_index("ix_frame_embedding_video_id", "frame_embedding", ["video_id"], unique=False)
    op.create_table(
        "video_fact",
        sa.Column("video_id", sa.BigInteger(), nullable=False),
        sa.Column("content_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("motion", sa.Double(), nullable=True),
        sa.Column("motion_min", sa.Double(), nullable=True),
        sa.Column("motion_max", sa.Double(), nullable=True),
        sa.Column("camera_motion", sa.Double(), nullable=True),
        sa.Column("object_motion", sa.Double(), nullable=True),
        sa.Column("frame_change", sa.Double(), nullable=True),
        sa.Column("frame_change_min", sa.Double(), nullable=True),
        sa.Column("frame_change_max", sa.Double(), nullable=True),
        sa.Column("static_share", sa.Double(), nullable=True),
        sa.Column("frozen_share", sa.Double(), nullable=True),
        sa.Column("black_share", sa.Double(), nullable=True),
        sa.Column("sharpness", sa.Double(), nullable=True),
        sa.Column("sharpness_min", sa.Double(), nullable=True),
        sa.Column("sharpness_max", sa.Double(), nullable=True),
        sa.Column("brightness", sa.Double(), nullable=True),
        sa.Column("brightness_min", sa.Double(), nullable=True),
        sa.Column("brightness_max", sa.Double(), nullable=True),
        sa.Column("contrast", sa.Double(), nullable=True),
        sa.Column("contrast_min", sa.Double(), nullable=True),
        sa.Column("contrast_max", sa.Double(), nullable=True),
        sa.Column("letterbox", sa.Double(), nullable=True),
        sa.Column("cuts", sa.Integer(), nullable=True),
        sa.Column("has_sound", sa.Boolean(), nullable=True),
        sa.Column("signature", sa.LargeBinary(), nullable=True),
        sa.Column("measured_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("(status = 'ok') = (error IS NULL)", name=op.f("ck_video_fact_reason_unless_ok")),
        sa.CheckConstraint("status IN ('ok', 'unreadable', 'failed')", name=op.f("ck_video_fact_status")),
        sa.ForeignKeyConstraint(
            ["video_id"], ["video.video_id"], name=op.f("fk_video_fact_video_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("video_id", name=op.f("pk_video_fact")),
    )
    op.create_table(
        "frame_set",
        sa.Column("model_id", sa.BigInteger(), nullable=False),
        sa.Column("video_id", sa.BigInteger(), nullable=False),
        sa.Column("content_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("n_frames", sa.Integer(), nullable=True),
        sa.Column("n_sampled", sa.Integer(), nullable=False),
        sa.Column("reader", sa.Text(), nullable=True),
        sa.Column("encoded_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("(status = 'ok') = (error IS NULL)", name=op.f("ck_frame_set_reason_unless_ok")),
        sa.CheckConstraint("status IN ('ok', 'unreadable', 'failed')", name=op.f("ck_frame_set_status")),
        sa.ForeignKeyConstraint(
            ["model_id"], ["model.model_id"], name=op.f("fk_frame_set_model_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["video_id"], ["video.video_id"], name=op.f("fk_frame_set_video_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("model_id", "video_id", name=op.f("pk_frame_set")),
    )
    op.create_index("ix_frame_set_video_id", "frame_set", ["video_id"], unique=False)
    op.create_table(
        "keypoint",
        sa.Column("keypoint_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("dataset_id", sa.BigInteger(), nullable=False),
        sa.Column("video_id", sa.BigInteger(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("dimension", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("segment_index", sa.Integer(), nullable=True),
        sa.Column("extra", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.Column("row_sha256", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["dataset.dataset_id"], name=op.f("fk_keypoint_dataset_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["video_id"], ["video.video_id"], name=op.f("fk_keypoint_video_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("keypoint_id", name=op.f("pk_keypoint")),
        sa.UniqueConstraint("dataset_id", "key", name=op.f("uq_keypoint_dataset_id_key")),
    )
    op.create_index("ix_keypoint_video_id", "keypoint", ["video_id"], unique=False)
    op.create_table(
        "reference",
        sa.Column("reference_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("dataset_id", sa.BigInteger(), nullable=False),
        sa.Column("video_id", sa.BigInteger(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("annotator", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("segments", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.Column("text_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("extra", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.Column("row_sha256", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["dataset.dataset_id"], name=op.f("fk_reference_dataset_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["video_id"], ["video.video_id"], name=op.f("fk_reference_video_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("reference_id", name=op.f("pk_reference")),
        sa.UniqueConstraint("dataset_id", "key", name=op.f("uq_reference_dataset_id_key")),
    )
    op.create_index("ix_reference_video_id", "reference", ["video_id"], unique=False)
    op.create_table(
        "sample",
        sa.Column("sample_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("dataset_id", sa.BigInteger(), nullable=False),
        sa.Column("shard", sa.Integer(), nullable=False),
        sa.Column("video_id", sa.BigInteger(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("system", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("question", sa.Text(), nullable=True),
        sa.Column("answer", sa.Text(), nullable=True),
        sa.Column("segments", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.Column("text_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("extra", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.Column("row_sha256", sa.LargeBinary(), nullable=False),
        sa.Column(
            "pair_sha256",
            sa.LargeBinary(),
            sa.Computed(
                "CASE WHEN kind = 'qa' THEN sha256(text_sha256"
                " || sha256(utf8(COALESCE(question, '')))"
                " || sha256(utf8(COALESCE(answer, '')))) END",
                persisted=True,
            ),
            nullable=True,
        ),
        sa.Column(
            "segments_sha256",
            sa.LargeBinary(),
            sa.Computed("CASE WHEN segments IS NOT NULL THEN sha256(utf8(CAST(segments AS text))) END", persisted=True),
            nullable=True,
        ),
        sa.Column("sample", sa.Text(), sa.Computed("key", persisted=True), nullable=True),
        sa.CheckConstraint("kind IN ('caption', 'qa')", name=op.f("ck_sample_kind")),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["dataset.dataset_id"], name=op.f("fk_sample_dataset_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["video_id"], ["video.video_id"], name=op.f("fk_sample_video_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("sample_id", name=op.f("pk_sample")),
        sa.UniqueConstraint("dataset_id", "kind", "key", name=op.f("uq_sample_dataset_id_kind_key")),
    )
    op.create_index("ix_sample_dataset_id_shard", "sample", ["dataset_id", "shard"], unique=False)
    op.create_index("ix_sample_video_id", "sample", ["video_id"], unique=False)
    op.create_table(
        "keypoint_label",
        sa.Column("keypoint_id", sa.BigInteger(), nullable=False),
        sa.Column("sample_id", sa.BigInteger(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("covered", sa.Boolean(), nullable=False),
        sa.Column("extra", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.Column("row_sha256", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["keypoint_id"], ["keypoint.keypoint_id"], name=op.f("fk_keypoint_label_keypoint_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["sample_id"], ["sample.sample_id"], name=op.f("fk_keypoint_label_sample_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("keypoint_id", "sample_id", "source", name=op.f("pk_keypoint_label")),
    )
    op.create_index("ix_keypoint_label_sample_id", "keypoint_label", ["sample_id"], unique=False)
    op.create_table(
        "past_score",
        sa.Column("past_score_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("scorer_id", sa.BigInteger(), nullable=False),
        sa.Column("sample_id", sa.BigInteger(), nullable=False),
        sa.Column("input_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("components", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("scored_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("replaced_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["sample_id"], ["sample.sample_id"], name=op.f("fk_past_score_sample_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["scorer_id"], ["scorer.scorer_id"], name=op.f("fk_past_score_scorer_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("past_score_id", name=op.f("pk_past_score")),
    )
    op.create_index("ix_past_score_sample_id", "past_score", ["sample_id"], unique=False)
    op.create_index("ix_past_score_scorer_id", "past_score", ["scorer_id"], unique=False)
    op.create_table(
        "qeva_question_set",
        sa.Column("question_set_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("model_id", sa.BigInteger(), nullable=False),
        sa.Column("dimension", sa.Text(), nullable=False),
        sa.Column("video_id", sa.BigInteger(), nullable=False),
        sa.Column("sample_id", sa.BigInteger(), nullable=True),
        sa.Column("source_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("n_requested", sa.Integer(), nullable=False),
        sa.Column("n_malformed", sa.Integer(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("written_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("status = 'ok' OR reason IS NOT NULL", name=op.f("ck_qeva_question_set_reason_unless_ok")),
        sa.CheckConstraint("status IN ('ok', 'refused', 'error')", name=op.f("ck_qeva_question_set_status")),
        sa.ForeignKeyConstraint(
            ["model_id"], ["model.model_id"], name=op.f("fk_qeva_question_set_model_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["sample_id"], ["sample.sample_id"], name=op.f("fk_qeva_question_set_sample_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["video_id"], ["video.video_id"], name=op.f("fk_qeva_question_set_video_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("question_set_id", name=op.f("pk_qeva_question_set")),
        sa.UniqueConstraint(
            "model_id",
            "video_id",
            "sample_id",
            "dimension",
            name="uq_qeva_question_set_source",
            postgresql_nulls_not_distinct=True,
        ),
    )
    op.create_index("ix_qeva_question_set_sample_id", "qeva_question_set", ["sample_id"], unique=False)
    op.create_index("ix_qeva_question_set_video_id", "qeva_question_set", ["video_id"], unique=False)
    op.create_table(
        "preference",
        sa.Column("sample_id", sa.BigInteger(), nullable=False),
        sa.Column("other_id", sa.BigInteger(), nullable=False),
        sa.Column("rater", sa.Text(), nullable=False),
        sa.Column("aspect", sa.Text(), nullable=False),
        sa.Column("value", sa.SmallInteger(), nullable=False),
        sa.Column("text_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("other_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("extra", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.CheckConstraint("sample_id < other_id", name=op.f("ck_preference_one_order")),
        sa.CheckConstraint("value IN (-1, 0, 1)", name=op.f("ck_preference_value")),
        sa.ForeignKeyConstraint(
            ["other_id"], ["sample.sample_id"], name=op.f("fk_preference_other_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["sample_id"], ["sample.sample_id"], name=op.f("fk_preference_sample_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("sample_id", "other_id", "rater", "aspect", name=op.f("pk_preference")),
    )
    op.create_index("ix_preference_other_id", "preference", ["other_id"], unique=False)
    op.create_table(
        "rating",
        sa.Column("sample_id", sa.BigInteger(), nullable=False),
        sa.Column("rater", sa.Text(), nullable=False),
        sa.Column("aspect", sa.Text(), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.Column("extra", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.Column("row_sha256", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["sample_id"], ["sample.sample_id"], name=op.f("fk_rating_sample_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("sample_id", "rater", "aspect", name=op.f("pk_rating")),
    )
    op.create_table(
        "score",
        sa.Column("scorer_id", sa.BigInteger(), nullable=False),
        sa.Column("sample_id", sa.BigInteger(), nullable=False),
        sa.Column("input_sha256", sa.LargeBinary(), nullable=False),
        sa.Column(
            "input_marks",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            server_default="{}",
            nullable=False,
        ),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("components", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("is_stale", sa.Boolean(), server_default="false", nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("scored_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("(status = 'ok') = (error IS NULL)", name=op.f("ck_score_reason_unless_ok")),
        sa.CheckConstraint("(status = 'ok') = (value IS NOT NULL)", name=op.f("ck_score_value_iff_ok")),
        sa.CheckConstraint("value <> 'NaN' AND abs(value) < 'Infinity'", name=op.f("ck_score_value_finite")),
        sa.ForeignKeyConstraint(
            ["sample_id"], ["sample.sample_id"], name=op.f("fk_score_sample_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["scorer_id"], ["scorer.scorer_id"], name=op.f("fk_score_scorer_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint(
            "scorer_id", "sample_id", name=op.f("pk_score"), postgresql_include=["value", "is_stale"]
        ),
    )
    op.create_index("ix_score_sample_id", "score", ["sample_id"], unique=False)
    op.create_index(
        "ix_score_scorer_id_value",
        "score",
        ["scorer_id", sa.literal_column("value DESC NULLS LAST")],
        unique=False,
        postgresql_include=["sample_id", "is_stale"],
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
        sa.CheckConstraint(
            "num_nulls(probability, sentence_index, sentence) IN (0, 3)", name=op.f("ck_ecs_verdict_best_sentence")
        ),
        sa.CheckConstraint("probability BETWEEN 0 AND 1", name=op.f("ck_ecs_verdict_probability")),
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
    op.create_table(
        "qeva_question",
        sa.Column("question_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("question_set_id", sa.BigInteger(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("choices", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("category", sa.Text(), nullable=True),
        sa.Column("events", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False),
        sa.Column("statements", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False),
        sa.Column("closed_book", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.Column("open_book", sa.Text(), nullable=True),
        sa.Column("decision", sa.Text(), nullable=True),
        sa.Column("filter_reason", sa.Text(), nullable=True),
        sa.Column("filter_failure", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "(filter_failure IS NOT NULL) = (decision IS NOT DISTINCT FROM 'error')",
            name=op.f("ck_qeva_question_failure_iff_error"),
        ),
        sa.CheckConstraint(
            "decision IN ('keep', 'trivial', 'low_quality', 'error')", name=op.f("ck_qeva_question_decision")
        ),
        sa.CheckConstraint(
            "filter_failure IN ('malformed', 'refused', 'error')", name=op.f("ck_qeva_question_filter_failure")
        ),
        sa.ForeignKeyConstraint(
            ["question_set_id"],
            ["qeva_question_set.question_set_id"],
            name=op.f("fk_qeva_question_question_set_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("question_id", name=op.f("pk_qeva_question")),
        sa.UniqueConstraint("question_set_id", "position", name=op.f("uq_qeva_question_question_set_id_position")),
    )
    op.create_table(
        "qeva_answer",
        sa.Column("question_id", sa.BigInteger(), nullable=False),
        sa.Column("sample_id", sa.BigInteger(), nullable=False),
        sa.Column("model_id", sa.BigInteger(), nullable=False),
        sa.Column("context_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("raw", sa.Text(), nullable=False),
        sa.Column("normalised", sa.Text(), nullable=True),
        sa.Column("correct", sa.Boolean(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("score", sa.Double(), nullable=True),
        sa.Column("evidence", sa.Text(), nullable=True),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("answered_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("(status = 'ok') = (normalised IS NOT NULL)", name=op.f("ck_qeva_answer_answer_iff_ok")),
        sa.CheckConstraint(
            "correct IS NULL OR status IN ('ok', 'abstain')", name=op.f("ck_qeva_answer_judged_if_answered")
        ),
        sa.CheckConstraint(
            "status IN ('ok', 'abstain', 'malformed', 'refused', 'error')", name=op.f("ck_qeva_answer_status")
        ),
        sa.ForeignKeyConstraint(
            ["model_id"], ["model.model_id"], name=op.f("fk_qeva_answer_model_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["question_id"], ["qeva_question.question_id"], name=op.f("fk_qeva_answer_question_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["sample_id"], ["sample.sample_id"], name=op.f("fk_qeva_answer_sample_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("question_id", "sample_id", "model_id", name=op.f("pk_qeva_answer")),
    )
    op.create_index("ix_qeva_answer_sample_id", "qeva_answer", ["sample_id"], unique=False)
