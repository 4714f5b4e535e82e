"""Tables of QEVA's evidence: questions about videos and captions, and the answers to them."""

from __future__ import annotations

import sqlalchemy as sa

from db.schema.columns import (
    column,
    declare_table,
    digest_column,
    id_column,
    json_column,
    measure_column,
    parent_column,
    text_column,
    time_column,
)

# The questions of one dimension, about a video, or if a sample is named, about its text.
qeva_question_set = declare_table(
    "qeva_question_set",
    "The questions of one dimension, about a video or about the text of a sample.",
    id_column("question_set_id", "Number of the set."),
    parent_column(
        "model.model_id", "The models that write and filter the questions; all of them are one row of table model."
    ),
    text_column("dimension", "coverage, factuality or chronology."),
    parent_column("video.video_id"),
    parent_column(
        "sample.sample_id",
        "Sample whose text the questions are about; NULL where they are about the video.",
        nullable=True,
    ),
    digest_column("source_sha256", "Digest of the material that the questions were written from."),
    column("n_requested", sa.Integer, "Number of questions that were asked for."),
    column("n_malformed", sa.Integer, "Number of written questions that could not be parsed."),
    text_column("status", "ok, refused or error."),
    text_column("reason", "Why there are no questions, or why the status is not ok.", nullable=True),
    text_column("run_id"),
    time_column("written_at", "When the questions were written."),
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
qeva_question = declare_table(
    "qeva_question",
    "A question with its right answer, and the result of filtering it.",
    id_column("question_id", "Number of the question."),
    parent_column(
        "qeva_question_set.question_set_id", "Set that the question belongs to, a row of table qeva_question_set."
    ),
    column("position", sa.Integer, "Place in the set, from 0."),
    text_column("kind", "Form of the question: open, yes_no, choice or order."),
    text_column("text", "The question."),
    json_column("choices", "Choices as shown to the model; empty for an open question."),
    text_column("answer", "The right answer."),
    text_column("category", "Subject of the question, if the dimension has categories.", nullable=True),
    json_column("events", "Numbers of the events that a chronology question compares."),
    json_column(
        "statements", "Statements that a verifier checks to answer: the choices, the events to compare, or the answer."
    ),
    json_column("closed_book", "Outcomes of the attempts to answer the question without the source.", nullable=True),
    text_column("open_book", "Outcome of the attempt to answer the question with the source.", nullable=True),
    text_column(
        "decision", "keep, trivial, low_quality or error; NULL while it is still to be filtered.", nullable=True
    ),
    text_column("filter_reason", "Why the filter decided so.", nullable=True),
    text_column(
        "filter_failure", "Where decision is error: malformed, refused, or error if no reply came.", nullable=True
    ),
    sa.UniqueConstraint("question_set_id", "position"),
    sa.CheckConstraint("decision IN ('keep', 'trivial', 'low_quality', 'error')", name="decision"),
    sa.CheckConstraint("filter_failure IN ('malformed', 'refused', 'error')", name="filter_failure"),
    sa.CheckConstraint(
        "(filter_failure IS NOT NULL) = (decision IS NOT DISTINCT FROM 'error')", name="failure_iff_error"
    ),
)

qeva_answer = declare_table(
    "qeva_answer",
    "An answer to a question about a sample, and whether it is right.",
    parent_column("qeva_question.question_id", "Question, a row of table qeva_question.", primary_key=True),
    parent_column("sample.sample_id", primary_key=True),
    parent_column(
        "model.model_id", "The models that answer and judge; all of them are one row of table model.", primary_key=True
    ),
    digest_column(
        "context_sha256",
        "Digest of the material that it was answered from: the caption, or the frames or notes of the video.",
    ),
    text_column("status", "ok, abstain, malformed, refused or error."),
    text_column("raw", "The answer, word for word."),
    text_column("normalised", "The answer as it was parsed; NULL unless the status is ok.", nullable=True),
    column("correct", sa.Boolean, "Whether the answer is right; NULL if that could not be decided.", nullable=True),
    text_column("reason", "Why the status is not ok, or the judge's explanation.", nullable=True),
    measure_column("score", "Probability by which the answer was chosen."),
    text_column("evidence", "Sentence by which the answer was chosen.", nullable=True),
    text_column("run_id"),
    time_column("answered_at", "When the answer was given."),
    sa.Index("ix_qeva_answer_sample_id", "sample_id"),
    sa.CheckConstraint("status IN ('ok', 'abstain', 'malformed', 'refused', 'error')", name="status"),
    sa.CheckConstraint("(status = 'ok') = (normalised IS NOT NULL)", name="answer_iff_ok"),
    sa.CheckConstraint("correct IS NULL OR status IN ('ok', 'abstain')", name="judged_if_answered"),
)
