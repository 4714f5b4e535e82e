"""Computes CLIP text features without padding: texts run at their own lengths."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metrics_core.models.clip_loading import LoadedClip


def text_features(loaded: LoadedClip, texts: Sequence[str], dim: int, batch_size: int) -> NDArray[np.float32]:
    """Encode texts into features (n, dim) in float32, in the order of the texts."""
    import torch

    features = np.empty((len(texts), dim), np.float32)
    if not texts:
        return features
    tokens = loaded.tokenizer(list(texts))
    encode = encode_short if _runs_at_own_length(loaded.model) else type(loaded.model).encode_text
    with torch.inference_mode():
        for length, members in _by_length(loaded, tokens).items():
            for start in range(0, len(members), batch_size):
                part = members[start : start + batch_size]
                encoded = encode(loaded.model, tokens[part, :length].to(loaded.device))
                features[part] = encoded.float().cpu().numpy()
    return features


def _by_length(loaded: LoadedClip, tokens: Any) -> dict[int, list[int]]:
    """Group the rows of the tokens by the length at which they may run."""
    if not _runs_at_own_length(loaded.model):
        return {tokens.shape[1]: list(range(len(tokens)))}
    groups: dict[int, list[int]] = defaultdict(list)
    # Every text has one end token, even a text that was cut.
    lengths = (tokens == loaded.tokenizer.eot_token_id).int().argmax(dim=1) + 1
    for row, length in enumerate(lengths.tolist()):
        groups[length].append(row)
    return groups


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
