"""Count how many model calls QEVA takes at most, by role and in all, before one is made (spec 3.7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelCalls:
    """A number of model calls: `video` calls of models that are sent a video, and `text` calls of models that are sent
    text only. Retries are not counted.
    """

    video: int
    text: int

    def __add__(self, other: ModelCalls) -> ModelCalls:
        """Return the sums of both numbers of calls."""
        return ModelCalls(self.video + other.video, self.text + other.text)

    def multiply(self, n: int) -> ModelCalls:
        """Return n times both numbers of calls."""
        return ModelCalls(self.video * n, self.text * n)


def count_video_calls(n: int, votes: int, is_open: bool) -> dict[str, ModelCalls]:
    """Return the most model calls that writing and filtering the questions about one video takes, by role: "video",
    "text" and "filter_video". n: questions on coverage, and on chronology. votes: answers without a context to every
    question. is_open: whether a video model writes the questions; else "filter_video" is the only role.

    video: two lists and n reference answers. filter_video: votes without a context and the open-book answers on both
    sets. text: a judgement of every vote and open-book answer on coverage.

    >>> sum_calls(count_video_calls(10, 1, True))
    ModelCalls(video=32, text=40)
    """
    filtered = {"filter_video": ModelCalls(2 * n, 2 * n * votes)}
    return {**filtered, "video": ModelCalls(n + 2, 0), "text": ModelCalls(0, (votes + 1) * n)} if is_open else filtered


def count_factuality_calls(n: int, votes: int) -> dict[str, ModelCalls]:
    """Return the most model calls that writing and filtering n factuality questions about one summary takes, by role:
    "text" and "filter_text". votes: answers without a context to every question.
    """
    return {"text": ModelCalls(0, 1), "filter_text": ModelCalls(0, (votes + 1) * n)}


def count_answer_calls(n: int, n_factuality: int, is_open: bool) -> dict[str, ModelCalls]:
    """Return the most model calls that answering the questions about one summary and judging open answers takes, by
    role: "video" and "text". n: questions on coverage, and as many on chronology. n_factuality: factuality questions.
    is_open: whether coverage questions are open, so that their answers are judged.

    >>> sum_calls(count_answer_calls(10, 10, True)) + sum_calls(count_factuality_calls(10, 1))
    ModelCalls(video=10, text=51)
    """
    return {"video": ModelCalls(n_factuality, 0), "text": ModelCalls(0, (3 if is_open else 2) * n)}


def multiply_calls(calls: Mapping[str, ModelCalls], n: int) -> dict[str, ModelCalls]:
    """Return n times the calls of every role, by role."""
    return {role: role_calls.multiply(n) for role, role_calls in calls.items()}


def sum_calls(by_role: Mapping[str, ModelCalls]) -> ModelCalls:
    """Return the calls of all roles added up, 0 without a role."""
    return sum(by_role.values(), ModelCalls(0, 0))
