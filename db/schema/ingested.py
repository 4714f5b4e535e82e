"""Tables that ingest fills from a manifest: videos, texts, judgements and rejects; and the number of samples
per shard.
"""

from __future__ import annotations

import sqlalchemy as sa

from db.schema.columns import (
    METADATA,
    digest_column,
    id_column,
    json_column,
    key_copy_column,
    parent_column,
    text_column,
    time_column,
)

# Kept by triggers. Processes that write scores of a shard share the lock on its row; one that marks scores as stale
# holds it exclusively.
shard = sa.Table(
    "shard",
    METADATA,
    parent_column("dataset.dataset_id", primary_key=True),
    sa.Column("shard", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("n_samples", sa.BigInteger, nullable=False),
)

# The views and functions as they were made, so that a changed definition is noticed.
view_definition = sa.Table(
    "view_definition",
    METADATA,
    sa.Column("name", sa.Text, primary_key=True),
    digest_column("sql_sha256"),
)


dataset = sa.Table(
    "dataset",
    METADATA,
    id_column("dataset_id"),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("n_shards", sa.Integer, nullable=False),
    time_column("created_at"),
    sa.CheckConstraint("n_shards BETWEEN 1 AND 10000", name="n_shards"),
)

video = sa.Table(
    "video",
    METADATA,
    id_column("video_id"),
    parent_column("dataset.dataset_id"),
    sa.Column("shard", sa.Integer, nullable=False),
    text_column("key"),
    text_column("uri", nullable=True),
    digest_column("content_sha256", nullable=True),
    sa.Column("size_bytes", sa.BigInteger, nullable=True),
    sa.Column("mtime_ns", sa.BigInteger, nullable=True),
    sa.Column("ctime_ns", sa.BigInteger, nullable=True),
    sa.Column("inode", sa.BigInteger, nullable=True),
    text_column("etag", nullable=True),
    sa.Column("member_offset", sa.BigInteger, nullable=True),
    sa.Column("duration_s", sa.Double, nullable=True),
    sa.Column("fps", sa.Double, nullable=True),
    sa.Column("n_frames", sa.Integer, nullable=True),
    sa.Column("width", sa.Integer, nullable=True),
    sa.Column("height", sa.Integer, nullable=True),
    text_column("codec", nullable=True),
    text_column("status"),
    text_column("error", nullable=True),
    json_column("extra"),
    digest_column("row_sha256"),
    # Kept by triggers on reference and keypoint; db/schema/inputs.py compares them to find stale scores.
    digest_column("references_sha256", nullable=True),
    digest_column("reference_segments_digest", nullable=True),
    digest_column("keypoints_sha256", nullable=True),
    key_copy_column("video"),
    text_column("licence", nullable=True),
    text_column("source_url", nullable=True),
    text_column("collected_at", nullable=True),
    sa.Column("opt_out", sa.Boolean, nullable=True),
    # Set by a trigger: when the file or own fields last changed after the row was inserted.
    sa.Column("rewritten_at", sa.DateTime(timezone=True), nullable=True),
    sa.UniqueConstraint("dataset_id", "key"),
    sa.Index("ix_video_dataset_id_shard", "dataset_id", "shard"),
    sa.CheckConstraint("status IN ('ok', 'damaged', 'undecodable', 'text_only')", name="status"),
)

reference = sa.Table(
    "reference",
    METADATA,
    id_column("reference_id"),
    parent_column("dataset.dataset_id"),
    parent_column("video.video_id"),
    text_column("key"),
    text_column("annotator"),
    text_column("text"),
    json_column("segments"),
    digest_column("text_sha256"),
    json_column("extra"),
    digest_column("row_sha256"),
    sa.UniqueConstraint("dataset_id", "key"),
    sa.Index("ix_reference_video_id", "video_id"),
)

keypoint = sa.Table(
    "keypoint",
    METADATA,
    id_column("keypoint_id"),
    parent_column("dataset.dataset_id"),
    parent_column("video.video_id"),
    text_column("key"),
    text_column("dimension"),
    text_column("text"),
    sa.Column("segment_index", sa.Integer, nullable=True),
    json_column("extra"),
    digest_column("row_sha256"),
    sa.UniqueConstraint("dataset_id", "key"),
    sa.Index("ix_keypoint_video_id", "video_id"),
)

sample = sa.Table(
    "sample",
    METADATA,
    id_column("sample_id"),
    parent_column("dataset.dataset_id"),
    sa.Column("shard", sa.Integer, nullable=False),
    parent_column("video.video_id"),
    text_column("key"),
    text_column("kind"),
    text_column("system"),
    text_column("text"),
    text_column("question", nullable=True),
    text_column("answer", nullable=True),
    json_column("segments"),
    digest_column("text_sha256"),
    json_column("extra"),
    digest_column("row_sha256"),
    # Made by Postgres with the row; NULL in a caption, and in a sample without times.
    sa.Column(
        "pair_sha256",
        sa.LargeBinary,
        sa.Computed(
            "CASE WHEN kind = 'qa' THEN sha256(text_sha256 || sha256(utf8(COALESCE(question, ''))) "
            "|| sha256(utf8(COALESCE(answer, '')))) END",
            persisted=True,
        ),
    ),
    sa.Column(
        "segments_sha256",
        sa.LargeBinary,
        sa.Computed("CASE WHEN segments IS NOT NULL THEN sha256(utf8(CAST(segments AS text))) END", persisted=True),
    ),
    key_copy_column("sample"),
    # Set by a trigger: when the text last changed after people or the judge had answered about it.
    sa.Column("changed_at", sa.DateTime(timezone=True), nullable=True),
    # Set by a trigger: when another field of the manifest last changed after the row was inserted.
    sa.Column("rewritten_at", sa.DateTime(timezone=True), nullable=True),
    sa.UniqueConstraint("dataset_id", "kind", "key"),
    sa.Index("ix_sample_dataset_id_shard", "dataset_id", "shard"),
    sa.Index("ix_sample_video_id", "video_id"),
    sa.CheckConstraint("kind IN ('caption', 'qa')", name="kind"),
)

# A rating, and a label on a keypoint, count while the texts are those that were judged. Triggers fill the digests in.
rating = sa.Table(
    "rating",
    METADATA,
    parent_column("sample.sample_id", primary_key=True),
    sa.Column("rater", sa.Text, primary_key=True),
    sa.Column("aspect", sa.Text, primary_key=True),
    sa.Column("value", sa.Double, nullable=False),
    json_column("extra"),
    digest_column("row_sha256"),
    digest_column("text_sha256"),
    time_column("stored_at"),
    # Kept by a trigger: the value that was stored first for this text; NULL where it was never changed.
    sa.Column("first_value", sa.Double, nullable=True),
)

# The scale that a manifest declares for an aspect; the others go from 1 to 5.
rating_scale = sa.Table(
    "rating_scale",
    METADATA,
    parent_column("dataset.dataset_id", primary_key=True),
    sa.Column("aspect", sa.Text, primary_key=True),
    text_column("scale"),
    sa.Column("least", sa.Double, nullable=True),
    sa.Column("most", sa.Double, nullable=True),
    sa.Column("lowest_is_best", sa.Boolean, nullable=False),
)

# A preference between two captions of a video. It counts while both have the texts that were compared.
preference = sa.Table(
    "preference",
    METADATA,
    parent_column("sample.sample_id", primary_key=True),
    sa.Column("other_id", sa.ForeignKey("sample.sample_id", ondelete="CASCADE"), primary_key=True),
    sa.Column("rater", sa.Text, primary_key=True),
    sa.Column("aspect", sa.Text, primary_key=True),
    sa.Column("value", sa.SmallInteger, nullable=False),
    digest_column("text_sha256"),
    digest_column("other_sha256"),
    json_column("extra"),
    sa.Index("ix_preference_other_id", "other_id"),
    sa.CheckConstraint("sample_id < other_id", name="one_order"),
    sa.CheckConstraint("value IN (-1, 0, 1)", name="value"),
)

keypoint_label = sa.Table(
    "keypoint_label",
    METADATA,
    parent_column("keypoint.keypoint_id", primary_key=True),
    parent_column("sample.sample_id", primary_key=True),
    sa.Column("source", sa.Text, primary_key=True),
    sa.Column("covered", sa.Boolean, nullable=False),
    json_column("extra"),
    digest_column("row_sha256"),
    digest_column("text_sha256"),
    digest_column("keypoint_sha256"),
    sa.Index("ix_keypoint_label_sample_id", "sample_id"),
)

ingest_reject = sa.Table(
    "ingest_reject",
    METADATA,
    parent_column("dataset.dataset_id", primary_key=True),
    sa.Column("source", sa.Text, primary_key=True),
    sa.Column("line", sa.BigInteger, primary_key=True, autoincrement=False),
    text_column("code"),
    text_column("reason"),
    text_column("raw"),
    # More than 1 if a file has so many refused rows of one code that the last ones are not listed.
    sa.Column("n_rows", sa.BigInteger, nullable=False, server_default="1"),
    time_column("ingested_at"),
)

# The tables of a manifest that a dataset holds unchanged; triggers delete rows after changes, see db/manifest/store.py.
ingested_table = sa.Table(
    "ingested_table",
    METADATA,
    parent_column("dataset.dataset_id", primary_key=True),
    sa.Column("kind", sa.Text, primary_key=True),
    digest_column("content_sha256"),
    sa.Column("n_rows", sa.BigInteger, nullable=False),
    sa.Column("n_rejected", sa.BigInteger, nullable=False),
)
