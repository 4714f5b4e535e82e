"""Scores from vectors in half precision, as files have them, are those from single precision to less than 1e-3."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from metrics_core.evqa.score import evqa_from_features
from metrics_core.vcs.score import vcs_from_embeddings

Vectors = NDArray[np.float32]


def scale(vectors: NDArray[np.floating]) -> Vectors:
    return (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)


def halve(*arrays: Vectors) -> list[Vectors]:
    return [array.astype(np.float16).astype(np.float32) for array in arrays]


@pytest.mark.parametrize("spread", [0.01, 0.03, 0.3])
def test_scores_hardly_move(spread: float) -> None:
    """Captions repeat references in another order, nearly or roughly, so that matches are as close as they can be."""
    rng = np.random.default_rng(1)
    for _ in range(40):
        topic = rng.normal(size=384)
        reference = scale(topic + rng.normal(size=(rng.integers(1, 12), 384)))
        drawn = reference[rng.integers(0, len(reference), rng.integers(1, 12))]
        generated = scale(drawn + spread * rng.normal(size=drawn.shape))
        vectors = reference, generated, scale(reference.mean(axis=0)), scale(generated.mean(axis=0))
        assert vcs_from_embeddings(*halve(*vectors)).vcs == pytest.approx(vcs_from_embeddings(*vectors).vcs, abs=1e-3)
        features = 10 * reference, generated, vectors[3]
        moved = evqa_from_features(*halve(*features)).score
        assert moved == pytest.approx(evqa_from_features(*features).score, abs=1e-3)
