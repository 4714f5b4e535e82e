"""The verifier's network: all-MiniLM-L6-v2 with low-rank adapters, and a head that also sees lexical evidence."""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from metrics_core.models.clip_loading import merge_adapters
from metrics_core.models.text_encoder import bundled_minilm
from verifier.data import CLASSES
from verifier.lexical import FEATURES

ADAPTER_SCALE = 2.0
HEAD_WIDTH = 256


def new_encoder() -> Any:
    """all-MiniLM-L6-v2 as a BertModel in float32, its weights frozen."""
    import torch
    from transformers import AutoModel

    # transformers draws its own progress bar of loaded weights, which would tear ours apart.
    with contextlib.redirect_stderr(io.StringIO()):
        model = AutoModel.from_pretrained(
            bundled_minilm(), dtype=torch.float32, use_safetensors=True, trust_remote_code=False
        )
    # Nothing reads what it computes, and it is not to be adapted.
    model.pooler = None
    return model.eval().requires_grad_(False)


def new_tokenizer() -> Any:
    """The tokenizer of all-MiniLM-L6-v2; cuts at the end where it cuts."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(bundled_minilm(), truncation_side="right", trust_remote_code=False)


def new_head() -> Any:
    """A fresh head: pair vector and lexical features to three logits, in the order of CLASSES."""
    import torch

    width = 2 * 384 + len(FEATURES)
    layers = torch.nn.Linear(width, HEAD_WIDTH), torch.nn.GELU(), torch.nn.Linear(HEAD_WIDTH, len(CLASSES))
    return torch.nn.Sequential(*layers)


def attach_adapters(encoder: Any, rank: int) -> dict[str, Any]:
    """Add trainable adapters to every linear layer of the encoder; returns them by the names of `merge_adapters`.

    An adapter starts as nothing: its B is zero.
    """
    import torch

    adapters: dict[str, Any] = {}
    for name, module in encoder.named_modules():
        if isinstance(module, torch.nn.Linear):
            down = torch.nn.Parameter(torch.randn(rank, module.in_features) / math.sqrt(module.in_features))
            up = torch.nn.Parameter(torch.zeros(module.out_features, rank))
            adapters[f"{name}.lora_A"], adapters[f"{name}.lora_B"] = down, up
            module.register_forward_hook(_adapted(down, up))
    return adapters


def _adapted(down: Any, up: Any) -> Any:
    return lambda module, inputs, output: output + ADAPTER_SCALE * (inputs[0] @ down.T @ up.T)


def merged_encoder(adapters: Mapping[str, Any]) -> Any:
    """all-MiniLM-L6-v2 with the adapters added to its weights: as fast as without them."""
    encoder = new_encoder()
    state = encoder.state_dict() | {name: value.float() for name, value in adapters.items()}
    encoder.load_state_dict(merge_adapters(state, ADAPTER_SCALE))
    return encoder


def pair_logits(encoder: Any, head: Any, batch: Mapping[str, Any], features: Any) -> Any:
    """Logits (n, 3) of tokenised pairs and their lexical features (n, len(FEATURES))."""
    import torch

    hidden = encoder(**batch).last_hidden_state.float()
    mask = batch["attention_mask"].unsqueeze(-1).float()
    mean = (hidden * mask).sum(dim=1) / mask.sum(dim=1)
    return head(torch.cat([hidden[:, 0], mean, features], dim=1))


def save_weights(file: Path, adapters: Mapping[str, Any], head: Any) -> None:
    """Adapters and head as float16 in one safetensors file."""
    import torch
    from safetensors.torch import save_file

    head_state = {f"head.{name}": value for name, value in head.state_dict().items()}
    state = {name: value.detach().to(torch.float16).contiguous() for name, value in {**adapters, **head_state}.items()}
    save_file(state, file)


def load_weights(file: Path) -> tuple[Any, Any]:
    """Encoder and head ready for inference from a file of `save_weights`."""
    from safetensors.torch import load_file

    state = load_file(file)
    head = new_head()
    head.load_state_dict({name[5:]: value.float() for name, value in state.items() if name.startswith("head.")})
    adapters = {name: value for name, value in state.items() if not name.startswith("head.")}
    return merged_encoder(adapters), head.eval().requires_grad_(False)
