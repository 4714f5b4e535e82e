"""A verifier that counts common words. It does not know entailment, so a model has to beat it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metrics_core.models.word_tokenizer import split_words
from metrics_core.protocols import Entailments, ModelIdentity
from metrics_core.vcs.short import STOP_WORDS


class LexicalVerifier:
    """An EntailmentModel without a model: its probability is the share of the hypothesis's content words in the
    premise. A word counts once. It must occur in the same form; upper and lower case do not matter. Nothing is
    downloaded.

    >>> LexicalVerifier().entailment([("A man rides a brown horse.", "The man rides a camel.")]).probabilities.round(4)
    array([0.6667])
    """

    @property
    def identity(self) -> ModelIdentity:
        """The rule's name and version, with its language English. The version is raised by hand when the rule gives
        other numbers.
        """
        return ModelIdentity("content-word-recall", "1", {"language": "en"})

    def entailment(self, pairs: Sequence[tuple[str, str]]) -> Entailments:
        """Return for every (premise, hypothesis) pair, in order, the share of the hypothesis's content words in the
        premise as P(entailment). No premise is cut, so none counts as truncated.
        """
        recalls = [compute_word_recall(premise, hypothesis) for premise, hypothesis in pairs]
        return Entailments(np.array(recalls, dtype=np.float64), np.zeros(len(pairs), dtype=np.bool_))


def compute_word_recall(premise: str, hypothesis: str) -> float:
    """Return the share, 0.0 to 1.0, of the hypothesis's distinct content words that the premise contains; 0.0 without
    any word. English function words (`STOP_WORDS`) count only where the hypothesis has no other words.

    >>> compute_word_recall("Nobody is there.", "He is there."), compute_word_recall("A dog.", "...")
    (0.6666666666666666, 0.0)
    """
    words = set(split_words(hypothesis))
    counted = words - STOP_WORDS or words
    return len(counted & set(split_words(premise))) / len(counted) if counted else 0.0
