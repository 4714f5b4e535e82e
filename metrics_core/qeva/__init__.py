"""QEVA: coverage, factuality and chronology of a video's summary by question answering.

Questions are written from the video (coverage, chronology) and from the summary (factuality), filtered, answered from
the other side, and scored. The score is a pure function of questions, marks and outcomes, so a platform can store every
step and resume at any of them.

`by_chat` is QEVA as the paper has it, with chat models in every role. `offline` replaces them by rules and an
entailment model; its scores are those of another scorer.
"""

from metrics_core.qeva.by_chat.answerers import ChatAnswerer, ChatMatcher
from metrics_core.qeva.by_chat.examiners import ChatSummaryExaminer, ChatVideoExaminer
from metrics_core.qeva.by_chat.model_calls import (
    ModelCalls,
)
from metrics_core.qeva.by_chat.requests import PROMPT_VERSION
from metrics_core.qeva.chronology import build_chronology_questions
from metrics_core.qeva.filtering import (
    AnswerOutcome,
    FilterMark,
    choose_outcome,
    decide_question,
    filter_questions,
    judge_outcomes,
    judge_replies,
)
from metrics_core.qeva.records import AnswerJudgement
from metrics_core.qeva.replies import ABSTAIN, parse_reply
from metrics_core.qeva.score import (
    DimensionScore,
    QevaScore,
    compute_dimension_score,
    compute_empty_summary_score,
    compute_summary_score,
    find_question_shortage,
    is_empty_summary,
)

__all__ = [
    "ABSTAIN",
    "PROMPT_VERSION",
    "AnswerJudgement",
    "AnswerOutcome",
    "ChatAnswerer",
    "ChatMatcher",
    "ChatSummaryExaminer",
    "ChatVideoExaminer",
    "DimensionScore",
    "FilterMark",
    "ModelCalls",
    "QevaScore",
    "build_chronology_questions",
    "choose_outcome",
    "compute_dimension_score",
    "compute_empty_summary_score",
    "compute_summary_score",
    "decide_question",
    "filter_questions",
    "find_question_shortage",
    "is_empty_summary",
    "judge_outcomes",
    "judge_replies",
    "parse_reply",
]
