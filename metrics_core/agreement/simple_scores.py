"""Simple scores, which a metric has to beat: the length of a text, and how much it is like its nearest reference.

The length knows no quality. Words in common and the cosine of whole texts know only the references.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from metrics_core.arrays import FloatArray
from metrics_core.models.word_tokenizer import split_words


class BestReference(NamedTuple):
    """The reference that is most like a text. value: how much it is like the text; position: its place in the list of
    references, from 0.
    """

    value: float
    position: int


def count_words(texts: Sequence[str]) -> FloatArray:
    """Count the words of every text: a float array (n,), in the order of the texts; 0 for an empty text.

    >>> count_words(["A dog runs.", ""]).tolist()
    [3.0, 0.0]
    """
    return np.array([len(split_words(text)) for text in texts], dtype=np.float64)


def compute_words_in_common(texts: Sequence[str], references: Sequence[Sequence[str]]) -> FloatArray:
    """Compute for each text how many of its different words it shares with its best reference, as F1 in [0, 1]: an
    array (n,), in the order of the texts. references: for each text its list of references. NaN for a text without a
    reference. Raises ValueError unless there are as many lists as texts.

    >>> compute_words_in_common(["a red ball"], [["the red ball", "a dog"]]).round(3).tolist()
    [0.667]
    """
    if len(texts) != len(references):
        raise ValueError(
            f"There are {len(texts)} texts and {len(references)} lists of references: give one list for every text."
        )
    best = [
        find_best_reference(text, references_of_text)
        for text, references_of_text in zip(texts, references, strict=True)
    ]
    return np.array([np.nan if reference is None else reference.value for reference in best], dtype=np.float64)


def find_best_reference(text: str, references: Sequence[str]) -> BestReference | None:
    """Find the reference that shares most words with a text, by F1 of the different words in lower case, in [0, 1]. Of
    equally good ones the first is taken; None without a reference.

    >>> find_best_reference("a red ball", ["a dog", "the red ball"])
    BestReference(value=0.6666666666666666, position=1)
    """
    shares = [_f1(_words(text), _words(reference)) for reference in references]
    return BestReference(max(shares), shares.index(max(shares))) if shares else None


def find_nearest_vector(vector: FloatArray, others: FloatArray) -> BestReference | None:
    """Find which of the vectors `others` (n, dim), n at least 1, is nearest to `vector` (dim,) by cosine: the cosine
    and its position. Of equally near ones the first is taken; None where any of the vectors is zero.

    >>> find_nearest_vector(np.array([3.0, 4.0]), np.array([[0.0, 2.0], [1.0, 0.0]]))
    BestReference(value=0.8, position=0)
    """
    lengths = np.linalg.norm(others, axis=1) * np.linalg.norm(vector)
    if not lengths.all():
        return None
    cosines = others @ vector / lengths
    return BestReference(float(cosines.max()), int(cosines.argmax()))


# All captions of a video have the same references, and come one after the other.
@lru_cache(maxsize=4096)
def _words(text: str) -> frozenset[str]:
    """Return the different words of a text."""
    return frozenset(split_words(text))


def _f1(words: frozenset[str], others: frozenset[str]) -> float:
    """Compute F1 of two sets of words, 0 where both are empty."""
    return 2 * len(words & others) / max(1, len(words) + len(others))
