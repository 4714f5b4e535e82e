"""The settings of the judge: the vision model, and the frames that it is shown."""

from __future__ import annotations

from pydantic import Field

from assets.home.settings import NamedModel
from assets.models.chat import CHAT_MODEL, ChatSettings


class JudgeSettings(ChatSettings):
    """Settings of the judge. They name a vision model that scores texts, and how many frames it is shown."""

    judge: NamedModel = Field(
        default=CHAT_MODEL,
        description="vision model that judges captions and answers; empty: metric `judge` is left out",
    )
    judge_frames: int = Field(default=8, ge=1, description="frames that the judge is shown, spread over the video")
    judge_frame_size: int = Field(default=448, ge=32, description="largest width and height of a frame, in pixels")
