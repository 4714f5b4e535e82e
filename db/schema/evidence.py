"""Models, and the evidence that they made: vectors, frames, keywords, verdicts, questions, answers, chat calls."""

from __future__ import annotations

import sqlalchemy as sa
from pgvector.sqlalchemy import VECTOR

from db.schema.columns import METADATA, digest, json, now, own_id, parent, text

# The models that produce evidence, and every question that chat models were asked.

model = sa.Table(
    "model",
    METADATA,
    own_id("model_id"),
    sa.Column("fingerprint", sa.Text, nullable=False, unique=True),
    text("name"),
    text("revision"),
    json("params", nullable=False),
    now("created_at"),
)

# Valid answers of language models by the hash of what was asked; a failed call leaves a row in chat_call alone.
chat_reply = sa.Table(
    "chat_reply",
    METADATA,
    sa.Column("request_sha256", sa.LargeBinary, primary_key=True),
    parent("model.model_id"),
    text("purpose"),
    json("data", nullable=False),
    sa.Column("calls", sa.Integer, nullable=False),
    sa.Column("tokens_in", sa.BigInteger, nullable=False),
    sa.Column("tokens_out", sa.BigInteger, nullable=False),
    sa.Column("money", sa.Double, nullable=True),
    now("created_at"),
    sa.Index("ix_chat_reply_model_id", "model_id"),
)

chat_call = sa.Table(
    "chat_call",
    METADATA,
    own_id("chat_call_id"),
    parent("model.model_id"),
    text("run_id"),
    text("purpose"),
    digest("request_sha256"),
    sa.Column("attempt", sa.Integer, nullable=False),
    text("outcome"),
    text("error", nullable=True),
    sa.Column("http_status", sa.Integer, nullable=True),
    sa.Column("tokens_in", sa.BigInteger, nullable=False),
    sa.Column("tokens_out", sa.BigInteger, nullable=False),
    sa.Column("money", sa.Double, nullable=True),
    sa.Column("duration_s", sa.Double, nullable=False),
    now("ended_at"),
    sa.Index("ix_chat_call_model_id", "model_id"),
    sa.Index("ix_chat_call_run_id", "run_id"),
    sa.CheckConstraint(
        "outcome IN ('ok', 'malformed', 'truncated', 'refused', 'unreachable', 'rejected', 'wrong_model')",
        name="outcome",
    ),
    sa.CheckConstraint("(outcome = 'ok') = (error IS NULL)", name="reason_unless_ok"),
)


# The evidence of QEVA: questions about videos and summaries, and the answers to them.

# The questions of one dimension: of a video, or where a sample is named, of its text.
qeva_question_set = sa.Table(
    "qeva_question_set",
    METADATA,
    own_id("question_set_id"),
    parent("model.model_id"),
    text("dimension"),
    parent("video.video_id"),
    sa.Column("sample_id", sa.BigInteger, sa.ForeignKey("sample.sample_id", ondelete="CASCADE"), nullable=True),
    # What the questions were written from: another summary, or another video, asks for other questions.
    digest("source_sha256"),
    sa.Column("n_requested", sa.Integer, nullable=False),
    sa.Column("n_malformed", sa.Integer, nullable=False),
    text("status"),
    text("reason", nullable=True),
    text("run_id"),
    now("written_at"),
    sa.UniqueConstraint(
        "model_id",
        "video_id",
        "sample_id",
        "dimension",
        name="uq_qeva_question_set_source",
        postgresql_nulls_not_distinct=True,
    ),
    sa.Index("ix_qeva_question_set_video_id", "video_id"),
    sa.Index("ix_qeva_question_set_sample_id", "sample_id"),
    sa.CheckConstraint("status IN ('ok', 'refused', 'error')", name="status"),
    sa.CheckConstraint("status = 'ok' OR reason IS NOT NULL", name="reason_unless_ok"),
)

# Without a decision, a question is still to be filtered.
qeva_question = sa.Table(
    "qeva_question",
    METADATA,
    own_id("question_id"),
    parent("qeva_question_set.question_set_id"),
    sa.Column("position", sa.Integer, nullable=False),
    text("kind"),
    text("text"),
    json("choices", nullable=False),
    text("answer"),
    text("category", nullable=True),
    json("events", nullable=False),
    json("statements", nullable=False),
    json("closed_book"),
    text("open_book", nullable=True),
    text("decision", nullable=True),
    text("filter_reason", nullable=True),
    text("filter_failure", nullable=True),
    sa.UniqueConstraint("question_set_id", "position"),
    sa.CheckConstraint("decision IN ('keep', 'trivial', 'low_quality', 'error')", name="decision"),
    sa.CheckConstraint("filter_failure IN ('malformed', 'refused', 'error')", name="filter_failure"),
    sa.CheckConstraint(
        "(filter_failure IS NOT NULL) = (decision IS NOT DISTINCT FROM 'error')", name="failure_iff_error"
    ),
)

