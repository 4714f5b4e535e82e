"""The VCS_short scorer: short captions against references word by word, the best reference counting."""

from __future__ import annotations

from assets.scores.base import ScorerSettings
from assets.scores.vcs import ReferenceScorer
from metrics_core.models.text_encoder import make_text_encoder
from metrics_core.protocols import TextEncoder
from metrics_core.vcs import words_of


class VCSShortScorer(ReferenceScorer):
    """VCS_short: VCS whose chunks are single words, without punctuation and English stop words."""

    metric = "vcs_short"
    code_version = "1"
    chunk = "word"
    content = "word besides stop words"

    def __init__(self, settings: ScorerSettings, text_encoder: TextEncoder) -> None:
        super().__init__(settings, text_encoder, words_of, settings.vcs_short_lct)

    @classmethod
    def from_settings(cls, settings: ScorerSettings) -> VCSShortScorer:
        """The scorer that the settings describe, with its real encoder."""
        return cls(settings, make_text_encoder(settings.text_encoder))
