"""Tables of evidence that models returned: vectors, frames, keywords, entailments and verdicts."""

from __future__ import annotations

import sqlalchemy as sa
from pgvector.sqlalchemy import VECTOR

from db.schema.columns import METADATA, digest_column, json_column, parent_column, text_column, time_column

text_embedding = sa.Table(
    "text_embedding",
    METADATA,
    parent_column("model.model_id", primary_key=True),
    sa.Column("text_sha256", sa.LargeBinary, primary_key=True),
    sa.Column("embedding", VECTOR(), nullable=False),
    sa.Column("n_chunks", sa.SmallInteger, nullable=False, server_default="1"),
)

# Keywords that chat models extracted from texts; keywords by rules are not stored.
keyword_set = sa.Table(
    "keyword_set",
    METADATA,
    parent_column("model.model_id", primary_key=True),
    sa.Column("text_sha256", sa.LargeBinary, primary_key=True),
    json_column("keywords", nullable=False),
    text_column("status"),
    text_column("reason", nullable=True),
    text_column("run_id"),
    time_column("extracted_at"),
    sa.CheckConstraint("status IN ('ok', 'refused', 'failed')", name="status"),
    sa.CheckConstraint("(status = 'ok') = (reason IS NULL)", name="reason_unless_ok"),
    sa.CheckConstraint("status = 'ok' OR keywords = '[]'", name="keywords_if_ok"),
)

frame_set = sa.Table(
    "frame_set",
    METADATA,
    parent_column("model.model_id", primary_key=True),
    parent_column("video.video_id", primary_key=True),
    digest_column("content_sha256"),
    text_column("status"),
    text_column("error", nullable=True),
    sa.Column("n_frames", sa.Integer, nullable=True),
    sa.Column("n_sampled", sa.Integer, nullable=False),
    text_column("reader", nullable=True),
    time_column("encoded_at"),
    sa.Index("ix_frame_set_video_id", "video_id"),
    sa.CheckConstraint("status IN ('ok', 'unreadable', 'failed')", name="status"),
    sa.CheckConstraint("(status = 'ok') = (error IS NULL)", name="reason_unless_ok"),
)

frame_embedding = sa.Table(
    "frame_embedding",
    METADATA,
    parent_column("model.model_id", primary_key=True),
    parent_column("video.video_id", primary_key=True),
    sa.Column("frame_index", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("time_s", sa.Double, nullable=False),
    sa.Column("embedding", VECTOR(), nullable=False),
    sa.Index("ix_frame_embedding_video_id", "video_id"),
)

# Vectors that a manifest brings, by encoders that are not run here. `content_sha256` is of the file at that time.
video_embedding = sa.Table(
    "video_embedding",
    METADATA,
    parent_column("model.model_id", primary_key=True),
    parent_column("video.video_id", primary_key=True),
    digest_column("content_sha256", nullable=True),
    sa.Column("embedding", VECTOR(), nullable=False),
    json_column("extra"),
    digest_column("row_sha256"),
    sa.Index("ix_video_embedding_video_id", "video_id"),
)

entailment = sa.Table(
    "entailment",
    METADATA,
    parent_column("model.model_id", primary_key=True),
    sa.Column("pair_sha256", sa.LargeBinary, primary_key=True),
    sa.Column("probability", sa.Double, nullable=False),
    sa.Column("truncated", sa.Boolean, nullable=False),
    # Refuses NaN too, which Postgres holds to be greater than every number.
    sa.CheckConstraint("probability BETWEEN 0 AND 1", name="probability"),
)

verdict_set = sa.Table(
    "verdict_set",
    METADATA,
    parent_column("scorer.scorer_id", primary_key=True),
    parent_column("sample.sample_id", primary_key=True),
    digest_column("input_sha256"),
    text_column("status"),
    text_column("error", nullable=True),
    sa.Column("n_sentences", sa.Integer, nullable=False),
    sa.Column("n_passes", sa.Integer, nullable=False),
    text_column("run_id"),
    time_column("verified_at"),
    sa.Index("ix_verdict_set_sample_id", "sample_id"),
    sa.CheckConstraint("status IN ('ok', 'unverifiable')", name="status"),
    sa.CheckConstraint("(status = 'ok') = (error IS NULL)", name="reason_unless_ok"),
)

ecs_verdict = sa.Table(
    "ecs_verdict",
    METADATA,
    sa.Column("scorer_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("sample_id", sa.BigInteger, primary_key=True, autoincrement=False),
    parent_column("keypoint.keypoint_id", primary_key=True),
    sa.Column("probability", sa.Double, nullable=True),
    sa.Column("sentence_index", sa.Integer, nullable=True),
    text_column("sentence", nullable=True),
    sa.Column("is_lower_bound", sa.Boolean, nullable=False),
    sa.Column("n_passes", sa.Integer, nullable=False),
    sa.ForeignKeyConstraint(
        ["scorer_id", "sample_id"], ["verdict_set.scorer_id", "verdict_set.sample_id"], ondelete="CASCADE"
    ),
    sa.Index("ix_ecs_verdict_sample_id", "sample_id"),
    sa.Index("ix_ecs_verdict_keypoint_id", "keypoint_id"),
    sa.CheckConstraint("probability BETWEEN 0 AND 1", name="probability"),
    sa.CheckConstraint("num_nulls(probability, sentence_index, sentence) IN (0, 3)", name="best_sentence"),
)
