"""The bundled entailment model: small, offline, on the CPU. RECORD.md describes its training."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

from metrics_core.ecs.verifier.model import OfflineVerifier
from metrics_core.ecs.verifier.whole_text import LearnedWholeTextWeigher

FOLDER = Path(__file__).parent
WEIGHTS = "verifier.safetensors"
WHOLE_TEXT = "whole_text.json"


@lru_cache(maxsize=1)
def make_offline_verifier() -> OfflineVerifier:
    """Return the bundled entailment model with the weights in this folder, always the same object; weights load at the
    first pair.

    >>> make_offline_verifier().identity.model_id
    'reelsieve-verifier'
    """
    return OfflineVerifier(FOLDER / WEIGHTS, LearnedWholeTextWeigher(FOLDER / WHOLE_TEXT))


@lru_cache(maxsize=1)
def read_default_threshold() -> float:
    """Return the lowest probability at which a keypoint counts as covered, for use where there are no labels to
    calibrate on. It holds for probabilities corrected by the whole text. The bundled whole_text.json is read once.

    At this threshold the model says yes as often as people do on the news articles that the network was not trained on.
    Other texts may need another one.
    """
    return LearnedWholeTextWeigher(FOLDER / WHOLE_TEXT).threshold


@lru_cache(maxsize=1)
def read_pair_threshold() -> float:
    """Return the lowest P(entailment) at which a single sentence counts as entailing a statement, without correction by
    a whole text. The bundled record.json is read once.

    It has the best F1 on the news articles that RECORD.md sets aside for choices. Other texts may need another one.
    """
    record = json.loads((FOLDER / "record.json").read_text(encoding="utf-8"))
    threshold: float = record["measured"]["pair_threshold"]
    return threshold
