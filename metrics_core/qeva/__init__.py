"""QEVA: coverage, factuality and chronology of a video's summary by question answering.

Questions are written from the video (coverage, chronology) and from the summary (factuality), filtered, answered from
the other side, and scored. The score is a pure function of questions, marks and outcomes, so a platform can store every
step and resume at any of them.

`by_chat` is QEVA as the paper has it, with chat models in every role. `offline` is our own stand-in for them, by rules
and an entailment model; its scores are those of another scorer.
"""

from metrics_core.qeva.by_chat.answerers import ChatAnswerer, ChatMatcher
from metrics_core.qeva.by_chat.cost import Calls, calls_in_all, calls_per_summary, calls_per_video
from metrics_core.qeva.by_chat.examiners import ChatSummaryExaminer, ChatVideoExaminer
from metrics_core.qeva.by_chat.requests import PROMPT_VERSION
from metrics_core.qeva.chronology import chronology_questions
from metrics_core.qeva.filtering import (
    FilterMark,
    Outcome,
    decide,
    filter_questions,
    judge_replies,
    outcome_of,
    outcomes_of,
)
from metrics_core.qeva.records import Judgement
from metrics_core.qeva.replies import ABSTAIN, normalise
from metrics_core.qeva.score import (
    DimensionScore,
    QevaScore,
    dimension_score,
    empty_summary_score,
    is_empty_summary,
    summary_score,
    too_few_written,
)

__all__ = [
    "ABSTAIN",
    "PROMPT_VERSION",
    "Calls",
    "ChatAnswerer",
    "ChatMatcher",
    "ChatSummaryExaminer",
    "ChatVideoExaminer",
    "DimensionScore",
    "FilterMark",
    "Judgement",
    "Outcome",
    "QevaScore",
    "calls_in_all",
    "calls_per_summary",
    "calls_per_video",
    "chronology_questions",
    "decide",
    "dimension_score",
    "empty_summary_score",
    "filter_questions",
    "is_empty_summary",
    "judge_replies",
    "normalise",
    "outcome_of",
    "outcomes_of",
    "summary_score",
    "too_few_written",
]
