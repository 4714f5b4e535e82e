"""Tables of evidence that models returned: vectors, frames, keywords, entailments and verdicts."""

from __future__ import annotations

import sqlalchemy as sa
from pgvector.sqlalchemy import VECTOR

from db.schema.columns import (
    column,
    declare_table,
    digest_column,
    id_column,
    json_column,
    key_column,
    measure_column,
    parent_column,
    text_column,
    time_column,
)

vector_file = declare_table(
    "vector_file",
    "A Parquet file of vectors of texts or frames by an encoder, in the folder of setting vectors_folder.",
    id_column("file_id", "File of vectors; rows of text_embedding and frame_set point to it."),
    parent_column("model.model_id"),
    text_column("name", "Path of the file in its folder."),
    text_column("kind", "text, or frame."),
    column("n_rows", sa.Integer, "Number of vectors; NULL until rows point to them.", nullable=True),
    column("n_bytes", sa.BigInteger, "Size of the file in bytes.", nullable=True),
    column("dim", sa.Integer, "Length of a vector.", nullable=True),
    time_column("written_at", "When the file was begun."),
    sa.Index("ix_vector_file_model_id", "model_id"),
    sa.CheckConstraint("kind IN ('text', 'frame')", name="kind"),
    sa.CheckConstraint("num_nulls(n_rows, n_bytes, dim) IN (0, 3)", name="complete_or_absent"),
)


def _list_place_columns() -> list[sa.Column[int]]:
    """Return the columns that say where in a file vectors are; NULL for vectors in the database."""
    # Not parent_column: a file is not deleted while a row points into it.
    file = sa.ForeignKey("vector_file.file_id")
    comment = "File that has the vectors; NULL where the database has them."
    return [
        sa.Column("file_id", sa.BigInteger, file, nullable=True, comment=comment),
        column("place", sa.Integer, "Row of the file, from 0, that has the first vector.", nullable=True),
    ]


text_embedding = declare_table(
    "text_embedding",
    "The vector of a text by an encoder; each distinct text once.",
    parent_column("model.model_id", primary_key=True),
    key_column("text_sha256", sa.LargeBinary),
    column("embedding", VECTOR(), "Vector of pgvector; NULL for one in a file.", nullable=True),
    column(
        "n_chunks",
        sa.SmallInteger,
        "Number of chunks whose mean the vector is: more than 1 for a text that is longer than the encoder reads.",
        server_default="1",
    ),
    *_list_place_columns(),
    sa.Index("ix_text_embedding_file_id", "file_id", postgresql_where=sa.text("file_id IS NOT NULL")),
    sa.CheckConstraint("num_nulls(embedding, file_id) = 1", name="vector_here_or_in_file"),
    sa.CheckConstraint("num_nulls(file_id, place) IN (0, 2)", name="place_in_file"),
)

# Keywords that chat models extracted from texts; keywords by rules are not stored.
keyword_set = declare_table(
    "keyword_set",
    "The keywords that a chat model picked from a text.",
    parent_column("model.model_id", primary_key=True),
    key_column("text_sha256", sa.LargeBinary),
    json_column("keywords", "List of the keywords."),
    text_column("status", "ok, refused, or failed."),
    text_column("reason", "Why there are no keywords; NULL where the status is ok.", nullable=True),
    text_column("run_id"),
    time_column("extracted_at", "When the keywords were extracted."),
    sa.CheckConstraint("status IN ('ok', 'refused', 'failed')", name="status"),
    sa.CheckConstraint("(status = 'ok') = (reason IS NULL)", name="reason_unless_ok"),
    sa.CheckConstraint("status = 'ok' OR keywords = '[]'", name="keywords_if_ok"),
)

frame_set = declare_table(
    "frame_set",
    "Status of a video's frames under an image encoder; the vectors are in frame_embedding, or in a file.",
    parent_column("model.model_id", primary_key=True),
    parent_column("video.video_id", primary_key=True),
    digest_column("content_sha256"),
    text_column("status", "ok, unreadable (final), or failed (the next run tries again)."),
    text_column("error", "Why there are no frames; NULL where the status is ok.", nullable=True),
    column("n_frames", sa.Integer, "Number of frames of the video.", nullable=True),
    column("n_sampled", sa.Integer, "Number of frames that were encoded."),
    text_column("reader", "Library that decoded the file.", nullable=True),
    time_column("encoded_at", "When the frames were encoded."),
    *_list_place_columns(),
    sa.Index("ix_frame_set_video_id", "video_id"),
    sa.Index("ix_frame_set_file_id", "file_id", postgresql_where=sa.text("file_id IS NOT NULL")),
    sa.CheckConstraint("status IN ('ok', 'unreadable', 'failed')", name="status"),
    sa.CheckConstraint("(status = 'ok') = (error IS NULL)", name="reason_unless_ok"),
    sa.CheckConstraint("num_nulls(file_id, place) IN (0, 2)", name="place_in_file"),
)

