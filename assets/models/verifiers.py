"""The models that can verify keypoints: the built-in one, any NLI classifier, or the share of words in common."""

from __future__ import annotations

from functools import lru_cache

from metrics_core.models.lexical_verifier import LexicalVerifier
from metrics_core.models.nli import NliClassifier
from metrics_core.protocols import EntailmentModel

OFFLINE, LEXICAL = "offline", "lexical"
# At this probability an NLI model decides "entailed". It is the threshold as long as there are no labels.
EVEN_ODDS = 0.5


@lru_cache(maxsize=4)
def make_verifier(model: str, precision: str) -> EntailmentModel:
    """Return the verifier with this name, which is made once and kept: `offline`, `lexical`, or a folder or hub id of
    an NLI model. That NLI model loads when it is first used. precision: "fp32", "bf16" or "fp16", for that model only.
    """
    if model == OFFLINE:
        from metrics_core.ecs.verifier import make_offline_verifier

        return make_offline_verifier()
    if model == LEXICAL:
        return LexicalVerifier()
    return NliClassifier(model, precision=precision)


def find_pair_threshold(model: str) -> float:
    """Return the P(entailment) from which one sentence proves a keypoint. It is 0.5 for every verifier but `offline`,
    whose file has it. model: the verifier's name.
    """
    if model == OFFLINE:
        from metrics_core.ecs import verifier

        return verifier.read_pair_threshold()
    return EVEN_ODDS
