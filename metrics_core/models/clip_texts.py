"""Text features of open_clip models without padding: texts run at their own lengths."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metrics_core.models.batches import (
    GPU_TOKENS,
    Rows,
    in_batches,
    in_order,
    to_device,
    token_batches,
)
from metrics_core.models.clip_loading import (
    LoadedClip,
)


def text_features(loaded: LoadedClip, texts: Sequence[str], batch_size: int, lacking: str) -> NDArray[np.float32]:
    """Encode texts into features (n, dim) in float32, in the order of the texts."""
    tokens = loaded.tokenizer(list(texts))
    lengths = _lengths(loaded, tokens)
    encode = encode_short if _runs_at_own_length(loaded.model) else type(loaded.model).encode_text

    def compute(rows: Rows) -> Any:
        part = tokens[rows, : max(lengths[row] for row in rows)]
        return encode(loaded.model, to_device(part, loaded.device))

    on_gpu = loaded.device.type == "cuda"
    batches = token_batches(lengths, GPU_TOKENS) if on_gpu else _of_one_length(lengths, batch_size)
    return in_batches(len(texts), batches, compute, lacking=lacking)


def _lengths(loaded: LoadedClip, tokens: Any) -> list[int]:
    """The tokens of every text that the model has to see, to the end token."""
    if not _runs_at_own_length(loaded.model):
        return [tokens.shape[1]] * len(tokens)
    # Every text has one end token, even a text that was cut.
    lengths: list[int] = ((tokens == loaded.tokenizer.eot_token_id).int().argmax(dim=1) + 1).tolist()
    return lengths


def _of_one_length(lengths: Sequence[int], batch_size: int) -> Iterator[Rows]:
    """Batches without padding, which is what a CPU pays for."""
    groups: dict[int, Rows] = defaultdict(list)
    for row, length in enumerate(lengths):
        groups[length].append(row)
    for rows in groups.values():
        yield from in_order(rows, batch_size)


def encode_short(model: Any, tokens: Any) -> Any:
    """Run open_clip's text tower on tokens (n, length), with positions and causal mask cut to that length.

    The feature is read at the end token, which has the highest number. It does not depend on padding after it.
    """
    import torch

    length = tokens.shape[1]
    dtype = model.transformer.get_cast_dtype()
    x = model.token_embedding(tokens).to(dtype) + model.positional_embedding[:length].to(dtype)
    x = model.transformer(x, attn_mask=model.attn_mask[:length, :length])
    x = model.ln_final(x)[torch.arange(len(tokens), device=tokens.device), tokens.argmax(dim=1)]
    projection = model.text_projection
    return projection(x) if callable(projection) else x @ projection


def _runs_at_own_length(model: Any) -> bool:
    """Whether the model has CLIP's causal text tower, read at the end token. Other towers need the padding."""
    is_causal = getattr(model, "attn_mask", None) is not None and hasattr(model, "token_embedding")
    return is_causal and getattr(model, "text_pool_type", None) == "argmax"
