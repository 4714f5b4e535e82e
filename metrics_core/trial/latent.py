"""Latent vectors of texts: an encoder without a network, whose space no metric ranks captions by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from metrics_core.trial.student import Vectors

DIMENSIONS = 128
_SEED = 0


class LatentEncoder:
    """Latent semantic analysis of some texts: words weighted by rarity, reduced to at most 128 dimensions."""

    def __init__(self, texts: Sequence[str]) -> None:
        """Fit the encoder to texts. Raises ValueError where these have fewer than three different words."""
        from sklearn.decomposition import TruncatedSVD
        from sklearn.feature_extraction.text import TfidfVectorizer

        self._weights: Any = TfidfVectorizer(sublinear_tf=True)
        counts = self._weights.fit_transform(texts)
        if min(counts.shape) < 3:
            raise ValueError(f"{len(texts)} texts hold {counts.shape[1]} different words: give more texts.")
        self._reduction: Any = TruncatedSVD(min(DIMENSIONS, min(counts.shape) - 1), random_state=_SEED)
        self._reduction.fit(counts)

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return vectors (n, dim) of length 1 in the order of the texts; zeros for a text without a known word."""
        vectors = self._reduction.transform(self._weights.transform(texts)).astype(np.float32)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        units: Vectors = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
        return units
