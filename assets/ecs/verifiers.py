"""The model that the settings name for verifying keypoints: our own, any NLI classifier, or words in common."""

from __future__ import annotations

from functools import lru_cache

from metrics_core.models.lexical_verifier import LexicalVerifier
from metrics_core.models.nli import NliClassifier
from metrics_core.protocols import EntailmentModel

OFFLINE, LEXICAL = "offline", "lexical"
# An NLI model, or half of the words, says "entailed" from here on, as long as no labels say otherwise.
EVEN_ODDS = 0.5


@lru_cache(maxsize=4)
def make_verifier(model: str, precision: str) -> EntailmentModel:
    """The verifier of the settings, one per process: `offline`, `lexical`, or folder or hub id of an NLI classifier."""
    if model == OFFLINE:
        from verifier import offline_verifier

        return offline_verifier()
    if model == LEXICAL:
        return LexicalVerifier()
    return NliClassifier(model, precision=precision)


def default_threshold(model: str) -> float:
    """The probability from which on a keypoint counts as covered where no labels were calibrated on."""
    if model == OFFLINE:
        import verifier

        return verifier.default_threshold()
    return EVEN_ODDS
