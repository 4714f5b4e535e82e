"""Entailment from any NLI classifier: a CrossEncoder of sentence-transformers or a sequence classifier of transformers.

Both are stored as the same files: configuration, tokenizer and weights of a transformer with a classification head.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from metrics_core.models.batches import GPU_TOKENS, in_batches, lacks_memory, to_device, token_batches
from metrics_core.models.files import check_files
from metrics_core.models.nli_inputs import encode_pairs
from metrics_core.models.precision import precision_in_use, torch_dtype
from metrics_core.models.revision import model_revision, name_and_pin
from metrics_core.models.unusable import CheckpointMismatch, ModelUnusable, check_tokenizer, loading
from metrics_core.protocols import Entailments, ModelIdentity

# Loads NLI classifiers: finds the entailment class and the longest input, and checks that the weights are complete.

# Tokenizers that do not know their limit say 10**30.
UNLIMITED = 10**9


class NoEntailmentClass(ValueError):
    """A classifier does not have exactly one class that means entailment."""

    plain = True


@dataclass(frozen=True, slots=True)
class LoadedClassifier:
    """A classifier ready for inference, with the index of its entailment class and the most tokens of an input."""

    model: Any
    tokenizer: Any
    entailment: int
    max_length: int

    def logits(self, batch: Any) -> Any:
        """The model's raw output (n, classes) for a batch of input tensors, on the model's device."""
        device = self.model.device
        return self.model(**{name: to_device(tensor, device) for name, tensor in batch.items()}).logits


def load_classifier(source: str, revision: str, precision: str) -> LoadedClassifier:
    """Load a local folder or a hub id, at a revision from `model_revision`, in "fp32", "bf16" or "fp16".

    Raises NoEntailmentClass before any weight is read, and CheckpointMismatch for incomplete weights.
    """
    import torch
    from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

    # Load the revision that the identity names, even when the hub's main branch has moved on.
    where = {"trust_remote_code": False} | ({} if revision.startswith("sha256:") else {"revision": revision})
    config = AutoConfig.from_pretrained(source, **where)
    entailment = entailment_index(config.id2label, source)
    # transformers draws a progress bar of its own while it loads weights, which would break up ours.
    with contextlib.redirect_stderr(io.StringIO()):
        model, report = AutoModelForSequenceClassification.from_pretrained(
            source, config=config, dtype=torch_dtype(precision), use_safetensors=True, output_loading_info=True, **where
        )
    if missing := sorted(report["missing_keys"]):
        raise CheckpointMismatch(
            f"{source} lacks {len(missing)} weights of the classifier, {missing[0]!r} for one: "
            "give a model that was fine-tuned for NLI, not the one that it was made from"
        )
    tokenizer = AutoTokenizer.from_pretrained(source, truncation_side="right", **where)
    check_tokenizer(tokenizer, source)
    model = model.to("cuda" if torch.cuda.is_available() else "cpu").eval().requires_grad_(False)
    return LoadedClassifier(model, tokenizer, entailment, longest_input(model, tokenizer, source))


def entailment_index(id2label: Mapping[int, str], source: str) -> int:
    """Find the index of the one class whose name begins with "entail", in upper or lower case.

    Models order their classes differently, so only the name tells. "not_entailment" is the other class. Raises
    NoEntailmentClass unless there is exactly one.

    >>> entailment_index({0: "contradiction", 1: "ENTAILMENT", 2: "neutral"}, "some model")
    1
    """
    found = [index for index, label in id2label.items() if str(label).strip().casefold().startswith("entail")]
    names = ", ".join(str(label) for label in id2label.values())
    if len(found) != 1:
        raise NoEntailmentClass(
            f"{source} has {len(found) or 'no'} classes named entailment; its classes are {names}. "
            "Give a model trained for NLI, or write the names of its classes into id2label of its config.json"
        )
    if len(id2label) == 1:
        raise NoEntailmentClass(f"{source} has the single output {names}: give a model with one output for each class")
    return int(found[0])


def longest_input(model: Any, tokenizer: Any, source: str) -> int:
    """Tokens that the model takes: the lesser of its positions and of what its tokenizer says.

    Raises ValueError where neither is known.
    """
    limits = [tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", None)]
    for name, module in model.named_modules():
        # Where padding has a position of its own, as in RoBERTa, the first token's position comes after it.
        padding = getattr(module, "padding_idx", None) if name.endswith("position_embeddings") else None
        if padding is not None:
            limits.append(module.num_embeddings - padding - 1)
    known = [int(limit) for limit in limits if limit is not None and 0 < limit < UNLIMITED]
    if not known:
        raise ValueError(f"{source} does not say how long an input may be: set model_max_length in its tokenizer")
    return min(known)


PRECISIONS = ("fp32", "bf16", "fp16")
# Tokens of a batch on a CPU.
CPU_TOKENS = 4096


class NliClassifier:
    """A fine-tuned NLI model. It is loaded when the first pair is judged.

    `model` is a local folder, a hub id or a "hub id@commit". The names of the classes in its configuration tell which
    one is entailment.
    A CPU always computes in float32; `precision` ("fp32", "bf16", "fp16") counts on a GPU. A batch holds at most
    `max_tokens` tokens, padding included, and at least one pair; by default as many as suit a CPU or a GPU. Only
    safetensors are read, and no code of the model.
    """

    def __init__(self, model: str, *, precision: str = "fp32", max_tokens: int | None = None) -> None:
        if precision not in PRECISIONS:
            raise ValueError(f"precision is {precision!r}: give one of {', '.join(PRECISIONS)}.")
        if max_tokens is not None and max_tokens < 1:
            raise ValueError(f"max_tokens is {max_tokens}: give the tokens that a batch may hold, 1 or more.")
        self._source = model
        self._model_id = name_and_pin(model)[0]
        self._precision = precision
        self._max_tokens = max_tokens

    @property
    def identity(self) -> ModelIdentity:
        """Name, revision, and the precision that this machine computes in."""
        params = {"precision": precision_in_use(self._precision)}
        return ModelIdentity(self._model_id, model_revision(self._source), params)

    def entailment(self, pairs: Sequence[tuple[str, str]]) -> Entailments:
        """Judge (premise, hypothesis) pairs: P(entailment) in their order, by the softmax over all classes in float64.

        A premise that does not fit into the model is cut at its end and counts as truncated. A hypothesis is never cut:
        one that leaves no room for a premise raises HypothesisTooLong before any pair is judged. Pairs of like length
        share a batch, so give many at once. Raises ModelUnusable, quoting the pair, where the model's output is not
        finite, and ModelUnusable, NoEntailmentClass, CheckpointMismatch or ModelNotFound for a model that cannot be
        used.
        """
        if not pairs:
            return Entailments(np.empty(0), np.zeros(0, dtype=np.bool_))
        loaded = self._loaded
        encoded = encode_pairs(loaded.tokenizer, pairs, loaded.max_length)
        budget = self._max_tokens or (GPU_TOKENS if loaded.model.device.type == "cuda" else CPU_TOKENS)
        logits = in_batches(
            len(pairs),
            token_batches(encoded.lengths, budget),
            lambda rows: loaded.logits(encoded.batch(rows)),
            lacking=lacks_memory(self._model_id, "pair", "REELSIEVE_ECS_VERIFIER_PRECISION"),
        ).astype(np.float64)
        bad = np.flatnonzero(~np.isfinite(logits).all(axis=1))
        if bad.size:
            premise, hypothesis = pairs[bad[0]]
            raise ModelUnusable(
                f"{self._model_id} gave an output that is not finite for the premise {premise[:80]!r} and the "
                f"hypothesis {hypothesis[:80]!r}: try another precision"
            )
        return Entailments(class_probabilities(logits, loaded.entailment), encoded.truncated)

    @cached_property
    def _loaded(self) -> LoadedClassifier:
        revision = model_revision(self._source)
        with loading(self._model_id):
            check_files(self._source)
            return load_classifier(self._model_id, revision, precision_in_use(self._precision))


def class_probabilities(logits: npt.NDArray[np.float64], index: int) -> npt.NDArray[np.float64]:
    """Compute the softmax probability (n,) of class `index` from finite logits (n, classes).

    >>> class_probabilities(np.log([[1.0, 3.0, 1.0]]), 1).round(12).tolist()
    [0.6]
    """
    # Subtracting the greatest logit keeps the exponentials from overflowing.
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities: npt.NDArray[np.float64] = powers[:, index] / powers.sum(axis=1)
    return probabilities
