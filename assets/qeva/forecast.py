"""What asking chat models would cost, before anything is asked (spec 3.7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from assets.sources.base import Forecast
from metrics_core.models.chat.spending import Prices, usage_of_call
from metrics_core.models.chat.tokens import image_tokens
from metrics_core.qeva.cost import Calls

# A prompt with its schema and question; a short answer. Lists of questions are longer, but there are few of them.
TOKENS_OF_PROMPT, TOKENS_OF_ANSWER = 350, 50
# A caption of some 150 words.
TOKENS_OF_SUMMARY = 250


@dataclass(frozen=True, slots=True)
class Weight:
    """Tokens of a video and of a summary in a request, by a rule of thumb."""

    video: int
    summary: int

    @classmethod
    def of(cls, n_frames: int, frame_size: int) -> Weight:
        """The weight of a video of square frames; a frame of other proportions weighs less."""
        return cls(n_frames * image_tokens(frame_size, frame_size), TOKENS_OF_SUMMARY)

    @classmethod
    def of_notes(cls) -> Weight:
        """The weight of a video that people's notes stand for: twice a summary."""
        return cls(2 * TOKENS_OF_SUMMARY, TOKENS_OF_SUMMARY)


def calls_about_video(n: int, votes: int, is_open: bool) -> dict[str, Calls]:
    """Calls of every role about a video at most: with the video, and with text only.

    is_open: whether a video model writes the questions, so that those on coverage are open and a text model judges
    their answers. video: two lists and n reference answers. filter_video: votes without a context and the open-book
    answers on both sets. text: a judgement of every vote and open-book answer on coverage.

    >>> sum(calls_about_video(10, 1, True).values(), Calls(0, 0))
    Calls(video=32, text=40)
    """
    filtered = {"filter_video": Calls(2 * n, 2 * n * votes)}
    return {**filtered, "video": Calls(n + 2, 0), "text": Calls(0, (votes + 1) * n)} if is_open else filtered


def calls_about_summary_questions(n: int, votes: int) -> dict[str, Calls]:
    """Calls of every role for n factuality questions of a summary at most."""
    return {"text": Calls(0, 1), "filter_text": Calls(0, (votes + 1) * n)}


def calls_about_answers(n: int, n_factuality: int, is_open: bool) -> dict[str, Calls]:
    """Calls of every role for the answers about a summary at most, and for judgements of open ones.

    >>> sum([*calls_about_answers(10, 10, True).values(), *calls_about_summary_questions(10, 1).values()], Calls(0, 0))
    Calls(video=10, text=51)
    """
    return {"video": Calls(n_factuality, 0), "text": Calls(0, (3 if is_open else 2) * n)}


def forecast(role: str, model: str, calls: Calls, weight: Weight, prices: Prices | None) -> Forecast:
    """The cost of calls of a role, each answered at the first attempt."""
    tokens_in = calls.video * (weight.video + TOKENS_OF_PROMPT) + calls.text * (weight.summary + TOKENS_OF_PROMPT)
    tokens_out = (calls.video + calls.text) * TOKENS_OF_ANSWER
    money = usage_of_call(tokens_in, tokens_out, prices).money
    return Forecast(role, model, calls.video + calls.text, tokens_in, tokens_out, money)


def times(calls: Mapping[str, Calls], n: int) -> dict[str, Calls]:
    """The calls of n such units."""
    return {role: each.times(n) for role, each in calls.items()}
