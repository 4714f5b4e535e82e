"""The tiny models that commands under attack score with, and a home that is made once."""

from __future__ import annotations

from tests.orchestration.conftest import prepared_home, tiny_text_encoder, tiny_verifier

__all__ = ["prepared_home", "tiny_text_encoder", "tiny_verifier"]
