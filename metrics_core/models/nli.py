"""Probabilities of entailment from any NLI classifier of sentence-transformers (CrossEncoder) or transformers.

Both are stored as the same files: configuration, tokenizer and weights of a transformer with a classification head.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from metrics_core.models.batches import GPU_BATCH_TOKENS, compute_in_batches, explain_lack_of_memory, split_by_tokens
from metrics_core.models.errors import ModelUnusable, convert_load_errors
from metrics_core.models.files import check_model_files
from metrics_core.models.nli_inputs import tokenize_pairs
from metrics_core.models.nli_loading import LoadedClassifier, make_classifier
from metrics_core.models.precision import choose_precision
from metrics_core.models.revision import find_model_revision, find_model_source, split_model_name
from metrics_core.protocols import Entailments, ModelIdentity

PRECISIONS = ("fp32", "bf16", "fp16")
# Tokens of a batch on a CPU.
CPU_BATCH_TOKENS = 4096


class NliClassifier:
    """An EntailmentModel that runs a classifier fine-tuned for natural language inference (NLI), loaded when first
    needed. model: a local folder, a hub id or a "hub id@commit". precision: "fp32", "bf16" or "fp16" for a GPU; a CPU
    always computes in float32. max_tokens: the most of a batch, padding included; None for the default. Raises
    ValueError for other values.

    The names of the classes in the model's configuration show which one is entailment. A batch has at least one pair.
    Only safetensors are read, and no code of the model.
    """

    def __init__(self, model: str, *, precision: str = "fp32", max_tokens: int | None = None) -> None:
        if precision not in PRECISIONS:
            raise ValueError(f"precision is {precision!r}: give one of {', '.join(PRECISIONS)}.")
        if max_tokens is not None and max_tokens < 1:
            raise ValueError(f"max_tokens is {max_tokens}: give the tokens that a batch may hold, 1 or more.")
        self._source = find_model_source(model)
        self._model_id = split_model_name(model)[0]
        self._precision = precision
        self._max_tokens = max_tokens

    @property
    def identity(self) -> ModelIdentity:
        """The model's name, its revision, and the precision that this machine computes in. Loads no model, but asks the
        hub for the commit of a hub id that is not in the local cache.
        """
        params = {"precision": choose_precision(self._precision)}
        return ModelIdentity(self._model_id, find_model_revision(self._source), params)

    def entailment(self, pairs: Sequence[tuple[str, str]]) -> Entailments:
        """Return for every (premise, hypothesis) pair, in order, P(entailment) and whether its premise was cut at the
        end to fit into the model. A hypothesis is never cut: one that leaves no room for a premise raises
        HypothesisTooLong before any pair is judged. Raises ModelUnusable, quoting the pair, where the model's output is
        not finite. Loads the model.

        P(entailment) is the softmax over all classes in float64. Pairs of similar length share a batch, so give many at
        once. A model that cannot be used raises ModelUnusable, NoEntailmentClass, CheckpointMismatch or ModelNotFound.
        """
        if not pairs:
            return Entailments(np.empty(0), np.zeros(0, dtype=np.bool_))
        loaded = self._loaded
        encoded = tokenize_pairs(loaded.tokenizer, pairs, loaded.max_length)
        budget = self._max_tokens or (GPU_BATCH_TOKENS if loaded.model.device.type == "cuda" else CPU_BATCH_TOKENS)
        logits = compute_in_batches(
            len(pairs),
            split_by_tokens(encoded.n_tokens, budget),
            lambda rows: loaded.compute_logits(encoded.build_batch(rows)),
            memory_message=explain_lack_of_memory(self._model_id, "pair", "REELSIEVE_ECS_VERIFIER_PRECISION"),
        ).astype(np.float64)
        bad = np.flatnonzero(~np.isfinite(logits).all(axis=1))
        if bad.size:
            premise, hypothesis = pairs[bad[0]]
            raise ModelUnusable(
                f"{self._model_id} gave an output that is not finite for the premise {premise[:80]!r} and the "
                f"hypothesis {hypothesis[:80]!r}: set REELSIEVE_ECS_VERIFIER_PRECISION=fp32, or name another model"
            )
        return Entailments(compute_class_probabilities(logits, loaded.entailment_class), encoded.truncated)

    @cached_property
    def _loaded(self) -> LoadedClassifier:
        revision = find_model_revision(self._source)
        with convert_load_errors(self._model_id):
            check_model_files(self._source)
            return make_classifier(self._model_id, revision, choose_precision(self._precision))


def compute_class_probabilities(logits: npt.NDArray[np.float64], index: int) -> npt.NDArray[np.float64]:
    """Return the softmax probability (n,) of class `index` from finite logits (n, classes).

    >>> compute_class_probabilities(np.log([[1.0, 3.0, 1.0]]), 1).round(12).tolist()
    [0.6]
    """
    # Subtracting the highest logit keeps the exponentials from overflowing.
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities: npt.NDArray[np.float64] = powers[:, index] / powers.sum(axis=1)
    return probabilities
