"""The tiny models that commands under attack score with."""

from __future__ import annotations

from tests.orchestration.conftest import tiny_text_encoder, tiny_verifier

__all__ = ["tiny_text_encoder", "tiny_verifier"]
