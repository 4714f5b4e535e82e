"""Makes training clips: a few small frames, the texts that are true of them, and accounts of the whole clip."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from lab.demo import render
from lab.demo.describe import describe_clip
from lab.demo.render import Frame, compute_view
from lab.demo.story import make_clip
from lab.demo.wording import VOICES
from lab.demo.world import Actor, DemoClip
from lab.encoder.texts import Statement, looks_phrases, statements
from metrics_core.models.word_tokenizer import split_words


@dataclass(frozen=True)
class ShownFrame:
    """The texts that are true of one frame: statements, and phrases that name the actors in view."""

    statements: tuple[Statement, ...]
    looks: tuple[str, ...]


@dataclass(frozen=True)
class TrainingClip:
    """Frames, uint8 (n, size, size, 3), with their texts. `true` has all texts of the clip, `words` all its words."""

    pixels: NDArray[np.uint8]
    frames: tuple[ShownFrame, ...]
    accounts: tuple[tuple[str, ...], ...]
    true: frozenset[str]
    words: frozenset[str]


def training_clip(seed: int, n_frames: int, size: int) -> TrainingClip:
    """Make one clip with `n_frames` frames: equal parts of the clip give a frame each, from a random place."""
    clip, rng = make_clip(seed), Random(f"frames/{seed}")
    numbers = [int((part + rng.random()) * clip.n_frames / n_frames) for part in range(n_frames)]
    told = statements(clip)
    frames = tuple(_shown(clip, told, number) for number in numbers)
    accounts = tuple(tuple(sentence.text for sentence in describe_clip(clip, voice)) for voice in VOICES[:3])
    texts = {text for statement in told for text in (*statement.sentences, *statement.phrases)}
    true = frozenset(texts.union(*(frame.looks for frame in frames), *accounts))
    words = frozenset(word for text in true for word in split_words(text))
    pixels = np.stack([_small(frame, size) for frame in frames_at(clip, numbers)])
    return TrainingClip(pixels, frames, accounts, true, words)


def frames_at(clip: DemoClip, numbers: Sequence[int]) -> Iterator[Frame]:
    """Draw single frames, equal to the frames of `render_frames`, without drawing the others."""
    shade = render._shade(clip.style)
    for number in numbers:
        view, sprites = compute_view(clip, number)
        frame = render._backdrop(clip, view)
        for sprite in sprites:
            render._draw(frame, view, sprite)
        yield render._apply_style(frame, clip.style, shade)


def _shown(clip: DemoClip, told: tuple[Statement, ...], number: int) -> ShownFrame:
    active = tuple(statement for statement in told if statement.start <= number < statement.end)
    looks = (phrase for actor in _in_view(clip, number) for phrase in looks_phrases(actor.build_looks()))
    return ShownFrame(active, tuple(looks))


def _in_view(clip: DemoClip, number: int) -> Iterator[Actor]:
    """The actors at rest in view. The acting actor is left out, because the event's sentences name it."""
    last = clip.events[-1].after
    scene = next((event.before for event in clip.events if number < event.end), last)
    acting = next((event.actor for event in clip.events if event.start <= number < event.end), None)
    return (actor for index, actor in enumerate(scene.actors) if actor.visible and index != acting)


def _small(frame: Frame, size: int) -> Frame:
    """Resize a frame as open_clip's image transform does with resize_mode "squash"."""
    return np.asarray(Image.fromarray(frame).resize((size, size), Image.Resampling.BICUBIC))
