"""The settings of EVQAScore: models, frames, long texts and keywords."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from assets.home.settings import NamedModel
from assets.models.chat import CHAT_MODEL, ChatSettings
from assets.models.settings import FrameSettings, ImageTextSettings, SplitterSettings
from metrics_core.keywords import RuleKeywords
from metrics_core.models.chat_keywords import ChatKeywordExtractor
from metrics_core.protocols import KeywordExtractor


class EVQASettings(ImageTextSettings, FrameSettings, ChatSettings, SplitterSettings):
    """Settings of EVQAScore. They are about image-text encoder, frames, sentence splitter, long texts and keywords."""

    evqa_long_text: Literal["chunk_mean", "truncate"] = Field(
        default="chunk_mean",
        description="texts that are too long for the encoder: mean of their chunks, or truncated",
    )
    evqa_keywords_from: Literal["question_and_answer", "answer"] = Field(
        default="question_and_answer", description="text that keywords of a question-answer pair are extracted from"
    )
    evqa_dedup: bool = Field(default=True, description="whether a keyword that repeats another counts once")
    evqa_keywords: NamedModel = Field(
        default=CHAT_MODEL, description="chat model that extracts keywords; empty: rules do"
    )

    def make_extractor(self) -> KeywordExtractor:
        """Make the keyword extractor: one that asks the chat model named in the settings, or without a name one that
        uses rules. Asks nothing yet.
        """
        chat = self.make_chat_model("evqa_keywords")
        return ChatKeywordExtractor(chat) if chat else RuleKeywords()
