"""Trains the verifier: `python -m lab.verifier.train DATA [FOLDER]`, about half an hour on two cores.

DATA is the folder that `lab.verifier.data` describes. The weights and the record go to FOLDER, by default to the
package `metrics_core.ecs.verifier`.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from lab.verifier.data import Pair
from lab.verifier.evaluate import measure
from lab.verifier.mixture import Shares, Sources, epoch, read_sources
from lab.verifier.record import write_record
from lab.verifier.repeatable import repeatable
from lab.verifier.whole_text import add_whole_text
from metrics_core.ecs.verifier import FOLDER, WEIGHTS
from metrics_core.ecs.verifier.lexical import LEXICAL_FEATURES, LEXICAL_VERSION, compute_feature_matrix
from metrics_core.ecs.verifier.model import (
    ADAPTER_SCALE,
    CLASSES,
    OfflineVerifier,
    compute_pair_logits,
    make_base_encoder,
    make_minilm_tokenizer,
    make_random_head,
    write_weights,
)
from metrics_core.models.batches import split_by_tokens
from metrics_core.models.nli_inputs import tokenize_pairs


@dataclass(frozen=True)
class Settings:
    """The settings of a training run. The same settings on the same machine give the same weights."""

    seed: int = 1
    epochs: int = 3
    rank: int = 48
    tokens_per_batch: int = 1024
    longest: int = 256
    adapter_rate: float = 6e-4
    head_rate: float = 1e-3
    weight_decay: float = 0.01
    warm_up: float = 0.06
    dropout: float = 0.1
    threads: int = 2
    shares: Shares = field(default_factory=Shares)


def train(sources: Sources, settings: Settings, file: Path) -> dict[str, Any]:
    """Train on all sources, write the weights to `file`, and return times, sizes and losses."""
    started = time.perf_counter()
    with repeatable(settings.seed, settings.threads):
        encoder = make_base_encoder()
        adapters, head = attach_adapters(encoder, settings.rank), make_random_head()
        with_dropout(encoder, settings.dropout)
        batches = all_batches(sources, settings)
        losses = optimise(encoder, head, adapters, batches, settings)
        write_weights(file, adapters, head)
    values = sum(value.numel() for value in [*adapters.values(), *head.parameters()])
    return {
        "training_s": round(time.perf_counter() - started, 1),
        "weights": values,
        "steps": len(batches),
        "pairs": sum(len(batch) for batch in batches),
        "losses": losses,
    }


def attach_adapters(encoder: Any, rank: int) -> dict[str, Any]:
    """Add trainable adapters to every linear layer of the encoder. They are named as `merge_adapters` expects.

    A new adapter changes nothing, because its B is zero.
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


def with_dropout(encoder: Any, share: float) -> None:
    """Set the dropout of the encoder's layers. Attention has none, because dropout there is slow on a CPU."""
    import torch

    encoder.train()
    for name, module in encoder.named_modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0 if name.endswith("attention.self.dropout") else share


def all_batches(sources: Sources, settings: Settings) -> list[list[Pair]]:
    """Make the batches of all epochs, in order. Pairs of like length share a batch; an epoch's batches are shuffled."""
    tokenizer, batches = make_minilm_tokenizer(), []
    for number in range(settings.epochs):
        rng = Random(f"{settings.seed}/{number}")
        pairs = epoch(sources, settings.shares, rng)
        rng.shuffle(pairs)
        lengths = tokenize_pairs(
            tokenizer, [(pair.premise, pair.hypothesis) for pair in pairs], settings.longest
        ).n_tokens
        of_epoch = [[pairs[row] for row in rows] for rows in split_by_tokens(lengths, settings.tokens_per_batch)]
        rng.shuffle(of_epoch)
        batches += of_epoch
    return batches


def optimise(
    encoder: Any, head: Any, adapters: dict[str, Any], batches: Sequence[Sequence[Pair]], settings: Settings
) -> list[tuple[int, float]]:
    """Run all steps of AdamW with a warm-up and a linear decay. Returns (step, mean loss since the entry before)."""
    import torch

    groups: list[dict[str, Any]] = [
        {"params": list(adapters.values()), "lr": settings.adapter_rate},
        {"params": list(head.parameters()), "lr": settings.head_rate},
    ]
    parameters = [parameter for group in groups for parameter in group["params"]]
    optimizer = torch.optim.AdamW(groups, weight_decay=settings.weight_decay)
    rates = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / (settings.warm_up * len(batches) + 1), 1 - step / len(batches))
    )
    tokenizer, recent, curve = make_minilm_tokenizer(), [], []
    for step, batch in enumerate(batches, start=1):
        loss = batch_loss(tokenizer, encoder, head, batch, settings.longest)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        rates.step()
        recent.append(loss.item())
        if step % max(1, len(batches) // 20) == 0:
            curve.append((step, round(float(np.mean(recent)), 4)))
            print(f"{time.strftime('%H:%M:%S')} step {step} of {len(batches)}: loss {curve[-1][1]}", flush=True)
            recent = []
    return curve


def batch_loss(tokenizer: Any, encoder: Any, head: Any, batch: Sequence[Pair], longest: int) -> Any:
    """Compute the mean loss: cross entropy over three classes, or over entailed and not where the class is unknown."""
    import torch
    from torch.nn.functional import cross_entropy

    texts = [(pair.premise, pair.hypothesis) for pair in batch]
    inputs = tokenize_pairs(tokenizer, texts, longest).build_batch(range(len(batch)))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = compute_pair_logits(encoder, head, inputs, torch.from_numpy(compute_feature_matrix(texts)))
    logits = logits.float()
    classes = torch.tensor([CLASSES.index(pair.label) if pair.label else -1 for pair in batch])
    losses = cross_entropy(logits, classes, ignore_index=-1, reduction="none")
    entailed = torch.tensor([pair.entailed for pair in batch])
    two_way = torch.stack([logits[:, 0], logits[:, 1:].logsumexp(dim=1)], dim=1)
    unknown = cross_entropy(two_way, torch.stack([entailed, 1 - entailed], dim=1), reduction="none")
    return torch.where(classes < 0, unknown, losses).mean()


def main() -> None:
    """Train with the default settings, measure on held-out pairs and write the record."""
    data, folder = Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else FOLDER
    settings, sources = Settings(), read_sources(data)
    outcome = train(sources, settings, folder / WEIGHTS)
    sizes = {name: len(getattr(sources, name)) for name in ("snli", "contrasts", "news_sentences", "news_summaries")}
    measured = measure(OfflineVerifier(folder / WEIGHTS), data)
    lexical = {"version": LEXICAL_VERSION, "names": list(LEXICAL_FEATURES)}
    write_record(folder, WEIGHTS, asdict(settings), outcome | {"sources": sizes}, measured, lexical)
    add_whole_text(data, folder)
    print((folder / "RECORD.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
