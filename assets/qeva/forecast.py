"""What asking chat models would cost, before anything is asked (spec 3.7)."""

from __future__ import annotations

from dataclasses import dataclass

from assets.sources.base import Forecast
from metrics_core.models.chat.spending import Prices, usage_of_call
from metrics_core.models.chat.tokens import image_tokens
from metrics_core.qeva.by_chat.cost import Calls

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


def forecast(role: str, model: str, calls: Calls, weight: Weight, prices: Prices | None) -> Forecast:
    """The cost of calls of a role, each answered at the first attempt."""
    tokens_in = calls.video * (weight.video + TOKENS_OF_PROMPT) + calls.text * (weight.summary + TOKENS_OF_PROMPT)
    tokens_out = (calls.video + calls.text) * TOKENS_OF_ANSWER
    money = usage_of_call(tokens_in, tokens_out, prices).money
    return Forecast(role, model, calls.video + calls.text, tokens_in, tokens_out, money)
