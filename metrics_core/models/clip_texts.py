"""Compute text features of open_clip models without padding: every text runs at its own length."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metrics_core.models.batches import (
    GPU_BATCH_TOKENS,
    RowNumbers,
    compute_in_batches,
    move_to_device,
    split_by_size,
    split_by_tokens,
)
from metrics_core.models.clip_loading import (
    LoadedClip,
)


def encode_clip_texts(
    loaded: LoadedClip, texts: Sequence[str], batch_size: int, memory_message: str
) -> NDArray[np.float32]:
    """Encode texts with a loaded open_clip model into features, float32 (n, dim) and not normalised, in the order of
    the texts. batch_size: texts per batch on a CPU; on a GPU the tokens of a batch are limited instead. Raises
    ModelUnusable with `memory_message` where a GPU lacks memory for one text.
    """
    tokens = loaded.tokenizer(list(texts))
    lengths = _count_tokens(loaded, tokens)
    encode = encode_unpadded if _can_skip_padding(loaded.model) else type(loaded.model).encode_text

    def compute(rows: RowNumbers) -> Any:
        part = tokens[rows, : max(lengths[row] for row in rows)]
        return encode(loaded.model, move_to_device(part, loaded.device))

    on_gpu = loaded.device.type == "cuda"
    batches = split_by_tokens(lengths, GPU_BATCH_TOKENS) if on_gpu else _split_by_length(lengths, batch_size)
    return compute_in_batches(len(texts), batches, compute, memory_message=memory_message)


def _count_tokens(loaded: LoadedClip, tokens: Any) -> list[int]:
    """Return for every text the number of tokens, to the end token, that the model has to see."""
    if not _can_skip_padding(loaded.model):
        return [tokens.shape[1]] * len(tokens)
    # Every text has one end token, even a text that was cut.
    lengths: list[int] = ((tokens == loaded.tokenizer.eot_token_id).int().argmax(dim=1) + 1).tolist()
    return lengths


def _split_by_length(lengths: Sequence[int], batch_size: int) -> Iterator[RowNumbers]:
    """Yield batches of texts of equal length, which need no padding."""
    groups: dict[int, RowNumbers] = defaultdict(list)
    for row, length in enumerate(lengths):
        groups[length].append(row)
    for rows in groups.values():
        yield from split_by_size(rows, batch_size)


def encode_unpadded(model: Any, tokens: Any) -> Any:
    """Run the causal text tower of an open_clip model on tokens (n, length), without padding, and return features (n,
    dim). A text's feature is read at its end token, which has the highest number. It does not depend on padding after
    it.
    """
    import torch

    length = tokens.shape[1]
    dtype = model.transformer.get_cast_dtype()
    x = model.token_embedding(tokens).to(dtype) + model.positional_embedding[:length].to(dtype)
    x = model.transformer(x, attn_mask=model.attn_mask[:length, :length])
    x = model.ln_final(x)[torch.arange(len(tokens), device=tokens.device), tokens.argmax(dim=1)]
    projection = model.text_projection
    return projection(x) if callable(projection) else x @ projection


def _can_skip_padding(model: Any) -> bool:
    """Whether the model has CLIP's causal text tower, read at the end token. Other towers need the padding."""
    is_causal = getattr(model, "attn_mask", None) is not None and hasattr(model, "token_embedding")
    return is_causal and getattr(model, "text_pool_type", None) == "argmax"
