"""Baselines: numbers that know nothing of quality, which a metric has to beat."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metrics_core.arrays import FloatArray
from metrics_core.models.word_tokenizer import split_words


def length_in_words(texts: Sequence[str]) -> FloatArray:
    """Count the words of each text: (n,).

    >>> length_in_words(["A dog runs.", ""]).tolist()
    [3.0, 0.0]
    """
    return np.array([len(split_words(text)) for text in texts], dtype=np.float64)


def common_words(texts: Sequence[str], references: Sequence[Sequence[str]]) -> FloatArray:
    """Compute F1 of each text's different words and those of its references, the best reference counting: (n,).

    It lies in [0, 1], and is NaN for a text without a reference. Raises ValueError unless every text has its list of
    references.

    >>> common_words(["a red ball"], [["the red ball", "a dog"]]).round(3).tolist()
    [0.667]
    """
    if len(texts) != len(references):
        raise ValueError(f"There are {len(texts)} texts and {len(references)} lists of references: give one for each.")
    return np.array([_best(text, own) for text, own in zip(texts, references, strict=True)], dtype=np.float64)


def _best(text: str, references: Sequence[str]) -> float:
    """The highest F1 of the words with a reference."""
    words = set(split_words(text))
    return max((_f1(words, set(split_words(reference))) for reference in references), default=float("nan"))


def _f1(words: set[str], others: set[str]) -> float:
    """F1 of two sets of words, 0 where both are empty."""
    return 2 * len(words & others) / max(1, len(words) + len(others))
