"""Batches for contrastive training: frames with a text each, and which other texts are true of them, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray

from demo.encoder.data import ShownFrame, TrainingClip
from demo.encoder.texts import altered

SENTENCE_SHARE, LOOKS_SHARE = 0.35, 0.3
LONGEST_CHUNK = 8  # sentences


@dataclass(frozen=True)
class Batch:
    """`texts[i]` is true of frame i and `false_texts[i]` is not; `chunks[c]` and `false_chunks[c]` go with clip c.

    Frames lie clip by clip. also_true (frames, frames) marks texts that belong to another frame but are not false of
    this one; false texts are "" where the text has nothing to be altered.
    """

    pixels: NDArray[np.uint8]
    texts: list[str]
    false_texts: list[str]
    also_true: NDArray[np.bool_]
    chunks: list[str]
    false_chunks: list[str]


def draw_batch(clips: Sequence[TrainingClip], n_frames: int, rng: Random) -> Batch:
    """`n_frames` random frames of each clip with random texts."""
    pixels, texts, false_texts, chunks, false_chunks = [], [], [], [], []
    for clip in clips:
        for index in rng.sample(range(len(clip.frames)), n_frames):
            pixels.append(clip.pixels[index])
            texts.append(draw_text(clip.frames[index], rng))
            false_texts.append(altered(texts[-1], clip.words, rng) or "")
        chunks.append(draw_chunk(rng.choice(clip.accounts), rng))
        false_chunks.append(altered(chunks[-1], clip.words, rng) or "")
    by_clip = np.array([[text in clip.true for text in texts] for clip in clips])
    also_true = np.repeat(by_clip, n_frames, axis=0)
    np.fill_diagonal(also_true, False)
    return Batch(np.stack(pixels), texts, false_texts, also_true, chunks, false_chunks)


def draw_text(frame: ShownFrame, rng: Random) -> str:
    """A sentence or keyword that is true of the frame; events are drawn twice as often as the setting."""
    if frame.looks and rng.random() < LOOKS_SHARE:
        return rng.choice(frame.looks)
    weights = [1 if statement.start == 0 else 2 for statement in frame.statements]
    statement = rng.choices(frame.statements, weights)[0]
    return rng.choice(statement.sentences if rng.random() < SENTENCE_SHARE else statement.phrases)


def draw_chunk(sentences: Sequence[str], rng: Random) -> str:
    """One to eight neighbouring sentences."""
    length = rng.randint(1, min(LONGEST_CHUNK, len(sentences)))
    start = rng.randint(0, len(sentences) - length)
    return " ".join(sentences[start : start + length])
