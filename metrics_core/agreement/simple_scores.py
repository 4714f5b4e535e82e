"""Simple scores, which a metric has to beat: the length of a text, and how much it is like its nearest reference.

Length knows nothing of quality. The words in common and the cosine of whole texts know what the references say.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from metrics_core.arrays import FloatArray
from metrics_core.models.word_tokenizer import split_words


class BestReference(NamedTuple):
    """The reference that is most like a text, by its place among them, and how much it is."""

    value: float
    position: int


def count_words(texts: Sequence[str]) -> FloatArray:
    """Count the words of each text: (n,).

    >>> count_words(["A dog runs.", ""]).tolist()
    [3.0, 0.0]
    """
    return np.array([len(split_words(text)) for text in texts], dtype=np.float64)


def compute_words_in_common(texts: Sequence[str], references: Sequence[Sequence[str]]) -> FloatArray:
    """Compute F1 of each text's different words and those of its references, the best reference counting: (n,).

    It lies in [0, 1], and is NaN for a text without a reference. Raises ValueError unless every text has its list of
    references.

    >>> compute_words_in_common(["a red ball"], [["the red ball", "a dog"]]).round(3).tolist()
    [0.667]
    """
    if len(texts) != len(references):
        raise ValueError(f"There are {len(texts)} texts and {len(references)} lists of references: give one for each.")
    best = [find_best_reference(text, own) for text, own in zip(texts, references, strict=True)]
    return np.array([np.nan if found is None else found.value for found in best], dtype=np.float64)


def find_best_reference(text: str, references: Sequence[str]) -> BestReference | None:
    """Find the reference that shares most words with a text, by F1 of the different words, which is in [0, 1].

    Of equals the first; None without a reference.

    >>> find_best_reference("a red ball", ["a dog", "the red ball"])
    BestReference(value=0.6666666666666666, place=1)
    """
    shares = [_f1(_words(text), _words(reference)) for reference in references]
    return BestReference(max(shares), shares.index(max(shares))) if shares else None


def find_nearest_vector(vector: FloatArray, others: FloatArray) -> BestReference | None:
    """Find which of the vectors (n, dim) is nearest to one by its cosine, the first of equals; None where one is zero.

    >>> find_nearest_vector(np.array([3.0, 4.0]), np.array([[0.0, 2.0], [1.0, 0.0]]))
    BestReference(value=0.8, place=0)
    """
    lengths = np.linalg.norm(others, axis=1) * np.linalg.norm(vector)
    if not lengths.all():
        return None
    cosines = others @ vector / lengths
    return BestReference(float(cosines.max()), int(cosines.argmax()))


# All captions of a video have the same references, and stand together.
@lru_cache(maxsize=4096)
def _words(text: str) -> frozenset[str]:
    """The different words of a text."""
    return frozenset(split_words(text))


def _f1(words: frozenset[str], others: frozenset[str]) -> float:
    """F1 of two sets of words, 0 where both are empty."""
    return 2 * len(words & others) / max(1, len(words) + len(others))
