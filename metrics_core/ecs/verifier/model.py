"""The bundled entailment model: all-MiniLM-L6-v2 with low-rank adapters and a head that also reads lexical features."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from metrics_core.ecs.verifier.lexical import LEXICAL_FEATURES, LEXICAL_VERSION, compute_feature_matrix
from metrics_core.ecs.verifier.whole_text import LearnedWholeTextWeigher
from metrics_core.file_hash import compute_file_sha256
from metrics_core.models.batches import compute_in_batches, split_by_tokens
from metrics_core.models.clip_loading import merge_adapters
from metrics_core.models.nli import compute_class_probabilities
from metrics_core.models.nli_inputs import tokenize_pairs
from metrics_core.models.packed_linears import pack_linears
from metrics_core.models.revision import find_model_revision
from metrics_core.models.text_encoder import find_bundled_minilm, find_original_minilm
from metrics_core.protocols import Entailments, ModelIdentity

CLASSES = ("entailment", "neutral", "contradiction")
ADAPTER_SCALE = 2.0
HEAD_WIDTH = 256


def make_base_encoder() -> Any:
    """Load the bundled all-MiniLM-L6-v2 as a BertModel in float32, with frozen weights and without its pooler. Raises
    PackageMissing without the extra `offline`.
    """
    import torch
    from transformers import AutoModel

    # transformers draws a progress bar of its own while it loads weights, which would break up ours.
    with contextlib.redirect_stderr(io.StringIO()):
        model = AutoModel.from_pretrained(
            find_original_minilm(), dtype=torch.float32, use_safetensors=True, trust_remote_code=False
        )
    # Nothing reads the pooler's output, so it must not be adapted.
    model.pooler = None
    return model.eval().requires_grad_(False)


def make_minilm_tokenizer() -> Any:
    """Load the tokenizer of the bundled all-MiniLM-L6-v2, which cuts long texts at their end. Raises PackageMissing
    without the extra `offline`.
    """
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(find_bundled_minilm(), truncation_side="right", trust_remote_code=False)


def make_random_head() -> Any:
    """Make an untrained head, a torch module with random weights. It turns a pair vector of 768 numbers with the
    lexical features into three logits, in the order of CLASSES (entailment, neutral, contradiction).
    """
    import torch

    width = 2 * 384 + len(LEXICAL_FEATURES)
    layers = torch.nn.Linear(width, HEAD_WIDTH), torch.nn.GELU(), torch.nn.Linear(HEAD_WIDTH, len(CLASSES))
    return torch.nn.Sequential(*layers)


def _make_adapted_encoder(adapters: Mapping[str, Any]) -> Any:
    """Load the bundled all-MiniLM-L6-v2 and add low-rank adapters to its weights, so that they cost no time. adapters:
    the tensors of both halves of every adapter, by name.
    """
    encoder = make_base_encoder()
    state = encoder.state_dict() | {name: value.float() for name, value in adapters.items()}
    encoder.load_state_dict(merge_adapters(state, ADAPTER_SCALE))
    return encoder


def compute_pair_logits(encoder: Any, head: Any, batch: Mapping[str, Any], features: Any) -> Any:
    """Return logits (n, 3), in the order of CLASSES, of n (premise, hypothesis) pairs. batch: the tokenised pairs.
    features: their lexical features (n, len(LEXICAL_FEATURES)). head: a module as from `make_random_head`.
    """
    import torch

    hidden = encoder(**batch).last_hidden_state.float()
    mask = batch["attention_mask"].unsqueeze(-1).float()
    mean = (hidden * mask).sum(dim=1) / mask.sum(dim=1)
    return head(torch.cat([hidden[:, 0], mean, features], dim=1))


def write_weights(file: Path, adapters: Mapping[str, Any], head: Any) -> None:
    """Write adapters (tensors by name) and head (a torch module) as float16 into one safetensors file, replacing it.
    `read_weights` reads it.
    """
    import torch
    from safetensors.torch import save_file

    head_state = {f"head.{name}": value for name, value in head.state_dict().items()}
    state = {name: value.detach().to(torch.float16).contiguous() for name, value in {**adapters, **head_state}.items()}
    save_file(state, file)


def read_weights(file: Path) -> tuple[Any, Any]:
    """Read a file that `write_weights` wrote, and return (encoder, head), both frozen and ready for inference. The
    encoder is the bundled all-MiniLM-L6-v2 with the file's adapters added.
    """
    from safetensors.torch import load_file

    state = load_file(file)
    head = make_random_head()
    head.load_state_dict({name[5:]: value.float() for name, value in state.items() if name.startswith("head.")})
    adapters = {name: value for name, value in state.items() if not name.startswith("head.")}
    return _make_adapted_encoder(adapters), head.eval().requires_grad_(False)


MAX_TOKENS = 512
TOKENS_PER_BATCH = 2048


class OfflineVerifier:
    """A small entailment model on top of the bundled all-MiniLM-L6-v2, always in float32 on the CPU. weights: the file
    of its own weights, which load at the first pair. whole_text: a weigher with which callers correct the probabilities
    of single sentences by the whole text; None for no correction.
    """

    def __init__(self, weights: Path, whole_text: LearnedWholeTextWeigher | None = None) -> None:
        self._weights = weights
        self.whole_text = whole_text

    @cached_property
    def identity(self) -> ModelIdentity:
        """The model's name, the SHA-256 of its file of weights, and everything else that changes the output: encoder,
        lexical features, precision.
        """
        encoder = f"all-MiniLM-L6-v2 {find_model_revision(find_bundled_minilm())}"
        params = {"encoder": encoder, "lexical": LEXICAL_VERSION, "precision": "fp32"}
        return ModelIdentity("reelsieve-verifier", f"sha256:{compute_file_sha256(self._weights).hex()}", params)

    def entailment(self, pairs: Sequence[tuple[str, str]]) -> Entailments:
        """Return P(entailment) of (premise, hypothesis) pairs, in their order, and whether the premise was cut at its
        end to fit into 512 tokens. Loads the weights at the first call. Raises HypothesisTooLong where a hypothesis
        leaves no room for a premise.

        The lexical features still see the whole premise. `whole_text` is not applied here.
        """
        logits, truncated = self.compute_logits(pairs)
        return Entailments(compute_class_probabilities(logits, CLASSES.index("entailment")), truncated)

    def compute_logits(self, pairs: Sequence[tuple[str, str]]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        """Return logits (n, 3), in the order of CLASSES, of (premise, hypothesis) pairs, and whether the premise was
        cut (n,). Loads the weights at the first call with a pair. Raises HypothesisTooLong where a hypothesis leaves no
        room for a premise.
        """
        import torch

        if not pairs:
            return np.empty((0, len(CLASSES))), np.zeros(0, dtype=np.bool_)
        tokenizer, encoder, head = self._network
        encoded, features = (
            tokenize_pairs(tokenizer, pairs, MAX_TOKENS),
            torch.from_numpy(compute_feature_matrix(pairs)),
        )
        logits = compute_in_batches(
            len(pairs),
            split_by_tokens(encoded.n_tokens, TOKENS_PER_BATCH),
            lambda rows: compute_pair_logits(encoder, head, encoded.build_batch(rows), features[rows]),
        )
        return logits.astype(np.float64), encoded.truncated

    @cached_property
    def _network(self) -> tuple[Any, Any, Any]:
        encoder, head = read_weights(self._weights)
        return make_minilm_tokenizer(), pack_linears(encoder), head
