"""Tables that ingest fills from a manifest: videos, texts, judgements and rejects; and the number of samples
per shard.
"""

from __future__ import annotations

import sqlalchemy as sa

from db.schema.columns import (
    column,
    declare_table,
    digest_column,
    id_column,
    json_column,
    key_column,
    key_copy_column,
    measure_column,
    parent_column,
    text_column,
    time_column,
)

# Kept by triggers. Processes that write scores of a shard share the lock on its row; one that marks scores as stale
# holds it exclusively.
shard = declare_table(
    "shard",
    "A shard that has samples, or had some.",
    parent_column("dataset.dataset_id", primary_key=True),
    key_column("shard", sa.Integer),
    column("n_samples", sa.BigInteger, "Number of samples in the shard; kept up to date by triggers."),
)

view_definition = declare_table(
    "view_definition",
    "One row per view with a digest of its definition, by which Reelsieve notices that it must create the view anew.",
    key_column("name", sa.Text, "Name of the view."),
    digest_column("sql_sha256", "Digest of the view's SQL and of all comments."),
)


dataset = declare_table(
    "dataset",
    "A named collection of videos with their captions, questions and judgements.",
    id_column("dataset_id", "Number of the dataset."),
    column("name", sa.Text, "Name of the dataset, as in --dataset.", unique=True),
    column("n_shards", sa.Integer, "Number of shards, fixed at the first ingest."),
    time_column("created_at"),
    sa.CheckConstraint("n_shards BETWEEN 1 AND 10000", name="n_shards"),
)

video = declare_table(
    "video",
    "A video file of the dataset, or a key for texts without a file.",
    id_column("video_id", "Number of the video."),
    parent_column("dataset.dataset_id"),
    column("shard", sa.Integer),
    text_column("key"),
    text_column(
        "uri",
        "Address of the file: a path, root://NAME/path, s3://, gs://, https://, tar://TAR#MEMBER or "
        "lance://TABLE#COLUMN/ROW; NULL for a video that is text only.",
        nullable=True,
    ),
    digest_column(
        "content_sha256",
        "Digest by which the file is recognised, made at ingest as `identity` says; NULL for a video that is text "
        "only.",
        nullable=True,
    ),
    text_column(
        "identity",
        "How content_sha256 was made: sha256, from all bytes; etag, from address, etag and size in the store, or size "
        "and modification time on a disk. NULL for a video that is text only.",
        nullable=True,
    ),
    column("size_bytes", sa.BigInteger, "Size of the file in bytes.", nullable=True),
    column(
        "mtime_ns",
        sa.BigInteger,
        "Time of the last change of the file, or of the tar file that holds it, in nanoseconds since 1970.",
        nullable=True,
    ),
    column(
        "ctime_ns",
        sa.BigInteger,
        "Time of the last change of the file or of its rights, in nanoseconds since 1970; of a member, of its tar "
        "file.",
        nullable=True,
    ),
    column(
        "inode",
        sa.BigInteger,
        "Number of the file, or of the tar file that holds it, in its file system.",
        nullable=True,
    ),
    text_column(
        "etag",
        "ETag of the object in its store, which changes with its content, or version of the Lance table; NULL for "
        "files.",
        nullable=True,
    ),
    column(
        "member_offset",
        sa.BigInteger,
        "Place of the file's first byte in the tar file that holds it; NULL for a file of its own and for a row of "
        "a Lance table.",
        nullable=True,
    ),
    measure_column("duration_s", "Length in seconds."),
    measure_column("fps", "Frames a second."),
    column("n_frames", sa.Integer, "Number of frames.", nullable=True),
    column("width", sa.Integer, "Width in pixels, as displayed.", nullable=True),
    column("height", sa.Integer, "Height in pixels, as displayed.", nullable=True),
    text_column("codec", "Codec of the video stream, such as h264.", nullable=True),
    text_column("status", "ok, damaged (some frames decode), undecodable, or text_only (there is no file)."),
    text_column("error", "Why the file is not ok; NULL for status ok.", nullable=True),
    json_column("extra", nullable=True),
    digest_column("row_sha256"),
    # Kept by triggers on reference and keypoint; db/schema/inputs.py compares them to find stale scores.
    digest_column(
        "references_sha256",
        "Digest of the texts of the video's references, kept up to date by triggers.",
        nullable=True,
    ),
    digest_column(
        "reference_segments_digest",
        "Digest of the times of the video's references, kept up to date by triggers.",
        nullable=True,
    ),
    digest_column("keypoints_sha256", "Digest of the video's keypoints, kept up to date by triggers.", nullable=True),
    key_copy_column("video"),
    text_column(
        "licence",
        "Licence under which the video may be used, as the manifest names it; NULL if unknown.",
        nullable=True,
    ),
    text_column("source_url", "Web address that the video was collected from; NULL if unknown.", nullable=True),
    text_column(
        "collected_at",
        "Date, with or without a time, at which the video was collected, in ISO 8601; NULL if unknown.",
        nullable=True,
    ),
    column("opt_out", sa.Boolean, "Whether the video's owner asked to leave it out; NULL if unknown.", nullable=True),
    column(
        "rewritten_at",
        sa.DateTime(timezone=True),
        "When its file, licence, source or own fields last changed; NULL if they did not.",
        nullable=True,
    ),
    sa.UniqueConstraint("dataset_id", "key"),
    sa.Index("ix_video_dataset_id_shard", "dataset_id", "shard"),
    sa.CheckConstraint("status IN ('ok', 'damaged', 'undecodable', 'text_only')", name="status"),
    sa.CheckConstraint("identity IN ('sha256', 'etag')", name="identity"),
)

