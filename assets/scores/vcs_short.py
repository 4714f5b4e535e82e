"""VCS_short: short captions against references, word by word. The best reference counts."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, Field

from assets.scores.vcs import ReferenceScorer, ReferenceSettings
from metrics_core.protocols import TextEncoder
from metrics_core.vcs import words_of


class VCSShortSettings(ReferenceSettings):
    """The settings of VCS_short."""

    vcs_short_lct: float = Field(default=1.0, ge=0.0, description="local chronology tolerance of VCS_short")


class VCSShortScorer(ReferenceScorer):
    """VCS_short: VCS whose chunks are single words, without punctuation and English stop words."""

    metric: ClassVar[str] = "vcs_short"
    code_version: ClassVar[str] = "2"
    settings: ClassVar[type[BaseModel]] = VCSShortSettings
    chunk = "word"
    content = "word besides stop words"
    too_short = "set REELSIEVE_VCS_SHORT_TEXT=true"

    def __init__(self, settings: VCSShortSettings, text_encoder: TextEncoder) -> None:
        super().__init__(settings, text_encoder, words_of, settings.vcs_short_lct)

    @classmethod
    def from_settings(cls, settings: VCSShortSettings) -> VCSShortScorer:
        """Make the scorer that the settings describe, with its real encoder."""
        return cls(settings, settings.make_text_encoder())
