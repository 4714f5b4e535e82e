"""Small models for the tests of QEVA: an entailment model that knows some pairs, and an encoder of chosen vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from metrics_core.models.nli_inputs import HypothesisTooLong
from metrics_core.protocols import Entailments, ModelIdentity


class KnownPairs:
    """Gives the pairs that it knows their probability, all others 0, and keeps what it was asked."""

    def __init__(self, probabilities: Mapping[tuple[str, str], float]) -> None:
        self._probabilities = probabilities
        self.batches: list[list[tuple[str, str]]] = []

    @property
    def identity(self) -> ModelIdentity:
        return ModelIdentity("known-pairs", "1")

    def entailment(self, pairs: Sequence[tuple[str, str]]) -> Entailments:
        self.batches.append(list(pairs))
        values = [self._probabilities.get(pair, 0.0) for pair in pairs]
        return Entailments(np.array(values, dtype=np.float64), np.zeros(len(pairs), dtype=np.bool_))


class ShortPairs(KnownPairs):
    """Has no room for a hypothesis of more than `most_words` words, and says so of one at a time."""

    def __init__(self, probabilities: Mapping[tuple[str, str], float], most_words: int) -> None:
        super().__init__(probabilities)
        self._most_words = most_words

    def entailment(self, pairs: Sequence[tuple[str, str]]) -> Entailments:
        for _, hypothesis in pairs:
            if len(hypothesis.split()) > self._most_words:
                raise HypothesisTooLong([hypothesis], self._most_words)
        return super().entailment(pairs)


class KnownVectors:
    """Gives every text the direction that was chosen for it, in degrees; texts that it does not know fail."""

    def __init__(self, degrees: Mapping[str, float]) -> None:
        self._degrees = degrees

    @property
    def identity(self) -> ModelIdentity:
        return ModelIdentity("known-vectors", "1")

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        angles = np.deg2rad([self._degrees[text] for text in texts])
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
