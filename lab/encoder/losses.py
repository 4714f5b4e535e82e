"""Contrastive losses of the demo encoder.

Symmetric InfoNCE with two kinds of pairs: single frames with sentences and keywords, and pooled frames of a clip with
stretches of its captions. The negatives of a frame leave out texts of other frames that are true of its clip, and add
its own text with other colours and counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lab.encoder.batches import Batch
from metrics_core.models.word_tokenizer import WordTokenizer


def batch_loss(model: Any, tokenizer: WordTokenizer, batch: Batch) -> Any:
    """Average two losses: frames with their texts, and pooled clips with stretches of their captions."""
    import torch
    from torch.nn.functional import normalize

    # The permuted view keeps its memory order, channels last, which is faster on a CPU.
    images = torch.from_numpy(batch.pixels).permute(0, 3, 1, 2).float() / 255
    mean, std = (torch.tensor(values)[:, None, None] for values in (model.visual.image_mean, model.visual.image_std))
    frames = normalize(model.encode_image((images - mean) / std), dim=-1)
    pooled = normalize(frames.reshape(len(batch.chunks), -1, frames.shape[1]).mean(dim=1), dim=-1)
    groups = (batch.texts, batch.false_texts, batch.chunks, batch.false_chunks)
    everything = sorted({text for texts in groups for text in texts})
    rows = {text: row for row, text in enumerate(everything)}
    features = normalize(text_features(model, tokenizer, everything), dim=-1)
    texts, false_texts, chunks, false_chunks = (features[[rows[text] for text in group]] for group in groups)
    scale = model.logit_scale.exp()
    also_true = torch.from_numpy(batch.also_true)
    nothing = torch.zeros(len(batch.chunks), len(batch.chunks), dtype=torch.bool)
    return 0.5 * (
        info_nce(scale * frames @ texts.T, scale * (frames * false_texts).sum(1), also_true, batch.false_texts)
        + info_nce(scale * pooled @ chunks.T, scale * (pooled * false_chunks).sum(1), nothing, batch.false_chunks)
    )


def info_nce(logits: Any, false_logits: Any, ignored: Any, false_texts: Sequence[str]) -> Any:
    """Compute symmetric InfoNCE of logits (n, n) without the `ignored` cells.

    Row i has one more negative, false_logits[i], unless false_texts[i] is "".
    """
    import torch
    from torch.nn.functional import cross_entropy

    logits = logits.masked_fill(ignored, -torch.inf)
    empty = torch.tensor([not text for text in false_texts])
    own = torch.arange(len(logits))
    wider = torch.cat([logits, false_logits.masked_fill(empty, -torch.inf)[:, None]], dim=1)
    return 0.5 * (cross_entropy(wider, own) + cross_entropy(logits.T, own))


def text_features(model: Any, tokenizer: WordTokenizer, texts: Sequence[str]) -> Any:
    """Encode texts into features (n, dim) with gradients. Texts of similar length run together."""
    import torch

    from metrics_core.models.clip_texts import encode_unpadded

    tokens = tokenizer(texts)
    lengths = tokens.argmax(dim=1) + 1
    order = lengths.argsort(stable=True)
    parts = [encode_unpadded(model, tokens[rows, : lengths[rows].max()]) for rows in order.split(64)]
    return torch.cat(parts)[order.argsort(stable=True)]
