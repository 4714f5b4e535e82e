"""Trains the demo encoder from nothing: `python -m lab.encoder.train [FOLDER]`, some minutes on two cores.

The losses are in lab.encoder.losses, the choice of texts in lab.encoder.batches.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from demo.encoder import CONFIGURATION, FOLDER, WEIGHTS, make_demo_encoder
from lab.encoder.batches import draw_batch
from lab.encoder.data import TrainingClip, training_clip
from lab.encoder.evaluate import FIRST_SEED as FIRST_FRESH_SEED
from lab.encoder.evaluate import evaluate
from lab.encoder.losses import batch_loss
from lab.encoder.record import write_record
from lab.verifier.repeatable import repeatable
from metrics_core.models.word_tokenizer import WordTokenizer

VOCABULARY, PREPROCESS = "demo_clip.vocab.json", "demo_clip.preprocess.json"


@dataclass(frozen=True)
class Settings:
    """The settings of a training run. The same settings on the same machine give the same weights."""

    seed: int = 5
    first_clip_seed: int = 1_000_000
    n_clips: int = 1000
    frames_per_clip: int = 8
    steps: int = 900
    clips_per_step: int = 32
    frames_per_step: int = 4
    image_size: int = 80
    learning_rate: float = 2e-3
    weight_decay: float = 0.02
    warm_up: int = 100
    threads: int = 1


def model_configuration(image_size: int, vocab_size: int) -> dict[str, Any]:
    """Configure open_clip: a narrow ResNet and a causal text tower of two layers, less than a million weights."""
    return {
        "embed_dim": 96,
        "vision_cfg": {"image_size": image_size, "layers": [1, 1, 1, 1], "width": 12, "head_width": 32},
        "text_cfg": {"context_length": 77, "vocab_size": vocab_size, "width": 64, "heads": 4, "layers": 2},
    }


def train(settings: Settings, folder: Path) -> dict[str, Any]:
    """Train, write configuration, vocabulary and weights into the folder, and return times and losses."""
    from safetensors.torch import save_file

    started = time.perf_counter()
    seeds = range(settings.first_clip_seed, settings.first_clip_seed + settings.n_clips)
    clips = [training_clip(seed, settings.frames_per_clip, settings.image_size) for seed in seeds]
    words = sorted(frozenset().union(*(clip.words for clip in clips)))
    prepared = time.perf_counter()
    with repeatable(settings.seed, settings.threads):
        model, tokenizer = new_model(settings, words, folder)
        losses = optimise(model, tokenizer, clips, settings)
    state = {name: value.detach().contiguous() for name, value in model.state_dict().items()}
    save_file(state, folder / WEIGHTS)
    return {
        "preparation_s": round(prepared - started, 1),
        "training_s": round(time.perf_counter() - prepared, 1),
        "weights": sum(value.numel() for value in state.values()),
        "losses": losses,
    }


def new_model(settings: Settings, words: Sequence[str], folder: Path) -> tuple[Any, WordTokenizer]:
    """Make a random model with its tokenizer, and write its files except the weights."""
    import open_clip

    folder.mkdir(parents=True, exist_ok=True)
    vocab_size = WordTokenizer(words, 0).vocab_size
    configuration = model_configuration(settings.image_size, vocab_size)
    contents = {CONFIGURATION: configuration, VOCABULARY: words, PREPROCESS: {"resize_mode": "squash"}}
    for name, content in contents.items():
        (folder / name).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    open_clip.add_model_config(folder / CONFIGURATION)
    model = open_clip.create_model(Path(CONFIGURATION).stem, pretrained=None, load_weights=False)
    return model, WordTokenizer(words, configuration["text_cfg"]["context_length"])


def optimise(
    model: Any, tokenizer: WordTokenizer, clips: Sequence[TrainingClip], settings: Settings
) -> list[tuple[int, float]]:
    """Run all steps of AdamW with a warm-up and a cosine decay. Returns (step, mean loss since the entry before)."""
    import torch

    rng = Random(f"train/{settings.seed}")
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay)
    curve, recent = [], []
    model.train().to(memory_format=torch.channels_last)
    for step in range(settings.steps):
        progress = step / settings.steps
        share = min((step + 1) / settings.warm_up, (1 + math.cos(math.pi * progress)) / 2)
        optimizer.param_groups[0]["lr"] = settings.learning_rate * share
        batch = draw_batch(rng.sample(clips, min(settings.clips_per_step, len(clips))), settings.frames_per_step, rng)
        loss = batch_loss(model, tokenizer, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            model.logit_scale.clamp_(0, math.log(50))
        recent.append(loss.item())
        if (step + 1) % max(1, settings.steps // 12) == 0:
            curve.append((step + 1, round(float(np.mean(recent)), 4)))
            print(f"step {step + 1}: loss {curve[-1][1]}", flush=True)
            recent = []
    return curve


def main() -> None:
    """Train with the default settings, evaluate on clips that training never saw, and write the record."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    settings = Settings()
    outcome = train(settings, folder)
    fresh = {"first_clip_seed": FIRST_FRESH_SEED, "n_clips": 200}
    measured = evaluate(make_demo_encoder(folder), 200)
    write_record(folder, asdict(settings), outcome, fresh | {"measured": measured})
    print(json.dumps(measured, indent=1))


if __name__ == "__main__":
    main()
