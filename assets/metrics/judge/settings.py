"""The settings of the judge: the vision model, and the frames that it is shown."""

from __future__ import annotations

from pydantic import Field

from assets.models.chat import KEY_VARIABLE_DESCRIPTION, URL_DESCRIPTION, ChatSettings
from metrics_core.models.chat.protocol import ChatModel


class JudgeSettings(ChatSettings):
    """Settings of the judge. They name a vision model that scores texts, and how many frames it is shown."""

    judge_model: str = Field(
        default="", description="vision model that judges captions and answers; empty: metric `judge` is left out"
    )
    judge_url: str = Field(default="vllm", description=URL_DESCRIPTION)
    judge_key_variable: str = Field(default="", description=KEY_VARIABLE_DESCRIPTION)
    judge_frames: int = Field(default=8, ge=1, description="frames that the judge is shown, spread over the video")
    judge_frame_size: int = Field(default=448, ge=32, description="greatest width and height of a frame, in pixels")

    def make_caption_judge(self) -> ChatModel | None:
        """Make the vision model that the settings name as judge; None if they name none. Asks nothing yet."""
        if not self.judge_model:
            return None
        return self.make_chat_model(self.judge_model, self.judge_url, self.judge_key_variable)