reference = declare_table(
    "reference",
    "A caption of a video that people wrote, with which samples are compared.",
    id_column("reference_id", "Number of the reference."),
    parent_column("dataset.dataset_id"),
    parent_column("video.video_id"),
    text_column("key"),
    text_column("annotator", "Person who wrote the reference."),
    text_column("text", "The caption."),
    json_column(
        "segments",
        "Times of the parts of the text: a list of objects with start_s and end_s in seconds, some with text.",
        nullable=True,
    ),
    digest_column("text_sha256"),
    json_column("extra", nullable=True),
    digest_column("row_sha256"),
    sa.UniqueConstraint("dataset_id", "key"),
    sa.Index("ix_reference_video_id", "video_id"),
)

keypoint = declare_table(
    "keypoint",
    "A short statement that a good caption of the video covers.",
    id_column("keypoint_id", "Number of the keypoint."),
    parent_column("dataset.dataset_id"),
    parent_column("video.video_id"),
    text_column("key"),
    text_column("dimension", "Kind of keypoint, such as shooting_style; every dataset has its own dimensions."),
    text_column("text", "The statement, as a sentence."),
    column(
        "segment_index",
        sa.Integer,
        "Segment of the video's reference that it belongs to, from 0; NULL if it belongs to none.",
        nullable=True,
    ),
    json_column("extra", nullable=True),
    digest_column("row_sha256"),
    sa.UniqueConstraint("dataset_id", "key"),
    sa.Index("ix_keypoint_video_id", "video_id"),
)

sample = declare_table(
    "sample",
    "A text to be scored and selected: a caption, or an answer with its question.",
    id_column("sample_id", "Number of the sample."),
    parent_column("dataset.dataset_id"),
    column("shard", sa.Integer),
    parent_column("video.video_id"),
    text_column("key"),
    text_column("kind"),
    text_column("system"),
    text_column("text", "The caption; of a question-answer pair, question and answer together."),
    text_column("question", "The question of a pair; NULL for a caption.", nullable=True),
    text_column("answer", "The answer of a pair; NULL for a caption.", nullable=True),
    json_column(
        "segments",
        "Times of the parts of the text: a list of objects with start_s and end_s in seconds, some with text.",
        nullable=True,
    ),
    digest_column("text_sha256"),
    json_column("extra", nullable=True),
    digest_column("row_sha256"),
    sa.Column(
        "pair_sha256",
        sa.LargeBinary,
        sa.Computed(
            "CASE WHEN kind = 'qa' THEN sha256(text_sha256 || sha256(utf8(COALESCE(question, ''))) "
            "|| sha256(utf8(COALESCE(answer, '')))) END",
            persisted=True,
        ),
        comment="Digest of text, question and answer; NULL for a caption.",
    ),
    sa.Column(
        "segments_sha256",
        sa.LargeBinary,
        sa.Computed("CASE WHEN segments IS NOT NULL THEN sha256(utf8(CAST(segments AS text))) END", persisted=True),
        comment="Digest of the segments; NULL without segments.",
    ),
    key_copy_column("sample"),
    column(
        "changed_at",
        sa.DateTime(timezone=True),
        "When its text last changed after people or the judge had answered about it; NULL if it did not.",
        nullable=True,
    ),
    column(
        "rewritten_at",
        sa.DateTime(timezone=True),
        "When its video, system, segments or own fields last changed in the manifest; NULL if they did not.",
        nullable=True,
    ),
    sa.UniqueConstraint("dataset_id", "kind", "key"),
    sa.Index("ix_sample_dataset_id_shard", "dataset_id", "shard"),
    sa.Index("ix_sample_video_id", "video_id"),
    sa.CheckConstraint("kind IN ('caption', 'qa')", name="kind"),
)

