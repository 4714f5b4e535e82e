"""Training: repeatable to the byte, and what is stored computes what was trained."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from lab.verifier.data import Pair, labelled
from lab.verifier.mixture import Shares, Sources
from lab.verifier.train import Settings, all_batches, attach_adapters, batch_loss, train
from metrics_core.ecs.verifier.lexical import compute_feature_matrix
from metrics_core.ecs.verifier.model import (
    compute_pair_logits,
    make_base_encoder,
    make_minilm_tokenizer,
    make_random_head,
    read_weights,
    write_weights,
)

PAIRS = [
    labelled("A man rides a brown horse.", "A man is on a horse.", "entailment"),
    labelled("A man rides a brown horse.", "Nobody rides.", "contradiction"),
    labelled("Two dogs run.", "The dogs run home.", "neutral"),
    labelled("Two animals run.", "Two animals move.", "entailment"),
    labelled("A woman sings.", "She is silent.", "contradiction"),
]
SOURCES = Sources(PAIRS, PAIRS[:2], [Pair("The mayor resigned on Friday.", "The mayor resigned.", 0.75)], [])
TINY = Settings(rank=2, epochs=2, tokens_per_batch=64, threads=1, shares=Shares(*[1] * 7))


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("one", "two", "three")]
    for file, seed in zip(files, (7, 7, 8), strict=True):
        outcome = train(SOURCES, replace(TINY, seed=seed), file)
    assert files[0].read_bytes() == files[1].read_bytes() != files[2].read_bytes()
    assert outcome["steps"] == len(all_batches(SOURCES, replace(TINY, seed=8))) >= 4
    assert not torch.are_deterministic_algorithms_enabled()


def test_batches_hold_every_pair_and_few_tokens() -> None:
    batches = all_batches(SOURCES, TINY)
    drawn = [pair for batch in batches for pair in batch]
    assert all(drawn.count(pair) >= TINY.epochs for pair in PAIRS)
    tokenizer = make_minilm_tokenizer()
    for batch in batches:
        longest = max(len(tokenizer(pair.premise, pair.hypothesis)["input_ids"]) for pair in batch)
        assert len(batch) == 1 or len(batch) * longest <= TINY.tokens_per_batch


def test_stored_weights_compute_what_the_adapters_computed(tmp_path: Path) -> None:
    torch.manual_seed(1)
    encoder = make_base_encoder()
    adapters, head = attach_adapters(encoder, 4), make_random_head()
    texts = [(pair.premise, pair.hypothesis) for pair in PAIRS]
    batch = make_minilm_tokenizer()(*map(list, zip(*texts, strict=True)), padding=True, return_tensors="pt")
    features = torch.from_numpy(compute_feature_matrix(texts))
    with torch.inference_mode():
        before = compute_pair_logits(encoder, head, batch, features)
        for name, value in adapters.items():
            if name.endswith("lora_B"):
                value.data += torch.randn_like(value) * 0.2
        trained = compute_pair_logits(encoder, head, batch, features)
        write_weights(tmp_path / "weights", adapters, head)
        loaded = compute_pair_logits(*read_weights(tmp_path / "weights"), batch, features)
    assert (trained - before).abs().max() > 0.05
    assert (loaded - trained).abs().max() < 0.05 * (trained - before).abs().max()


def test_the_loss_by_hand() -> None:
    """Equal logits: log 3 for a known class; for a share of votes the cross entropy against 1/3."""
    encoder, head, tokenizer = make_base_encoder(), make_random_head(), make_minilm_tokenizer()
    with torch.no_grad():
        for value in head.parameters():
            value.zero_()
        third = torch.tensor(1 / 3)
        known = batch_loss(tokenizer, encoder, head, PAIRS[:1], 64)
        shared = batch_loss(tokenizer, encoder, head, [Pair("A dog.", "A cat.", 0.75)], 64)
    assert known.item() == pytest.approx(-third.log().item(), abs=1e-4)
    assert shared.item() == pytest.approx(-(0.75 * third.log() + 0.25 * (1 - third).log()).item(), abs=1e-4)
