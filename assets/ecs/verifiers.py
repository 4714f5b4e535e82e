"""The models that can verify keypoints: our own, any NLI classifier, or the share of common words."""

from __future__ import annotations

from functools import lru_cache

from metrics_core.models.lexical_verifier import LexicalVerifier
from metrics_core.models.nli import NliClassifier
from metrics_core.protocols import EntailmentModel

OFFLINE, LEXICAL = "offline", "lexical"
# At this probability an NLI model says "entailed". It counts as long as there are no labels.
EVEN_ODDS = 0.5


@lru_cache(maxsize=4)
def make_verifier(model: str, precision: str) -> EntailmentModel:
    """Make the verifier of this name, once per process: `offline`, `lexical`, or a folder or hub id."""
    if model == OFFLINE:
        from metrics_core.ecs.verifier import make_offline_verifier

        return make_offline_verifier()
    if model == LEXICAL:
        return LexicalVerifier()
    return NliClassifier(model, precision=precision)


def find_default_threshold(model: str) -> float:
    """Return the threshold of the verifier on whole captions for dimensions without a calibrated one."""
    if model == OFFLINE:
        from metrics_core.ecs import verifier

        return verifier.read_default_threshold()
    return EVEN_ODDS


def find_pair_threshold(model: str) -> float:
    """Return the threshold of the verifier on single sentences."""
    if model == OFFLINE:
        from metrics_core.ecs import verifier

        return verifier.read_pair_threshold()
    return EVEN_ODDS
