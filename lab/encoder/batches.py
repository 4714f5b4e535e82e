"""Draws batches for contrastive training: frames with texts, and a mask of other texts that are true of their clips."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray

from lab.encoder.data import ShownFrame, TrainingClip
from lab.encoder.texts import altered

SENTENCE_SHARE, LOOKS_SHARE = 0.35, 0.3
LONGEST_CHUNK = 8  # sentences


@dataclass(frozen=True)
class Batch:
    """`texts[i]` is true of frame i, `false_texts[i]` is false; so are `chunks[c]` and `false_chunks[c]` of clip c.

    The frames of one clip stand together. also_true (frames, frames) marks the texts of other frames that are true of a
    frame's clip. A false text is "" where its true text has nothing to alter.
    """

    pixels: NDArray[np.uint8]
    texts: list[str]
    false_texts: list[str]
    also_true: NDArray[np.bool_]
    chunks: list[str]
    false_chunks: list[str]


def draw_batch(clips: Sequence[TrainingClip], n_frames: int, rng: Random) -> Batch:
    """Draw `n_frames` random frames of every clip, with random texts."""
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
    """Draw a sentence or keyword that is true of the frame. Events are drawn twice as often as the setting."""
    if frame.looks and rng.random() < LOOKS_SHARE:
        return rng.choice(frame.looks)
    weights = [1 if statement.start == 0 else 2 for statement in frame.statements]
    statement = rng.choices(frame.statements, weights)[0]
    return rng.choice(statement.sentences if rng.random() < SENTENCE_SHARE else statement.phrases)


def draw_chunk(sentences: Sequence[str], rng: Random) -> str:
    """Draw one to eight neighbouring sentences, joined with spaces."""
    length = rng.randint(1, min(LONGEST_CHUNK, len(sentences)))
    start = rng.randint(0, len(sentences) - length)
    return " ".join(sentences[start : start + length])
