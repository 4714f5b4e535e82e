"""How many model calls QEVA takes at most, before one is made (spec 3.7)."""

from __future__ import annotations

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


def calls_per_video(n_questions: int = 10, votes: int = 1) -> Calls:
    """At most so many calls for the questions of a video, which all its summaries share.

    Calls with the video: one for the coverage questions and one for the events, n_questions for reference answers, and
    n_questions for the open-book filter of either set. Text calls: the closed-book votes on both sets, and a judgement
    of every vote and open-book answer on coverage.

    >>> calls_per_video()
    Calls(video=32, text=40)
    """
    return Calls(3 * n_questions + 2, (3 * votes + 1) * n_questions)


def calls_per_summary(n_questions: int = 10, votes: int = 1) -> Calls:
    """At most so many calls for a summary.

    Calls with the video: n_questions for factuality. Text calls: one to write the factuality questions, their
    closed-book votes and open-book filter, the answers on coverage and chronology, and the judgements of the former.

    >>> calls_per_summary()
    Calls(video=10, text=51)
    """
    return Calls(n_questions, (4 + votes) * n_questions + 1)


def calls_in_all(n_videos: int, n_summaries: int, n_questions: int = 10, votes: int = 1) -> Calls:
    """At most so many calls for n_summaries summaries of n_videos videos, all of them together.

    >>> calls_in_all(n_videos=200, n_summaries=800)
    Calls(video=14400, text=48800)
    """
    videos = calls_per_video(n_questions, votes).times(n_videos)
    return videos + calls_per_summary(n_questions, votes).times(n_summaries)
