"""A judge of captions without references: a vision model scores a text by frames of its video, and names what is wrong.

`ask.ChatJudge` judges many texts at once; `prompt` has the rubric, `spans` finds the named words in the text, and
`variance` takes the variance of repeated answers apart.
"""

from metrics_core.judge.ask import ChatJudge, JudgeAnswer, JudgedText
from metrics_core.judge.spans import FoundSpans, WrongSpan, find_spans
from metrics_core.judge.variance import JudgeVariance, VariancePart, compute_judge_variance

__all__ = [
    "ChatJudge",
    "FoundSpans",
    "JudgeAnswer",
    "JudgeVariance",
    "JudgedText",
    "VariancePart",
    "WrongSpan",
    "compute_judge_variance",
    "find_spans",
]
