"""A verifier of our own: says offline whether a premise entails a hypothesis. How it was made: RECORD.md."""

from __future__ import annotations

import json
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


@lru_cache(maxsize=1)
def default_threshold() -> float:
    """P(entailment) from which on a statement counts as covered where there are no labels to calibrate on.

    The best for F1 on the news articles that RECORD.md calls those for choices; other texts may need another one.
    """
    record = json.loads((FOLDER / "record.json").read_text(encoding="utf-8"))
    threshold: float = record["measured"]["realsumm"]["threshold"]
    return threshold
