"""A verifier that compares embeddings. It does not know entailment: it is a baseline that ECS has to beat."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metrics_core.protocols import Entailments, ModelIdentity, TextEncoder


class CosineVerifier:
    """Answers with (1 + cosine) / 2 of the embeddings of premise and hypothesis, which keeps the order of cosines.

    The answer is no probability: a premise that contradicts the hypothesis in one word is very much like it.
    """

    def __init__(self, encoder: TextEncoder) -> None:
        self._encoder = encoder

    @property
    def identity(self) -> ModelIdentity:
        """The rule, its version and the encoder."""
        return ModelIdentity("cosine", "1", {"encoder": self._encoder.identity.as_dict()})

    def entailment(self, pairs: Sequence[tuple[str, str]]) -> Entailments:
        """Likeness in [0, 1] of (premise, hypothesis) pairs, in their order. Each different text is embedded once.

        Encoders do not tell when they cut a text, so no premise counts as truncated.
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
