"""Load NLI classifiers: find the entailment class and the longest input, and check that the weights are complete."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from metrics_core.models.batches import move_to_device
from metrics_core.models.errors import CheckpointMismatch, check_tokenizer
from metrics_core.models.precision import find_torch_dtype

# Tokenizers that do not know their limit say 10**30.
UNLIMITED = 10**9


class NoEntailmentClass(ValueError):
    """Raised for a classifier that has no class, or several classes, that mean entailment, or only one output."""

    plain = True


@dataclass(frozen=True, slots=True)
class LoadedClassifier:
    """A classifier of (premise, hypothesis) pairs ready for inference, with its tokenizer. entailment_class: the index
    of the class that means entailment. max_length: the most tokens of a pair, special tokens included.
    """

    model: Any
    tokenizer: Any
    entailment_class: int
    max_length: int

    def compute_logits(self, batch: Any) -> Any:
        """Return the model's raw output (n, classes) for a batch of input tensors, which are moved to the model's
        device.
        """
        device = self.model.device
        return self.model(**{name: move_to_device(tensor, device) for name, tensor in batch.items()}).logits


def make_classifier(source: str, revision: str, precision: str) -> LoadedClassifier:
    """Load an NLI classifier from a local folder or hub id, onto a GPU where there is one. It may be downloaded.
    revision: "sha256:..." for a local folder or else a commit, as from `find_model_revision`. precision: "fp32", "bf16"
    or "fp16". Raises NoEntailmentClass before any weight is read, CheckpointMismatch for incomplete weights, and
    ModelUnusable for a tokenizer without words.
    """
    import torch
    from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

    # Load the revision that the identity names, even when the hub's main branch has moved on.
    where = {"trust_remote_code": False} | ({} if revision.startswith("sha256:") else {"revision": revision})
    config = AutoConfig.from_pretrained(source, **where)
    entailment = find_entailment_class(config.id2label, source)
    # transformers draws a progress bar of its own while it loads weights, which would break up ours.
    with contextlib.redirect_stderr(io.StringIO()):
        model, report = AutoModelForSequenceClassification.from_pretrained(
            source,
            config=config,
            dtype=find_torch_dtype(precision),
            use_safetensors=True,
            output_loading_info=True,
            **where,
        )
    if missing := sorted(report["missing_keys"]):
        raise CheckpointMismatch(
            f"{source} lacks {len(missing)} {'weight' if len(missing) == 1 else 'weights'} of the classifier, "
            f"{missing[0]!r} for one: give a model that was fine-tuned for NLI, not the one that it was made from"
        )
    tokenizer = AutoTokenizer.from_pretrained(source, truncation_side="right", **where)
    check_tokenizer(tokenizer, source)
    model = model.to("cuda" if torch.cuda.is_available() else "cpu").eval().requires_grad_(False)
    return LoadedClassifier(model, tokenizer, entailment, find_max_length(model, tokenizer, source))


def find_entailment_class(id2label: Mapping[int, str], source: str) -> int:
    """Return the index of the one class whose name begins with "entail", in upper or lower case. id2label: the names of
    the classes by index. source: the model's name for the message. Raises NoEntailmentClass unless there is exactly one
    such class, and another class besides.

    Models order their classes differently, so only the name decides. "not_entailment" is the other class.

    >>> find_entailment_class({0: "contradiction", 1: "ENTAILMENT", 2: "neutral"}, "some model")
    1
    """
    classes = [index for index, label in id2label.items() if str(label).strip().casefold().startswith("entail")]
    names = ", ".join(str(label) for label in id2label.values())
    if len(classes) != 1:
        raise NoEntailmentClass(
            f"{source} has {len(classes) or 'no'} classes named entailment; its classes are {names}. "
            "Give a model trained for NLI, or write the names of its classes into id2label of its config.json"
        )
    if len(id2label) == 1:
        raise NoEntailmentClass(f"{source} has the single output {names}: give a model with one output per class")
    return int(classes[0])


def find_max_length(model: Any, tokenizer: Any, source: str) -> int:
    """Return the most tokens that a model reads at once: the smallest of the limits of its positions and its tokenizer.
    source: the model's name for the message. Raises ValueError where no limit is known.
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
