"""How many model calls QEVA takes at most, by role and in all, before one is made (spec 3.7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls of the models that are sent a video, and of those that are sent text only. Retries are not counted."""

    video: int
    text: int

    def __add__(self, other: Calls) -> Calls:
        """The calls of both."""
        return Calls(self.video + other.video, self.text + other.text)

    def times(self, n: int) -> Calls:
        """The calls of n such units."""
        return Calls(self.video * n, self.text * n)


def calls_about_video(n: int, votes: int, is_open: bool) -> dict[str, Calls]:
    """Calls of every role about a video at most: with the video, and with text only.

    is_open: whether a video model writes the questions, so that those on coverage are open and a text model judges
    their answers. video: two lists and n reference answers. filter_video: votes without a context and the open-book
    answers on both sets. text: a judgement of every vote and open-book answer on coverage.

    >>> total(calls_about_video(10, 1, True))
    Calls(video=32, text=40)
    """
    filtered = {"filter_video": Calls(2 * n, 2 * n * votes)}
    return {**filtered, "video": Calls(n + 2, 0), "text": Calls(0, (votes + 1) * n)} if is_open else filtered


def calls_about_summary_questions(n: int, votes: int) -> dict[str, Calls]:
    """Calls of every role for n factuality questions of a summary at most."""
    return {"text": Calls(0, 1), "filter_text": Calls(0, (votes + 1) * n)}


def calls_about_answers(n: int, n_factuality: int, is_open: bool) -> dict[str, Calls]:
    """Calls of every role for the answers about a summary at most, and for judgements of open ones.

    >>> total(calls_about_answers(10, 10, True)) + total(calls_about_summary_questions(10, 1))
    Calls(video=10, text=51)
    """
    return {"video": Calls(n_factuality, 0), "text": Calls(0, (3 if is_open else 2) * n)}


def times(calls: Mapping[str, Calls], n: int) -> dict[str, Calls]:
    """The calls of n such units."""
    return {role: each.times(n) for role, each in calls.items()}


def total(by_role: Mapping[str, Calls]) -> Calls:
    """The calls of all roles together."""
    return sum(by_role.values(), Calls(0, 0))


def calls_per_video(n_questions: int = 10, votes: int = 1) -> Calls:
    """At most so many calls for the questions of a video, which all its summaries share.

    >>> calls_per_video()
    Calls(video=32, text=40)
    """
    return total(calls_about_video(n_questions, votes, is_open=True))


def calls_per_summary(n_questions: int = 10, votes: int = 1) -> Calls:
    """At most so many calls for a summary.

    >>> calls_per_summary()
    Calls(video=10, text=51)
    """
    questions = calls_about_summary_questions(n_questions, votes)
    return total(questions) + total(calls_about_answers(n_questions, n_questions, is_open=True))


def calls_in_all(n_videos: int, n_summaries: int, n_questions: int = 10, votes: int = 1) -> Calls:
    """At most so many calls for n_summaries summaries of n_videos videos, all of them together.

    >>> calls_in_all(n_videos=200, n_summaries=800)
    Calls(video=14400, text=48800)
    """
    videos = calls_per_video(n_questions, votes).times(n_videos)
    return videos + calls_per_summary(n_questions, votes).times(n_summaries)
