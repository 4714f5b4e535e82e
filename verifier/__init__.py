"""A verifier of our own: says offline whether a premise entails a hypothesis. How it was made: RECORD.md."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from verifier.classifier import OfflineVerifier

FOLDER = Path(__file__).parent
WEIGHTS = "verifier.safetensors"


@lru_cache(maxsize=1)
def offline_verifier() -> OfflineVerifier:
    """The verifier with the weights beside this module, one per process.

    >>> offline_verifier().identity.model_id
    'reelsieve-verifier'
    """
    return OfflineVerifier(FOLDER / WEIGHTS)
