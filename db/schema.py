"""The tables of the curation database, as SQLAlchemy metadata. The migrations in db/migrations must agree with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from pgvector.sqlalchemy import VECTOR
from sqlalchemy.dialects.postgresql import JSONB

from db.comments import describe

METADATA = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)


def _id(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, sa.Identity(), primary_key=True)


def _parent(column: str, *, primary_key: bool = False) -> sa.Column[int]:
    name = column.split(".")[1]
    key = sa.ForeignKey(column, ondelete="CASCADE")
    return sa.Column(name, sa.BigInteger, key, primary_key=primary_key, nullable=False)


def _text(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=nullable)


def _digest(name: str, *, nullable: bool = False) -> sa.Column[bytes]:
    return sa.Column(name, sa.LargeBinary, nullable=nullable)


def _now(name: str) -> sa.Column[object]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now())


def _json(name: str, *, nullable: bool = True) -> sa.Column[object]:
    return sa.Column(name, JSONB(none_as_null=True), nullable=nullable)


dataset = sa.Table(
    "dataset",
    METADATA,
    _id("dataset_id"),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("n_shards", sa.Integer, nullable=False),
    _now("created_at"),
    sa.CheckConstraint("n_shards BETWEEN 1 AND 10000", name="n_shards"),
)

video = sa.Table(
    "video",
    METADATA,
    _id("video_id"),
    _parent("dataset.dataset_id"),
    sa.Column("shard", sa.Integer, nullable=False),
    _text("key"),
    _text("uri", nullable=True),
    _digest("content_sha256", nullable=True),
    sa.Column("size_bytes", sa.BigInteger, nullable=True),
    sa.Column("mtime_ns", sa.BigInteger, nullable=True),
    sa.Column("ctime_ns", sa.BigInteger, nullable=True),
    sa.Column("inode", sa.BigInteger, nullable=True),
    _text("etag", nullable=True),
    sa.Column("duration_s", sa.Double, nullable=True),
    sa.Column("fps", sa.Double, nullable=True),
    sa.Column("n_frames", sa.Integer, nullable=True),
    sa.Column("width", sa.Integer, nullable=True),
    sa.Column("height", sa.Integer, nullable=True),
    _text("codec", nullable=True),
    _text("status"),
    _text("error", nullable=True),
    _json("extra"),
    _digest("row_sha256"),
    # Kept by triggers on reference and keypoint: what db/inputs.py compares to tell whether a score is stale.
    _digest("references_sha256", nullable=True),
    _digest("reference_segments_digest", nullable=True),
    _digest("keypoints_sha256", nullable=True),
    sa.UniqueConstraint("dataset_id", "key"),
    sa.Index("ix_video_dataset_id_shard", "dataset_id", "shard"),
    sa.CheckConstraint("status IN ('ok', 'damaged', 'undecodable', 'text_only')", name="status"),
)

reference = sa.Table(
    "reference",
    METADATA,
    _id("reference_id"),
    _parent("dataset.dataset_id"),
    _parent("video.video_id"),
    _text("key"),
    _text("annotator"),
    _text("text"),
    _json("segments"),
    _digest("text_sha256"),
    _json("extra"),
    _digest("row_sha256"),
    sa.UniqueConstraint("dataset_id", "key"),
    sa.Index("ix_reference_video_id", "video_id"),
)

keypoint = sa.Table(
    "keypoint",
    METADATA,
    _id("keypoint_id"),
    _parent("dataset.dataset_id"),
    _parent("video.video_id"),
    _text("key"),
    _text("dimension"),
    _text("text"),
    sa.Column("segment_index", sa.Integer, nullable=True),
    _json("extra"),
    _digest("row_sha256"),
    sa.UniqueConstraint("dataset_id", "key"),
    sa.Index("ix_keypoint_video_id", "video_id"),
)

sample = sa.Table(
    "sample",
    METADATA,
    _id("sample_id"),
    _parent("dataset.dataset_id"),
    sa.Column("shard", sa.Integer, nullable=False),
    _parent("video.video_id"),
    _text("key"),
    _text("kind"),
    _text("system"),
    _text("text"),
    _text("question", nullable=True),
    _text("answer", nullable=True),
    _json("segments"),
    _digest("text_sha256"),
    _json("extra"),
    _digest("row_sha256"),
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
    sa.UniqueConstraint("dataset_id", "kind", "key"),
    sa.Index("ix_sample_dataset_id_shard", "dataset_id", "shard"),
    sa.Index("ix_sample_video_id", "video_id"),
    sa.CheckConstraint("kind IN ('caption', 'qa')", name="kind"),
)

rating = sa.Table(
    "rating",
    METADATA,
    _parent("sample.sample_id", primary_key=True),
    sa.Column("rater", sa.Text, primary_key=True),
    sa.Column("aspect", sa.Text, primary_key=True),
    sa.Column("value", sa.Double, nullable=False),
    _json("extra"),
    _digest("row_sha256"),
)

keypoint_label = sa.Table(
    "keypoint_label",
    METADATA,
    _parent("keypoint.keypoint_id", primary_key=True),
    _parent("sample.sample_id", primary_key=True),
    sa.Column("source", sa.Text, primary_key=True),
    sa.Column("covered", sa.Boolean, nullable=False),
    _json("extra"),
    _digest("row_sha256"),
    sa.Index("ix_keypoint_label_sample_id", "sample_id"),
)

ingest_reject = sa.Table(
    "ingest_reject",
    METADATA,
    _parent("dataset.dataset_id", primary_key=True),
    sa.Column("source", sa.Text, primary_key=True),
    sa.Column("line", sa.BigInteger, primary_key=True, autoincrement=False),
    _text("code"),
    _text("reason"),
    _text("raw"),
    # More than one where a file has so many refused rows of one code that the last ones are not listed.
    sa.Column("n_rows", sa.BigInteger, nullable=False, server_default="1"),
    _now("ingested_at"),
)

# The tables of a manifest that a dataset holds unchanged; triggers forget them, see db/ingested.py.
ingested_table = sa.Table(
    "ingested_table",
    METADATA,
    _parent("dataset.dataset_id", primary_key=True),
    sa.Column("kind", sa.Text, primary_key=True),
    _digest("content_sha256"),
    sa.Column("n_rows", sa.BigInteger, nullable=False),
    sa.Column("n_rejected", sa.BigInteger, nullable=False),
)

model = sa.Table(
    "model",
    METADATA,
    _id("model_id"),
    sa.Column("fingerprint", sa.Text, nullable=False, unique=True),
    _text("name"),
    _text("revision"),
    _json("params", nullable=False),
    _now("created_at"),
)

text_embedding = sa.Table(
    "text_embedding",
    METADATA,
    _parent("model.model_id", primary_key=True),
    sa.Column("text_sha256", sa.LargeBinary, primary_key=True),
    sa.Column("embedding", VECTOR(), nullable=False),
)

# Keywords of texts by chat model; rules need no table.
keyword_set = sa.Table(
    "keyword_set",
    METADATA,
    _parent("model.model_id", primary_key=True),
    sa.Column("text_sha256", sa.LargeBinary, primary_key=True),
    _json("keywords", nullable=False),
    _text("status"),
    _text("reason", nullable=True),
    _text("run_id"),
    _now("extracted_at"),
    sa.CheckConstraint("status IN ('ok', 'refused', 'failed')", name="status"),
    sa.CheckConstraint("(status = 'ok') = (reason IS NULL)", name="reason_unless_ok"),
    sa.CheckConstraint("status = 'ok' OR keywords = '[]'", name="keywords_if_ok"),
)

frame_set = sa.Table(
    "frame_set",
    METADATA,
    _parent("model.model_id", primary_key=True),
    _parent("video.video_id", primary_key=True),
    _digest("content_sha256"),
    _text("status"),
    _text("error", nullable=True),
    sa.Column("n_frames", sa.Integer, nullable=True),
    sa.Column("n_sampled", sa.Integer, nullable=False),
    _text("reader", nullable=True),
    _now("encoded_at"),
    sa.Index("ix_frame_set_video_id", "video_id"),
    sa.CheckConstraint("status IN ('ok', 'unreadable', 'failed')", name="status"),
    sa.CheckConstraint("(status = 'ok') = (error IS NULL)", name="reason_unless_ok"),
)

frame_embedding = sa.Table(
    "frame_embedding",
    METADATA,
    _parent("model.model_id", primary_key=True),
    _parent("video.video_id", primary_key=True),
    sa.Column("frame_index", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("time_s", sa.Double, nullable=False),
    sa.Column("embedding", VECTOR(), nullable=False),
    sa.Index("ix_frame_embedding_video_id", "video_id"),
)

entailment = sa.Table(
    "entailment",
    METADATA,
    _parent("model.model_id", primary_key=True),
    sa.Column("pair_sha256", sa.LargeBinary, primary_key=True),
    sa.Column("probability", sa.Double, nullable=False),
    sa.Column("truncated", sa.Boolean, nullable=False),
    # Refuses NaN too, which Postgres holds to be greater than every number.
    sa.CheckConstraint("probability BETWEEN 0 AND 1", name="probability"),
)

# Valid answers of language models by the hash of what was asked; a failed call leaves a row in chat_call alone.
chat_reply = sa.Table(
    "chat_reply",
    METADATA,
    sa.Column("request_sha256", sa.LargeBinary, primary_key=True),
    _parent("model.model_id"),
    _text("purpose"),
    _json("data", nullable=False),
    sa.Column("calls", sa.Integer, nullable=False),
    sa.Column("tokens_in", sa.BigInteger, nullable=False),
    sa.Column("tokens_out", sa.BigInteger, nullable=False),
    sa.Column("money", sa.Double, nullable=True),
    _now("created_at"),
    sa.Index("ix_chat_reply_model_id", "model_id"),
)

chat_call = sa.Table(
    "chat_call",
    METADATA,
    _id("chat_call_id"),
    _parent("model.model_id"),
    _text("run_id"),
    _text("purpose"),
    _digest("request_sha256"),
    sa.Column("attempt", sa.Integer, nullable=False),
    _text("outcome"),
    _text("error", nullable=True),
    sa.Column("http_status", sa.Integer, nullable=True),
    sa.Column("tokens_in", sa.BigInteger, nullable=False),
    sa.Column("tokens_out", sa.BigInteger, nullable=False),
    sa.Column("money", sa.Double, nullable=True),
    sa.Column("duration_s", sa.Double, nullable=False),
    _now("ended_at"),
    sa.Index("ix_chat_call_model_id", "model_id"),
    sa.Index("ix_chat_call_run_id", "run_id"),
    sa.CheckConstraint(
        "outcome IN ('ok', 'malformed', 'truncated', 'refused', 'unreachable', 'rejected', 'wrong_model')",
        name="outcome",
    ),
    sa.CheckConstraint("(outcome = 'ok') = (error IS NULL)", name="reason_unless_ok"),
)

scorer = sa.Table(
    "scorer",
    METADATA,
    _id("scorer_id"),
    _text("metric"),
    sa.Column("fingerprint", sa.Text, nullable=False, unique=True),
    _json("models", nullable=False),
    _json("params", nullable=False),
    _text("code_version"),
    _text("status"),
    _now("created_at"),
    sa.CheckConstraint("status IN ('candidate', 'active', 'retired')", name="status"),
    sa.Index("uq_scorer_active_metric", "metric", unique=True, postgresql_where=sa.text("status = 'active'")),
)

score = sa.Table(
    "score",
    METADATA,
    _parent("scorer.scorer_id"),
    _parent("sample.sample_id"),
    _digest("input_sha256"),
    sa.Column("input_marks", JSONB(none_as_null=True), nullable=False, server_default="{}"),
    sa.Column("value", sa.Double, nullable=True),
    _json("components", nullable=False),
    _text("status"),
    _text("error", nullable=True),
    _text("run_id"),
    _now("scored_at"),
    # The values stand beside the key, so that scorers are merged by sample without a look at the rows.
    sa.PrimaryKeyConstraint("scorer_id", "sample_id", postgresql_include=["value"]),
    sa.Index("ix_score_sample_id", "sample_id"),
    # The best samples of a scorer without a look at the others, and all values without the rows.
    sa.Index(
        "ix_score_scorer_id_value",
        "scorer_id",
        sa.text("value DESC NULLS LAST"),
        postgresql_include=["sample_id"],
    ),
    sa.CheckConstraint("(status = 'ok') = (value IS NOT NULL)", name="value_iff_ok"),
    sa.CheckConstraint("value <> 'NaN' AND abs(value) < 'Infinity'", name="value_finite"),
    sa.CheckConstraint("(status = 'ok') = (error IS NULL)", name="reason_unless_ok"),
)

# Kept by triggers: the version changes with any sample of a shard and any input of its video.
shard = sa.Table(
    "shard",
    METADATA,
    _parent("dataset.dataset_id", primary_key=True),
    sa.Column("shard", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("version", sa.BigInteger, nullable=False),
)

# What was last counted in a shard, see db/shards.py; a trigger changes the version with every write of that kind.
shard_count = sa.Table(
    "shard_count",
    METADATA,
    _parent("scorer.scorer_id", primary_key=True),
    sa.Column("kind", sa.Text, primary_key=True),
    _parent("dataset.dataset_id", primary_key=True),
    sa.Column("shard", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("version", sa.BigInteger, nullable=False),
    # Both versions as the count saw them: a count holds as long as neither has changed.
    sa.Column("counted_version", sa.BigInteger, nullable=True),
    sa.Column("counted_shard_version", sa.BigInteger, nullable=True),
    _digest("rule_sha256", nullable=True),
    _json("counts"),
    sa.CheckConstraint("kind IN ('scores', 'verdicts')", name="kind"),
)

# Filled by a trigger on score: a score before it was replaced, and the reason for replacing it.
past_score = sa.Table(
    "past_score",
    METADATA,
    _id("past_score_id"),
    _parent("scorer.scorer_id"),
    _parent("sample.sample_id"),
    _digest("input_sha256"),
    sa.Column("value", sa.Double, nullable=True),
    _json("components", nullable=False),
    _text("status"),
    _text("error", nullable=True),
    _text("run_id"),
    sa.Column("scored_at", sa.DateTime(timezone=True), nullable=False),
    _now("replaced_at"),
    _text("reason"),
    sa.Index("ix_past_score_sample_id", "sample_id"),
    sa.Index("ix_past_score_scorer_id", "scorer_id"),
)

# The views as they were made, so that a changed definition is noticed.
view_definition = sa.Table(
    "view_definition",
    METADATA,
    sa.Column("name", sa.Text, primary_key=True),
    _digest("sql_sha256"),
)

verdict_set = sa.Table(
    "verdict_set",
    METADATA,
    _parent("scorer.scorer_id", primary_key=True),
    _parent("sample.sample_id", primary_key=True),
    _digest("input_sha256"),
    _text("status"),
    _text("error", nullable=True),
    sa.Column("n_sentences", sa.Integer, nullable=False),
    sa.Column("n_passes", sa.Integer, nullable=False),
    _text("run_id"),
    _now("verified_at"),
    sa.Index("ix_verdict_set_sample_id", "sample_id"),
    sa.CheckConstraint("status IN ('ok', 'unverifiable')", name="status"),
    sa.CheckConstraint("(status = 'ok') = (error IS NULL)", name="reason_unless_ok"),
)

ecs_verdict = sa.Table(
    "ecs_verdict",
    METADATA,
    sa.Column("scorer_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("sample_id", sa.BigInteger, primary_key=True, autoincrement=False),
    _parent("keypoint.keypoint_id", primary_key=True),
    sa.Column("probability", sa.Double, nullable=True),
    sa.Column("sentence_index", sa.Integer, nullable=True),
    _text("sentence", nullable=True),
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

# The questions of one dimension: of a video, or where a sample is named, of its text.
qeva_question_set = sa.Table(
    "qeva_question_set",
    METADATA,
    _id("question_set_id"),
    _parent("model.model_id"),
    _text("dimension"),
    _parent("video.video_id"),
    sa.Column("sample_id", sa.BigInteger, sa.ForeignKey("sample.sample_id", ondelete="CASCADE"), nullable=True),
    # What the questions were written from: another summary, or another video, asks for other questions.
    _digest("source_sha256"),
    sa.Column("n_requested", sa.Integer, nullable=False),
    sa.Column("n_malformed", sa.Integer, nullable=False),
    _text("status"),
    _text("reason", nullable=True),
    _text("run_id"),
    _now("written_at"),
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
    _id("question_id"),
    _parent("qeva_question_set.question_set_id"),
    sa.Column("position", sa.Integer, nullable=False),
    _text("kind"),
    _text("text"),
    _json("choices", nullable=False),
    _text("answer"),
    _text("category", nullable=True),
    _json("events", nullable=False),
    _json("statements", nullable=False),
    _json("closed_book"),
    _text("open_book", nullable=True),
    _text("decision", nullable=True),
    _text("filter_reason", nullable=True),
    _text("filter_failure", nullable=True),
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
    _parent("qeva_question.question_id", primary_key=True),
    _parent("sample.sample_id", primary_key=True),
    _parent("model.model_id", primary_key=True),
    # What the question was answered from: the summary, or the video.
    _digest("context_sha256"),
    _text("status"),
    _text("raw"),
    _text("normalised", nullable=True),
    sa.Column("correct", sa.Boolean, nullable=True),
    _text("reason", nullable=True),
    sa.Column("score", sa.Double, nullable=True),
    _text("evidence", nullable=True),
    _text("run_id"),
    _now("answered_at"),
    sa.Index("ix_qeva_answer_sample_id", "sample_id"),
    sa.CheckConstraint("status IN ('ok', 'abstain', 'malformed', 'refused', 'error')", name="status"),
    sa.CheckConstraint("(status = 'ok') = (normalised IS NOT NULL)", name="answer_iff_ok"),
    sa.CheckConstraint("correct IS NULL OR status IN ('ok', 'abstain')", name="judged_if_answered"),
)


def _threshold(name: str, own: Sequence[sa.Column[Any]], *unique: str) -> sa.Table:
    """A table of cuts within a dataset or a shard. own: its own columns; unique: those that tell its cuts apart."""
    return sa.Table(
        name,
        METADATA,
        _id(f"{name}_id"),
        _parent("scorer.scorer_id"),
        _parent("dataset.dataset_id"),
        _text("scope"),
        sa.Column("shard", sa.Integer, nullable=True),
        *own,
        _text("method"),
        _text("objective"),
        sa.Column("n", sa.BigInteger, nullable=False),
        sa.Column("details", JSONB(none_as_null=True), nullable=False, server_default="{}"),
        _now("created_at"),
        sa.UniqueConstraint(
            *("scorer_id", "dataset_id", "scope", "shard", *unique, "method", "objective"),
            name=f"uq_{name}_scope",
            postgresql_nulls_not_distinct=True,
        ),
        sa.CheckConstraint("scope IN ('dataset', 'shard')", name="scope"),
    )


keypoint_threshold = _threshold(
    "keypoint_threshold",
    [
        _text("dimension"),
        sa.Column("threshold", sa.Double, nullable=False),
        sa.Column("n_positive", sa.BigInteger, nullable=True),
    ],
    "dimension",
)

# The cut is not named like a score or like the threshold of a keypoint, so that a natural join is never by it.
score_threshold = _threshold(
    "score_threshold",
    [
        sa.Column("at_least", sa.Double, nullable=False),
        sa.Column("low", sa.Double, nullable=True),
        sa.Column("high", sa.Double, nullable=True),
        sa.Column("n_good", sa.BigInteger, nullable=True),
    ],
)

agreement = sa.Table(
    "agreement",
    METADATA,
    _id("agreement_id"),
    _parent("dataset.dataset_id"),
    # NULL for baselines, and for what raters say of each other.
    sa.Column("scorer_id", sa.BigInteger, sa.ForeignKey("scorer.scorer_id", ondelete="CASCADE"), nullable=True),
    _text("metric"),
    _text("aspect"),
    _text("grouping"),
    _text("statistic"),
    sa.Column("value", sa.Double, nullable=True),
    sa.Column("low", sa.Double, nullable=True),
    sa.Column("high", sa.Double, nullable=True),
    sa.Column("n", sa.BigInteger, nullable=False),
    sa.Column("n_undefined", sa.BigInteger, nullable=False),
    sa.Column("n_undefined_resamples", sa.BigInteger, nullable=False),
    sa.Column("n_stale", sa.BigInteger, nullable=False),
    sa.Column("baseline", sa.Boolean, nullable=False),
    sa.Column("seed", sa.BigInteger, nullable=False),
    _now("created_at"),
    sa.UniqueConstraint("dataset_id", "metric", "aspect", "grouping", "statistic", name="uq_agreement_statistic"),
)

selection = sa.Table(
    "selection",
    METADATA,
    _id("selection_id"),
    # NULL for a selection whose dataset was dropped; its name stays, and a trigger keeps it in step before.
    sa.Column("dataset_id", sa.BigInteger, sa.ForeignKey("dataset.dataset_id", ondelete="SET NULL"), nullable=True),
    _text("dataset_name"),
    _json("spec", nullable=False),
    sa.Column("n", sa.BigInteger, nullable=False),
    sa.Column("cutoff", sa.Double, nullable=True),
    _text("score_hash"),
    # As they were when it was made; NULL for selections made before revision 0018.
    sa.Column("n_eligible", sa.BigInteger, nullable=True),
    sa.Column("n_duplicates", sa.BigInteger, nullable=True),
    _json("unjudged"),
    # Of each metric the models of its active scorer, NULL without one; rows have their scores in the same order.
    sa.Column("metrics", sa.ARRAY(sa.Text), nullable=False),
    sa.Column("models", sa.ARRAY(sa.Text), nullable=False),
    _now("created_at"),
    # Not unique together with the spec: a long filter does not fit an index. db/selection.py takes a lock instead.
    sa.Index("ix_selection_dataset_id_score_hash", "dataset_id", "score_hash"),
)

selection_item = sa.Table(
    "selection_item",
    METADATA,
    # No foreign key: it was checked for each row, and took a third of a selection's time. A trigger deletes the rows.
    sa.Column("selection_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("rank", sa.BigInteger, primary_key=True, autoincrement=False),
    # No foreign key: a frozen selection outlives the sample it was made from.
    sa.Column("sample_id", sa.BigInteger, nullable=False),
    sa.Column("value", sa.Double, nullable=False),
    _text("sample"),
    _text("video"),
    _text("kind"),
    _text("system"),
    _text("text"),
    _text("question", nullable=True),
    _text("answer", nullable=True),
    _text("uri", nullable=True),
    _digest("content_sha256", nullable=True),
    # In the order of the selection's metrics: the defined score or NULL, and whether there was a row of scores.
    sa.Column("scores", sa.ARRAY(sa.Double), nullable=False),
    sa.Column("is_scored", sa.ARRAY(sa.Boolean), nullable=False),
)

describe(METADATA)