qeva_answer = sa.Table(
    "qeva_answer",
    METADATA,
    parent("qeva_question.question_id", primary_key=True),
    parent("sample.sample_id", primary_key=True),
    parent("model.model_id", primary_key=True),
    # What the question was answered from: the summary, or the video.
    digest("context_sha256"),
    text("status"),
    text("raw"),
    text("normalised", nullable=True),
    sa.Column("correct", sa.Boolean, nullable=True),
    text("reason", nullable=True),
    sa.Column("score", sa.Double, nullable=True),
    text("evidence", nullable=True),
    text("run_id"),
    now("answered_at"),
    sa.Index("ix_qeva_answer_sample_id", "sample_id"),
    sa.CheckConstraint("status IN ('ok', 'abstain', 'malformed', 'refused', 'error')", name="status"),
    sa.CheckConstraint("(status = 'ok') = (normalised IS NOT NULL)", name="answer_iff_ok"),
    sa.CheckConstraint("correct IS NULL OR status IN ('ok', 'abstain')", name="judged_if_answered"),
)


text_embedding = sa.Table(
    "text_embedding",
    METADATA,
    parent("model.model_id", primary_key=True),
    sa.Column("text_sha256", sa.LargeBinary, primary_key=True),
    sa.Column("embedding", VECTOR(), nullable=False),
    sa.Column("n_chunks", sa.SmallInteger, nullable=False, server_default="1"),
)

# Keywords of texts by chat model; rules need no table.
keyword_set = sa.Table(
    "keyword_set",
    METADATA,
    parent("model.model_id", primary_key=True),
    sa.Column("text_sha256", sa.LargeBinary, primary_key=True),
    json("keywords", nullable=False),
    text("status"),
    text("reason", nullable=True),
    text("run_id"),
    now("extracted_at"),
    sa.CheckConstraint("status IN ('ok', 'refused', 'failed')", name="status"),
    sa.CheckConstraint("(status = 'ok') = (reason IS NULL)", name="reason_unless_ok"),
    sa.CheckConstraint("status = 'ok' OR keywords = '[]'", name="keywords_if_ok"),
)

frame_set = sa.Table(
    "frame_set",
    METADATA,
    parent("model.model_id", primary_key=True),
    parent("video.video_id", primary_key=True),
    digest("content_sha256"),
    text("status"),
    text("error", nullable=True),
    sa.Column("n_frames", sa.Integer, nullable=True),
    sa.Column("n_sampled", sa.Integer, nullable=False),
    text("reader", nullable=True),
    now("encoded_at"),
    sa.Index("ix_frame_set_video_id", "video_id"),
    sa.CheckConstraint("status IN ('ok', 'unreadable', 'failed')", name="status"),
    sa.CheckConstraint("(status = 'ok') = (error IS NULL)", name="reason_unless_ok"),
)

frame_embedding = sa.Table(
    "frame_embedding",
    METADATA,
    parent("model.model_id", primary_key=True),
    parent("video.video_id", primary_key=True),
    sa.Column("frame_index", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("time_s", sa.Double, nullable=False),
    sa.Column("embedding", VECTOR(), nullable=False),
    sa.Index("ix_frame_embedding_video_id", "video_id"),
)

entailment = sa.Table(
    "entailment",
    METADATA,
    parent("model.model_id", primary_key=True),
    sa.Column("pair_sha256", sa.LargeBinary, primary_key=True),
    sa.Column("probability", sa.Double, nullable=False),
    sa.Column("truncated", sa.Boolean, nullable=False),
    # Refuses NaN too, which Postgres holds to be greater than every number.
    sa.CheckConstraint("probability BETWEEN 0 AND 1", name="probability"),
)

verdict_set = sa.Table(
    "verdict_set",
    METADATA,
    parent("scorer.scorer_id", primary_key=True),
    parent("sample.sample_id", primary_key=True),
    digest("input_sha256"),
    text("status"),
    text("error", nullable=True),
    sa.Column("n_sentences", sa.Integer, nullable=False),
    sa.Column("n_passes", sa.Integer, nullable=False),
    text("run_id"),
    now("verified_at"),
    sa.Index("ix_verdict_set_sample_id", "sample_id"),
    sa.CheckConstraint("status IN ('ok', 'unverifiable')", name="status"),
    sa.CheckConstraint("(status = 'ok') = (error IS NULL)", name="reason_unless_ok"),
)

ecs_verdict = sa.Table(
    "ecs_verdict",
    METADATA,
    sa.Column("scorer_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("sample_id", sa.BigInteger, primary_key=True, autoincrement=False),
    parent("keypoint.keypoint_id", primary_key=True),
    sa.Column("probability", sa.Double, nullable=True),
    sa.Column("sentence_index", sa.Integer, nullable=True),
    text("sentence", nullable=True),
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
