"""Verifiers to compare a real one with: words in common and likeness of embeddings, which are not entailment."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metrics_core.models.word_tokenizer import split_words
from metrics_core.protocols import Entailments, ModelIdentity, TextEncoder
from metrics_core.vcs.short import STOP_WORDS


class LexicalVerifier:
    """The share of the hypothesis's content words that the premise holds: the floor that a model has to beat.

    A word counts once and must occur in the same form, whatever its case. No model, no download.

    >>> LexicalVerifier().entailment([("A man rides a brown horse.", "The man rides a camel.")]).probabilities.round(4)
    array([0.6667])
    """

    @property
    def identity(self) -> ModelIdentity:
        """The rule and its version, raised by hand when it gives other numbers."""
        return ModelIdentity("content-word-recall", "1", {"language": "en"})

    def entailment(self, pairs: Sequence[tuple[str, str]]) -> Entailments:
        """Content-word recall in [0, 1] of (premise, hypothesis) pairs, in their order; no premise is cut."""
        recalls = [content_recall(premise, hypothesis) for premise, hypothesis in pairs]
        return Entailments(np.array(recalls, dtype=np.float64), np.zeros(len(pairs), dtype=np.bool_))


class CosineVerifier:
    """The likeness of premise and hypothesis: (1 + cosine) / 2 of their embeddings, which keeps the order of cosines.

    It is no probability. A premise that contradicts the hypothesis in one word is very much like it.
    """

    def __init__(self, encoder: TextEncoder) -> None:
        self._encoder = encoder

    @property
    def identity(self) -> ModelIdentity:
        """The rule, its version and the encoder."""
        return ModelIdentity("cosine", "1", {"encoder": self._encoder.identity.as_dict()})

    def entailment(self, pairs: Sequence[tuple[str, str]]) -> Entailments:
        """Likeness in [0, 1] of (premise, hypothesis) pairs, in their order; each different text is embedded once.

        What the encoder cuts off is not counted as truncated, because encoders do not tell.
        """
        truncated = np.zeros(len(pairs), dtype=np.bool_)
        if not pairs:
            return Entailments(np.empty(0), truncated)
        row_of = {text: row for row, text in enumerate(dict.fromkeys(text for pair in pairs for text in pair))}
        vectors = self._encoder.encode(list(row_of)).astype(np.float64)
        rows = np.array([[row_of[text] for text in pair] for pair in pairs])
        cosines = np.vecdot(vectors[rows[:, 0]], vectors[rows[:, 1]])
        # Rounding may carry the cosine of equal texts beyond 1.
        return Entailments(np.clip((1 + cosines) / 2, 0, 1), truncated)


def content_recall(premise: str, hypothesis: str) -> float:
    """Share of the different words of the hypothesis, function words apart, that the premise holds.

    Where it has function words only, these count. Without any word it is 0: nothing shows it.

    >>> content_recall("Nobody is there.", "He is there."), content_recall("A dog.", "...")
    (0.6666666666666666, 0.0)
    """
    words = set(split_words(hypothesis))
    wanted = words - STOP_WORDS or words
    return len(wanted & set(split_words(premise))) / len(wanted) if wanted else 0.0