# A rating, and a label on a keypoint, count while the texts are those that were judged. Triggers fill the digests in.
rating = declare_table(
    "rating",
    "A number that a person gave to a sample.",
    parent_column("sample.sample_id", primary_key=True),
    key_column("rater", sa.Text, "Person who gave the rating."),
    key_column("aspect", sa.Text, "Aspect that was judged, such as accuracy."),
    column(
        "value",
        sa.Double,
        "The number, on the scale of table rating_scale; from 1 to 5 (best) for an aspect without one.",
    ),
    json_column(
        "extra",
        "Own fields of the manifest. For a rating from a browser: when and how it was asked, and in `again` the "
        "answer to the repeated question.",
        nullable=True,
    ),
    digest_column("row_sha256"),
    digest_column(
        "text_sha256", "Digest of the text that was rated; while the sample has another text the rating does not count."
    ),
    time_column("stored_at", "When the rating was first stored; a later change of it keeps this time."),
    measure_column(
        "first_value",
        "First rating of this text, which a promise counts; NULL where the rating was never changed.",
    ),
)

# The scale that a manifest declares for an aspect; the others go from 1 to 5.
rating_scale = declare_table(
    "rating_scale",
    "The declared scale of an aspect that people rate; an aspect without one is rated from 1 to 5, and 5 is best.",
    parent_column("dataset.dataset_id", primary_key=True),
    key_column("aspect", sa.Text, "Aspect that is rated, such as accuracy."),
    text_column("scale", "The scale as it was declared: 1-7, yes-no, real, or 0-20, lowest is best."),
    measure_column("least", "Lowest number of the scale; 0 (no) for yes-no, NULL for real numbers."),
    measure_column("most", "Highest number of the scale; 1 (yes) for yes-no, NULL for real numbers."),
    column("lowest_is_best", sa.Boolean, "Whether the lowest number is best."),
)

# A preference between two captions of a video. It counts while both have the texts that were compared.
preference = declare_table(
    "preference",
    "Which of two captions of a video a person finds better.",
    parent_column("sample.sample_id", "The caption with the lower number, a row of table sample.", primary_key=True),
    parent_column("sample.sample_id", "The other caption, a row of table sample.", name="other_id", primary_key=True),
    key_column("rater", sa.Text, "Person who compared them."),
    key_column("aspect", sa.Text, "Aspect that was judged, such as accuracy."),
    column("value", sa.SmallInteger, "1 where sample_id is better, -1 where other_id is, 0 where neither is."),
    digest_column(
        "text_sha256", "Digest of the text that sample_id had; while it has another text the preference does not count."
    ),
    digest_column(
        "other_sha256", "Digest of the text that other_id had; while it has another text the preference does not count."
    ),
    json_column(
        "extra",
        "When and how it was asked: rated_at, answer, seed, a (the caption shown as A), again (a repeat).",
        nullable=True,
    ),
    sa.Index("ix_preference_other_id", "other_id"),
    sa.CheckConstraint("sample_id < other_id", name="one_order"),
    sa.CheckConstraint("value IN (-1, 0, 1)", name="value"),
)

keypoint_label = declare_table(
    "keypoint_label",
    "Whether a caption covers a keypoint, as a person or a chat model decided.",
    parent_column("keypoint.keypoint_id", primary_key=True),
    parent_column("sample.sample_id", primary_key=True),
    key_column("source", sa.Text, "manifest for people's labels, judge:MODEL for those of a chat model."),
    column("covered", sa.Boolean, "Whether the caption covers the keypoint."),
    json_column("extra", nullable=True),
    digest_column("row_sha256"),
    digest_column(
        "text_sha256",
        "Digest of the caption that was labelled; while the caption has another text the label does not count.",
    ),
    digest_column(
        "keypoint_sha256",
        "Digest of the keypoint that was labelled; while it has another text the label does not count.",
    ),
    sa.Index("ix_keypoint_label_sample_id", "sample_id"),
)

ingest_reject = declare_table(
    "ingest_reject",
    "A row of a manifest that ingest refused, and why.",
    parent_column("dataset.dataset_id", primary_key=True),
    key_column("source", sa.Text, "File of the manifest."),
    key_column("line", sa.BigInteger, "Line of the file, or number of the row, from 1."),
    text_column("code", "Kind of fault, such as dangling_reference."),
    text_column("reason", "What is wrong, in a sentence."),
    text_column("raw", "Beginning of the refused row, as it is in the file."),
    # More than 1 if a file has so many refused rows of one code that the last ones are not listed.
    column(
        "n_rows",
        sa.BigInteger,
        "Number of refused rows that this row counts: 1, or more after the first 10,000 of a file and code.",
        server_default="1",
    ),
    time_column("ingested_at", "When the row was refused."),
)

# The tables of a manifest that a dataset holds unchanged; triggers delete rows after changes, see db/manifest/store.py.
ingested_table = declare_table(
    "ingested_table",
    "A table of a manifest as it was last ingested; the next ingest skips it if nothing has changed.",
    parent_column("dataset.dataset_id", primary_key=True),
    key_column("kind", sa.Text, "Table of the manifest, such as captions."),
    digest_column("content_sha256", "Digest of everything that its stored rows were computed from."),
    column("n_rows", sa.BigInteger, "Number of rows that were accepted."),
    column("n_rejected", sa.BigInteger, "Number of rows that were refused."),
)