frame_embedding = declare_table(
    "frame_embedding",
    "The vector of a sampled frame by an image encoder.",
    parent_column("model.model_id", primary_key=True),
    parent_column("video.video_id", primary_key=True),
    key_column("frame_index", sa.Integer, "Number of the frame in the video, from 0."),
    column("time_s", sa.Double, "Time of the frame in seconds."),
    column("embedding", VECTOR()),
    sa.Index("ix_frame_embedding_video_id", "video_id"),
)

# Vectors that a manifest brings, by encoders that are not run here. `content_sha256` is of the file at that time.
video_embedding = declare_table(
    "video_embedding",
    "The vector of a whole video by an encoder of another tool, as the manifest brought it.",
    parent_column("model.model_id", primary_key=True),
    parent_column("video.video_id", primary_key=True),
    digest_column(
        "content_sha256",
        "SHA-256 of the video file when the vector was stored; if it differs now, the vector is not used.",
        nullable=True,
    ),
    column("embedding", VECTOR()),
    json_column("extra", nullable=True),
    digest_column("row_sha256"),
    sa.Index("ix_video_embedding_video_id", "video_id"),
)

entailment = declare_table(
    "entailment",
    "Probability, by a verifier, that one text follows from another; one row per pair.",
    parent_column("model.model_id", primary_key=True),
    key_column("pair_sha256", sa.LargeBinary, "Digest of the two texts."),
    column("probability", sa.Double, "Probability that the second text follows from the first one, from 0 to 1."),
    column("truncated", sa.Boolean, "Whether the texts were too long for the verifier, which read only their start."),
    # Refuses NaN too, which Postgres holds to be greater than every number.
    sa.CheckConstraint("probability BETWEEN 0 AND 1", name="probability"),
)

verdict_set = declare_table(
    "verdict_set",
    "Status of the verification of a caption's keypoints; the verdicts are in ecs_verdict.",
    parent_column("scorer.scorer_id", primary_key=True),
    parent_column("sample.sample_id", primary_key=True),
    digest_column("input_sha256"),
    text_column("status", "ok, or unverifiable."),
    text_column("error", "Why there are no verdicts; NULL where the status is ok.", nullable=True),
    column("n_sentences", sa.Integer, "Number of sentences of the caption."),
    column("n_passes", sa.Integer, "Number of pairs that the verifier was given."),
    text_column("run_id"),
    time_column("verified_at", "When the caption was verified."),
    sa.Index("ix_verdict_set_sample_id", "sample_id"),
    sa.CheckConstraint("status IN ('ok', 'unverifiable')", name="status"),
    sa.CheckConstraint("(status = 'ok') = (error IS NULL)", name="reason_unless_ok"),
)

ecs_verdict = declare_table(
    "ecs_verdict",
    "Probability that a caption covers a keypoint, with the sentence that covers it best.",
    key_column("scorer_id", sa.BigInteger),
    key_column("sample_id", sa.BigInteger),
    parent_column("keypoint.keypoint_id", primary_key=True),
    measure_column(
        "probability",
        "Probability that the caption covers the keypoint, from 0 to 1; NULL if no sentence was compared.",
    ),
    column("sentence_index", sa.Integer, "Place of the best sentence in the caption, from 0.", nullable=True),
    text_column("sentence", "The sentence of the caption that covers the keypoint best.", nullable=True),
    column("n_passes", sa.Integer, "Number of pairs that the verifier was given."),
    sa.ForeignKeyConstraint(
        ["scorer_id", "sample_id"], ["verdict_set.scorer_id", "verdict_set.sample_id"], ondelete="CASCADE"
    ),
    sa.Index("ix_ecs_verdict_sample_id", "sample_id"),
    sa.Index("ix_ecs_verdict_keypoint_id", "keypoint_id"),
    sa.CheckConstraint("probability BETWEEN 0 AND 1", name="probability"),
    sa.CheckConstraint("num_nulls(probability, sentence_index, sentence) IN (0, 3)", name="best_sentence"),
)
