"""What ingest stores of a manifest: videos, texts, judgements, refused rows; and how many samples a shard has."""

from __future__ import annotations

import sqlalchemy as sa

from db.schema.columns import METADATA, digest, json, key_again, now, own_id, parent, text

# Kept by triggers. Who writes scores of a shard shares the lock on its row, and who marks them as stale has it alone.
shard = sa.Table(
    "shard",
    METADATA,
    parent("dataset.dataset_id", primary_key=True),
    sa.Column("shard", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("n_samples", sa.BigInteger, nullable=False),
)

# The views and functions as they were made, so that a changed definition is noticed.
view_definition = sa.Table(
    "view_definition",
    METADATA,
    sa.Column("name", sa.Text, primary_key=True),
    digest("sql_sha256"),
)


dataset = sa.Table(
    "dataset",
    METADATA,
    own_id("dataset_id"),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("n_shards", sa.Integer, nullable=False),
    now("created_at"),
    sa.CheckConstraint("n_shards BETWEEN 1 AND 10000", name="n_shards"),
)

video = sa.Table(
    "video",
    METADATA,
    own_id("video_id"),
    parent("dataset.dataset_id"),
    sa.Column("shard", sa.Integer, nullable=False),
    text("key"),
    text("uri", nullable=True),
    digest("content_sha256", nullable=True),
    sa.Column("size_bytes", sa.BigInteger, nullable=True),
    sa.Column("mtime_ns", sa.BigInteger, nullable=True),
    sa.Column("ctime_ns", sa.BigInteger, nullable=True),
    sa.Column("inode", sa.BigInteger, nullable=True),
    text("etag", nullable=True),
    sa.Column("duration_s", sa.Double, nullable=True),
    sa.Column("fps", sa.Double, nullable=True),
    sa.Column("n_frames", sa.Integer, nullable=True),
    sa.Column("width", sa.Integer, nullable=True),
    sa.Column("height", sa.Integer, nullable=True),
    text("codec", nullable=True),
    text("status"),
    text("error", nullable=True),
    json("extra"),
    digest("row_sha256"),
    # Kept by triggers on reference and keypoint: what db/schema/inputs.py compares to tell whether a score is stale.
    digest("references_sha256", nullable=True),
    digest("reference_segments_digest", nullable=True),
    digest("keypoints_sha256", nullable=True),
    key_again("video"),
    sa.UniqueConstraint("dataset_id", "key"),
    sa.Index("ix_video_dataset_id_shard", "dataset_id", "shard"),
    sa.CheckConstraint("status IN ('ok', 'damaged', 'undecodable', 'text_only')", name="status"),
)

reference = sa.Table(
    "reference",
    METADATA,
    own_id("reference_id"),
    parent("dataset.dataset_id"),
    parent("video.video_id"),
    text("key"),
    text("annotator"),
    text("text"),
    json("segments"),
    digest("text_sha256"),
    json("extra"),
    digest("row_sha256"),
    sa.UniqueConstraint("dataset_id", "key"),
    sa.Index("ix_reference_video_id", "video_id"),
)

keypoint = sa.Table(
    "keypoint",
    METADATA,
    own_id("keypoint_id"),
    parent("dataset.dataset_id"),
    parent("video.video_id"),
    text("key"),
    text("dimension"),
    text("text"),
    sa.Column("segment_index", sa.Integer, nullable=True),
    json("extra"),
    digest("row_sha256"),
    sa.UniqueConstraint("dataset_id", "key"),
    sa.Index("ix_keypoint_video_id", "video_id"),
)

sample = sa.Table(
    "sample",
    METADATA,
    own_id("sample_id"),
    parent("dataset.dataset_id"),
    sa.Column("shard", sa.Integer, nullable=False),
    parent("video.video_id"),
    text("key"),
    text("kind"),
    text("system"),
    text("text"),
    text("question", nullable=True),
    text("answer", nullable=True),
    json("segments"),
    digest("text_sha256"),
    json("extra"),
    digest("row_sha256"),
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
    key_again("sample"),
    sa.UniqueConstraint("dataset_id", "kind", "key"),
    sa.Index("ix_sample_dataset_id_shard", "dataset_id", "shard"),
    sa.Index("ix_sample_video_id", "video_id"),
    sa.CheckConstraint("kind IN ('caption', 'qa')", name="kind"),
)

# A rating, and a label on a keypoint, count while the texts are those that were judged. Triggers fill the digests in.
rating = sa.Table(
    "rating",
    METADATA,
    parent("sample.sample_id", primary_key=True),
    sa.Column("rater", sa.Text, primary_key=True),
    sa.Column("aspect", sa.Text, primary_key=True),
    sa.Column("value", sa.Double, nullable=False),
    json("extra"),
    digest("row_sha256"),
    digest("text_sha256"),
)

# Of two captions of a video. It counts while both have the texts that were compared.
preference = sa.Table(
    "preference",
    METADATA,
    parent("sample.sample_id", primary_key=True),
    sa.Column("other_id", sa.ForeignKey("sample.sample_id", ondelete="CASCADE"), primary_key=True),
    sa.Column("rater", sa.Text, primary_key=True),
    sa.Column("aspect", sa.Text, primary_key=True),
    sa.Column("value", sa.SmallInteger, nullable=False),
    digest("text_sha256"),
    digest("other_sha256"),
    json("extra"),
    sa.Index("ix_preference_other_id", "other_id"),
    sa.CheckConstraint("sample_id < other_id", name="one_order"),
    sa.CheckConstraint("value IN (-1, 0, 1)", name="value"),
)

keypoint_label = sa.Table(
    "keypoint_label",
    METADATA,
    parent("keypoint.keypoint_id", primary_key=True),
    parent("sample.sample_id", primary_key=True),
    sa.Column("source", sa.Text, primary_key=True),
    sa.Column("covered", sa.Boolean, nullable=False),
    json("extra"),
    digest("row_sha256"),
    digest("text_sha256"),
    digest("keypoint_sha256"),
    sa.Index("ix_keypoint_label_sample_id", "sample_id"),
)

ingest_reject = sa.Table(
    "ingest_reject",
    METADATA,
    parent("dataset.dataset_id", primary_key=True),
    sa.Column("source", sa.Text, primary_key=True),
    sa.Column("line", sa.BigInteger, primary_key=True, autoincrement=False),
    text("code"),
    text("reason"),
    text("raw"),
    # More than one where a file has so many refused rows of one code that the last ones are not listed.
    sa.Column("n_rows", sa.BigInteger, nullable=False, server_default="1"),
    now("ingested_at"),
)

# The tables of a manifest that a dataset holds unchanged; triggers forget them, see db/manifest/store.py.
ingested_table = sa.Table(
    "ingested_table",
    METADATA,
    parent("dataset.dataset_id", primary_key=True),
    sa.Column("kind", sa.Text, primary_key=True),
    digest("content_sha256"),
    sa.Column("n_rows", sa.BigInteger, nullable=False),
    sa.Column("n_rejected", sa.BigInteger, nullable=False),
)
