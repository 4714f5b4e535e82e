"""The settings of QEVA: the models for every role, and how questions are made and answers judged."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from assets.home.settings import NamedModel
from assets.models.chat import CHAT_MODEL
from assets.models.settings import SplitterSettings, TextEncoderSettings
from metrics_core.qeva.score import MIN_QUESTIONS

_ROLE = "name of a chat model; empty: rules and the entailment verifier are used, without a server"


class QEVASettings(TextEncoderSettings, SplitterSettings):
    """Settings of QEVA. They name a chat model for every role, and how questions are made and answers judged."""

    qeva_video: NamedModel = Field(default=CHAT_MODEL, description=f"video model: {_ROLE}")
    qeva_text: NamedModel = Field(default=CHAT_MODEL, description=f"text model: {_ROLE}")
    qeva_filter_video: NamedModel = Field(
        default=CHAT_MODEL, description="filters questions about videos; empty: the video model"
    )
    qeva_filter_text: NamedModel = Field(
        default=CHAT_MODEL, description="filters questions about summaries; empty: the text model"
    )

    qeva_questions: int = Field(default=10, le=50, description="questions asked for in each dimension")
    qeva_chronology: Literal["templated", "one_shot"] = Field(
        default="templated",
        description="the video model lists events and rules make questions of them, or it writes all questions at once",
    )
    qeva_closed_book_votes: int = Field(
        default=1, ge=1, description="answers without the source; where all are right, a question is dropped as trivial"
    )
    qeva_forced: bool = Field(default=False, description="whether a model must choose an answer, or may also abstain")
    qeva_on_error: Literal["exclude", "wrong"] = Field(
        default="exclude", description="whether a failed answer is left out or counts as wrong"
    )
    qeva_matcher: Literal["auto", "judge", "entailment", "token_f1", "cosine"] = Field(
        default="auto", description="judges open answers; `auto`: the text model where there is one, else entailment"
    )
    qeva_frames: int = Field(default=32, ge=1, description="frames that a video model is shown")
    qeva_frame_size: int = Field(default=512, ge=32, description="largest width and height of a frame, in pixels")

    @field_validator("qeva_questions")
    @classmethod
    def _enough_for_a_value(cls, n: int) -> int:
        if n < MIN_QUESTIONS:
            raise ValueError(
                f"{n} can never give a value, which takes {MIN_QUESTIONS} kept questions: set {MIN_QUESTIONS} or more"
            )
        return n

    @field_validator("qeva_matcher")
    @classmethod
    def _has_its_judge(cls, matcher: str, info: ValidationInfo) -> str:
        if matcher == "judge" and not info.data.get("qeva_text", CHAT_MODEL).model:
            raise ValueError("a judge needs a text model: set REELSIEVE_QEVA_TEXT_MODEL too")
        return matcher
