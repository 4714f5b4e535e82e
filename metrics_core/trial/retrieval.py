"""How well a student retrieves: for the clean text of every test video its video among all test videos, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from metrics_core.arrays import FloatArray

if TYPE_CHECKING:
    from metrics_core.trial.student import HeldOutPairs, Student


@dataclass(frozen=True)
class RetrievalMeasures:
    """Measures by held-out video (n,), means of both directions: the reciprocal rank, whether the rank is 1, or 5."""

    reciprocal_rank: FloatArray
    recall_at_1: FloatArray
    recall_at_5: FloatArray


def measure_retrieval(student: Student, pairs: HeldOutPairs) -> RetrievalMeasures:
    """Rank all held-out videos for every text, and all texts for every video, by the student's cosine.

    Equal cosines share the mean of their ranks, so that a student that sees no difference gains nothing.
    """
    similarities = student.encode_captions(pairs.texts) @ student.encode_videos(pairs.videos).T
    return measure_ranks(similarities.astype(np.float64))


def measure_ranks(similarities: FloatArray) -> RetrievalMeasures:
    """Compute the measures from similarities (n, n) of texts and videos; the true pairs are on the diagonal.

    >>> measure_ranks(np.array([[0.9, 0.1], [0.8, 0.2]])).reciprocal_rank.tolist()
    [1.0, 0.75]
    """
    ranks = np.stack([_rank_diagonal(similarities), _rank_diagonal(similarities.T)])
    return RetrievalMeasures(
        (1 / ranks).mean(axis=0),
        (ranks <= 1).mean(axis=0, dtype=np.float64),
        (ranks <= 5).mean(axis=0, dtype=np.float64),
    )


def compute_chance(n: int) -> float:
    """Compute the mean reciprocal rank of a student that ranks n videos at random.

    >>> round(compute_chance(200), 3)
    0.029
    """
    return float((1 / np.arange(1, n + 1)).mean())


def _rank_diagonal(similarities: FloatArray) -> FloatArray:
    """The rank (n,) of every row's diagonal value in its row, from 1; equal values share the mean of their ranks."""
    true = np.diag(similarities)[:, None]
    higher, equal = (similarities > true).sum(axis=1), (similarities == true).sum(axis=1)
    ranks: FloatArray = 1 + higher + (equal - 1) / 2
    return ranks
