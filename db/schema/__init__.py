"""The tables of the curation database as SQLAlchemy objects; the first migration creates them."""

from db.schema.columns import METADATA
from db.schema.conclusions import agreement, estimated_mean, keypoint_threshold, score_threshold
from db.schema.evidence import (
    ecs_verdict,
    entailment,
    frame_embedding,
    frame_set,
    keyword_set,
    text_embedding,
    vector_file,
    verdict_set,
    video_embedding,
)
from db.schema.facts import text_fact, video_fact
from db.schema.ingested import (
    dataset,
    ingest_reject,
    ingested_table,
    keypoint,
    keypoint_label,
    preference,
    rating,
    rating_scale,
    reference,
    sample,
    shard,
    video,
    view_definition,
)
from db.schema.judge import drawn_sample, judge_answer, sample_draw
from db.schema.models import chat_call, chat_reply, model
from db.schema.qeva import qeva_answer, qeva_question, qeva_question_set
from db.schema.remarks import attention_check, remark, saved_view, wrong_span
from db.schema.scores import past_score, score, scorer, shard_count
from db.schema.selections import promise, selection, selection_item
from db.schema.stress import stress_result
from db.schema.trials import selection_trial, trial_run

__all__ = [
    "METADATA",
    "agreement",
    "attention_check",
    "chat_call",
    "chat_reply",
    "dataset",
    "drawn_sample",
    "ecs_verdict",
    "entailment",
    "estimated_mean",
    "frame_embedding",
    "frame_set",
    "ingest_reject",
    "ingested_table",
    "judge_answer",
    "keypoint",
    "keypoint_label",
    "keypoint_threshold",
    "keyword_set",
    "model",
    "past_score",
    "preference",
    "promise",
    "qeva_answer",
    "qeva_question",
    "qeva_question_set",
    "rating",
    "rating_scale",
    "reference",
    "remark",
    "sample",
    "sample_draw",
    "saved_view",
    "score",
    "score_threshold",
    "scorer",
    "selection",
    "selection_item",
    "selection_trial",
    "shard",
    "shard_count",
    "stress_result",
    "text_embedding",
    "text_fact",
    "trial_run",
    "vector_file",
    "verdict_set",
    "video",
    "video_embedding",
    "video_fact",
    "view_definition",
    "wrong_span",
]
