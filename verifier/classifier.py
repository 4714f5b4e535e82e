"""The verifier as the metrics use it: it gives P(entailment) of (premise, hypothesis) pairs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from metrics_core.models.nli import class_probabilities
from metrics_core.models.nli_inputs import encode_pairs, token_batches
from metrics_core.models.revision import file_sha256, model_revision
from metrics_core.models.text_encoder import bundled_minilm, pack_linears
from metrics_core.protocols import Entailments, ModelIdentity
from verifier.lexical import LEXICAL_VERSION, feature_matrix
from verifier.model import CLASSES, load_weights, new_tokenizer, pair_logits
from verifier.whole_text import WholeText

MAX_TOKENS = 512
TOKENS_PER_BATCH = 2048


class OfflineVerifier:
    """A small NLI model: one file of weights on top of the bundled all-MiniLM-L6-v2, always in float32 on the CPU.

    It is loaded when the first pair is judged. whole_text: corrects the probabilities of single sentences by the whole
    text that they stand in; None leaves them as they are.
    """

    def __init__(self, weights: Path, whole_text: WholeText | None = None) -> None:
        self._weights = weights
        self.whole_text = whole_text

    @cached_property
    def identity(self) -> ModelIdentity:
        """Name, hash of the weights, and what else changes the output: encoder, lexical features, precision."""
        encoder = f"all-MiniLM-L6-v2 {model_revision(bundled_minilm())}"
        params = {"encoder": encoder, "lexical": LEXICAL_VERSION, "precision": "fp32"}
        return ModelIdentity("reelsieve-verifier", f"sha256:{file_sha256(self._weights).hex()}", params)

    def entailment(self, pairs: Sequence[tuple[str, str]]) -> Entailments:
        """Judge (premise, hypothesis) pairs: P(entailment), in their order.

        A premise that does not fit into 512 tokens with its hypothesis is cut at its end and counts as truncated. The
        lexical features still see the whole premise. Raises HypothesisTooLong where a hypothesis leaves no room for a
        premise.
        """
        logits, truncated = self.logits(pairs)
        return Entailments(class_probabilities(logits, CLASSES.index("entailment")), truncated)

    def logits(self, pairs: Sequence[tuple[str, str]]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        """Compute logits (n, 3), in the order of CLASSES, and whether the premise was cut (n,)."""
        import torch

        logits = np.empty((len(pairs), len(CLASSES)))
        if not pairs:
            return logits.astype(np.float64), np.zeros(0, dtype=np.bool_)
        tokenizer, encoder, head = self._loaded
        encoded, features = encode_pairs(tokenizer, pairs, MAX_TOKENS), torch.from_numpy(feature_matrix(pairs))
        for rows in token_batches(encoded.lengths, TOKENS_PER_BATCH):
            with torch.inference_mode():
                logits[rows] = pair_logits(encoder, head, encoded.batch(rows), features[rows]).numpy()
        return logits, encoded.truncated

    @cached_property
    def _loaded(self) -> tuple[Any, Any, Any]:
        encoder, head = load_weights(self._weights)
        return new_tokenizer(), pack_linears(encoder), head
