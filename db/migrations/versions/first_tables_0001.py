"""first tables"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from pgvector.sqlalchemy import VECTOR
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
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
        "encoder",
        sa.Column("encoder_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("model_id", sa.Text(), nullable=False),
        sa.Column("revision", sa.Text(), nullable=False),
        sa.Column("dim", sa.Integer(), nullable=False),
        sa.Column("params", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("encoder_id", name=op.f("pk_encoder")),
        sa.UniqueConstraint("fingerprint", name=op.f("uq_encoder_fingerprint")),
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
        "uq_scorer_active_metric",
        "scorer",
        ["metric"],
        unique=True,
        postgresql_where=sa.text("status = 'active'"),
    )
    op.create_table(
        "ingest_reject",
        sa.Column("dataset_id", sa.BigInteger(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("line", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("code", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("raw", sa.Text(), nullable=False),
        sa.Column("ingested_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset_id"],
            ["dataset.dataset_id"],
            name=op.f("fk_ingest_reject_dataset_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("dataset_id", "source", "line", name=op.f("pk_ingest_reject")),
    )
    op.create_table(
        "selection",
        sa.Column("selection_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("dataset_id", sa.BigInteger(), nullable=False),
        sa.Column("spec", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.Column("cutoff", sa.Double(), nullable=True),
        sa.Column("score_hash", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["dataset.dataset_id"], name=op.f("fk_selection_dataset_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("selection_id", name=op.f("pk_selection")),
    )
    op.create_index("ix_selection_dataset_id_score_hash", "selection", ["dataset_id", "score_hash"], unique=False)
    op.create_table(
        "text_embedding",
        sa.Column("encoder_id", sa.BigInteger(), nullable=False),
        sa.Column("text_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("embedding", VECTOR(), nullable=False),
        sa.ForeignKeyConstraint(
            ["encoder_id"],
            ["encoder.encoder_id"],
            name=op.f("fk_text_embedding_encoder_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("encoder_id", "text_sha256", name=op.f("pk_text_embedding")),
    )
    op.create_table(
        "threshold",
        sa.Column("threshold_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("scorer_id", sa.BigInteger(), nullable=False),
        sa.Column("dataset_id", sa.BigInteger(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("shard", sa.Integer(), nullable=True),
        sa.Column("dimension", sa.Text(), nullable=True),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("objective", sa.Text(), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("scope IN ('dataset', 'shard')", name=op.f("ck_threshold_scope")),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["dataset.dataset_id"], name=op.f("fk_threshold_dataset_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["scorer_id"], ["scorer.scorer_id"], name=op.f("fk_threshold_scorer_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("threshold_id", name=op.f("pk_threshold")),
        sa.UniqueConstraint(
            "scorer_id",
            "dataset_id",
            "scope",
            "shard",
            "dimension",
            "method",
            "objective",
            name="uq_threshold_scope",
            postgresql_nulls_not_distinct=True,
        ),
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
        sa.Column("encoder_id", sa.BigInteger(), nullable=False),
        sa.Column("video_id", sa.BigInteger(), nullable=False),
        sa.Column("frame_index", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("time_s", sa.Double(), nullable=False),
        sa.Column("embedding", VECTOR(), nullable=False),
        sa.ForeignKeyConstraint(
            ["encoder_id"],
            ["encoder.encoder_id"],
            name=op.f("fk_frame_embedding_encoder_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["video_id"], ["video.video_id"], name=op.f("fk_frame_embedding_video_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("encoder_id", "video_id", "frame_index", name=op.f("pk_frame_embedding")),
    )
    op.create_index("ix_frame_embedding_video_id", "frame_embedding", ["video_id"], unique=False)
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
        "selection_item",
        sa.Column("selection_id", sa.BigInteger(), nullable=False),
        sa.Column("rank", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("sample_id", sa.BigInteger(), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.Column("row", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False),
        sa.ForeignKeyConstraint(
            ["selection_id"],
            ["selection.selection_id"],
            name=op.f("fk_selection_item_selection_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("selection_id", "rank", name=op.f("pk_selection_item")),
    )
    op.create_table(
        "keypoint_label",
        sa.Column("keypoint_id", sa.BigInteger(), nullable=False),
        sa.Column("sample_id", sa.BigInteger(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("covered", sa.Boolean(), nullable=False),
        sa.Column("extra", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.Column("row_sha256", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["keypoint_id"],
            ["keypoint.keypoint_id"],
            name=op.f("fk_keypoint_label_keypoint_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["sample_id"], ["sample.sample_id"], name=op.f("fk_keypoint_label_sample_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("keypoint_id", "sample_id", "source", name=op.f("pk_keypoint_label")),
    )
    op.create_index("ix_keypoint_label_sample_id", "keypoint_label", ["sample_id"], unique=False)
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
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("components", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
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
        sa.PrimaryKeyConstraint("scorer_id", "sample_id", name=op.f("pk_score")),
    )
    op.create_index("ix_score_sample_id", "score", ["sample_id"], unique=False)


def downgrade() -> None:
    op.drop_index("ix_score_sample_id", table_name="score")
    op.drop_table("score")
    op.drop_table("rating")
    op.drop_index("ix_keypoint_label_sample_id", table_name="keypoint_label")
    op.drop_table("keypoint_label")
    op.drop_table("selection_item")
    op.drop_index("ix_sample_video_id", table_name="sample")
    op.drop_index("ix_sample_dataset_id_shard", table_name="sample")
    op.drop_table("sample")
    op.drop_index("ix_reference_video_id", table_name="reference")
    op.drop_table("reference")
    op.drop_index("ix_keypoint_video_id", table_name="keypoint")
    op.drop_table("keypoint")
    op.drop_index("ix_frame_embedding_video_id", table_name="frame_embedding")
    op.drop_table("frame_embedding")
    op.drop_index("ix_video_dataset_id_shard", table_name="video")
    op.drop_table("video")
    op.drop_table("threshold")
    op.drop_table("text_embedding")
    op.drop_table("selection")
    op.drop_table("ingest_reject")
    op.drop_index("uq_scorer_active_metric", table_name="scorer", postgresql_where=sa.text("status = 'active'"))
    op.drop_table("scorer")
    op.drop_table("encoder")
    op.drop_table("dataset")
