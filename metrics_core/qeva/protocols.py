"""Who writes, filters, answers and judges QEVA's questions. Each works on many questions at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from metrics_core.protocols import ModelIdentity
from metrics_core.qeva.records import Asked, Judgement, Question, QuestionSet, Reply, VideoFrames, VideoNotes


class VideoExaminer(Protocol):
    """Writes the questions about videos, with their keys. Results come in the order of the videos."""

    @property
    def identity(self) -> ModelIdentity:
        """The model with prompts, their version, and whatever else changes the questions."""
        ...

    def coverage(self, videos: Sequence[VideoFrames | VideoNotes]) -> list[QuestionSet]:
        """Coverage questions (paper 3.1; spec 3.1), open ones with their reference answers."""
        ...

    def chronology(self, videos: Sequence[VideoFrames | VideoNotes]) -> list[QuestionSet]:
        """Questions about the order of events (spec 3.3)."""
        ...


class SummaryExaminer(Protocol):
    """Writes the factuality questions of summaries, with their keys (spec 3.2)."""

    @property
    def identity(self) -> ModelIdentity:
        """The model with prompts, their version, and whatever else changes the questions."""
        ...

    def factuality(self, summaries: Sequence[str]) -> list[QuestionSet]:
        """One set for each summary, in order."""
        ...


class Answerer(Protocol):
    """Answers questions from their contexts, or from none; sees nothing else."""

    @property
    def identity(self) -> ModelIdentity:
        """The model with prompts, their version, and whatever else changes the answers."""
        ...

    def answer(self, asked: Sequence[Asked]) -> list[Reply]:
        """One reply for each, in order. What one question causes is the status of its reply, not an error."""
        ...


class Matcher(Protocol):
    """Decides whether an answer to an open question gives what the reference answer gives."""

    @property
    def identity(self) -> ModelIdentity:
        """The model or rule."""
        ...

    def match(self, answered: Sequence[tuple[Question, Reply]]) -> list[Judgement]:
        """One judgement for each reply (status "ok"), in order. What one causes is the status of its judgement."""
        ...
