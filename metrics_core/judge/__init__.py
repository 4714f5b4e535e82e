"""A judge of captions without references: a vision model scores a text by frames of its video, and names what is wrong.

`ask.ChatJudge` asks about many texts at once; `prompt` has the rubric and `spans` finds the named words in the text.
"""

from metrics_core.judge.ask import ChatJudge, JudgeAnswer, JudgedText
from metrics_core.judge.spans import FoundSpans, WrongSpan, find_spans

__all__ = ["ChatJudge", "FoundSpans", "JudgeAnswer", "JudgedText", "WrongSpan", "find_spans"]
