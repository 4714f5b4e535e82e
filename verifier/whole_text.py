"""Evidence of the whole text: a small logistic regression over the network's probability and lexical features."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from metrics_core.arrays import FloatArray
from metrics_core.models.revision import file_sha256, model_revision
from metrics_core.models.text_encoder import bundled_minilm
from metrics_core.protocols import ModelIdentity
from verifier.lexical import FEATURES, LEXICAL_VERSION, lexical_features
from verifier.likeness import WordLikeness

LEXICAL = (
    "content_recall",
    "form_recall",
    "letter_recall",
    "long_word_recall",
    "missing_words",
    "all_words_found",
    "hypothesis_has_number",
    "number_recall",
    "number_conflict",
    "hypothesis_has_name",
    "name_recall",
    "colour_conflict",
    "gender_conflict",
    "negation_differs",
)
"""The lexical features that may count: those that see neither the order of the words nor the length of the text.

A text of the same sentences in another order says the same, and a text gains nothing by being long.
"""

EVIDENCE = (*LEXICAL, "likeness", "least_likeness")
# Keeps the log-odds of 0 and 1 finite.
MARGIN = 1e-4


class WholeText:
    """Weighs the probability of a single sentence against the words of the whole text that it stands in.

    The network reads one sentence at a time. A statement whose parts stand in several sentences is entailed by none of
    them, and the words of the whole text then tell more. The weights stand in a file of JSON: "probability" of the
    log-odds of a sentence's probability, "bias", and "evidence" by the features that count; "threshold" is the least
    result at which a statement counts as covered.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._log_odds = lru_cache(maxsize=16384)(self._log_odds_of)

    @cached_property
    def identity(self) -> ModelIdentity:
        """Name, hash of the weights, and what else changes the output: word vectors and lexical features."""
        params = {"words": f"all-MiniLM-L6-v2 {model_revision(bundled_minilm())}", "lexical": LEXICAL_VERSION}
        return ModelIdentity("reelsieve-whole-text", f"sha256:{file_sha256(self._file).hex()}", params)

    @property
    def threshold(self) -> float:
        """The least result at which a statement counts as covered where there are no labels to calibrate on."""
        threshold: float = self._weights["threshold"]
        return threshold

    def weigh(self, probabilities: Sequence[float], sentences: Sequence[str], hypothesis: str) -> list[float]:
        """Correct each probability that a sentence of the text entails the hypothesis: results in [0, 1].

        sentences: all sentences of the text. A greater probability never has a smaller result. Raises ValueError for a
        probability outside [0, 1].
        """
        odds = self._log_odds(" ".join(sentences), hypothesis)
        slope: float = self._weights["probability"]
        return [1 / (1 + math.exp(-(slope * log_odds(each) + odds))) for each in probabilities]

    def shared(self, sentences: Sequence[str], hypothesis: str) -> list[str]:
        """Name the content words of the hypothesis; behind `no` one that the text lacks, with the text's nearest word.

        >>> from verifier import offline_verifier
        >>> offline_verifier().whole_text.shared(["A man is walking his dogs."], "A dog runs.")
        ['dog', 'no runs (walking 0.14)']
        """
        found = self.evidence.words.nearest(" ".join(sentences), hypothesis)
        nearest = {word: f" ({told} {likeness:.2f})" if told else "" for word, told, likeness in found}
        return [word if likeness == 1 else f"no {word}{nearest[word]}" for word, _, likeness in found]

    def _log_odds_of(self, text: str, hypothesis: str) -> float:
        features = self.evidence.of(text, hypothesis)
        weights: dict[str, float] = self._weights["evidence"]
        return float(self._weights["bias"] + sum(weight * features[name] for name, weight in weights.items()))

    @cached_property
    def evidence(self) -> Evidence:
        """The features of texts and hypotheses."""
        return Evidence()

    @cached_property
    def _weights(self) -> dict[str, Any]:
        weights: dict[str, Any] = json.loads(self._file.read_text(encoding="utf-8"))
        return weights


class Evidence:
    """Computes the numbers named in EVIDENCE from a whole text and a hypothesis."""

    def __init__(self) -> None:
        self.words = WordLikeness()

    def of(self, text: str, hypothesis: str) -> dict[str, float]:
        """Compute the features of one text and one hypothesis, all in [0, 1], in the order of EVIDENCE."""
        lexical = dict(zip(FEATURES, lexical_features(text, hypothesis), strict=True))
        mean, least = self.words.likeness(text, hypothesis)
        return {name: lexical[name] for name in LEXICAL} | {"likeness": mean, "least_likeness": least}

    def matrix(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        """Compute the features (n, len(EVIDENCE)) of (text, hypothesis) pairs."""
        rows = [list(self.of(*pair).values()) for pair in pairs]
        return np.array(rows, dtype=np.float64).reshape(len(pairs), len(EVIDENCE))


def log_odds(probability: float) -> float:
    """Compute the log-odds of a probability, kept finite at 0 and 1. Raises ValueError outside [0, 1].

    >>> log_odds(0.5), round(log_odds(1.0), 4)
    (0.0, 9.2104)
    """
    if not 0 <= probability <= 1:
        raise ValueError(f"The probability is {probability}: it must lie in [0, 1].")
    return math.log((probability + MARGIN) / (1 - probability + MARGIN))
