"""The student of a trial: two small heads on frozen vectors of captions and videos, trained by contrast.

Every arm of a trial trains the same student for the same number of steps, so only the rows differ. The caption's head
has two layers, the video's one; both end in unit vectors of one space, where a caption and its video are close (InfoNCE
in both directions). Other captions of the same video are no negatives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from metrics_core.arrays import IntArray

if TYPE_CHECKING:
    from torch import Generator, Tensor, nn

Vectors = npt.NDArray[np.float32]
"""Vectors (n, dim), one row for each text or video."""


class TooFewRows(ValueError):
    """Raised when an arm has fewer rows than a batch, so that it cannot be trained like the others."""


@dataclass(frozen=True, slots=True)
class StudentSettings:
    """How a student is trained: widths of its layers, steps, batch, and the optimiser's numbers."""

    hidden: int = 256
    width: int = 96
    steps: int = 250
    batch: int = 128
    learning_rate: float = 2e-3
    weight_decay: float = 0.02
    temperature: float = 0.07


@dataclass(frozen=True)
class TrainingPairs:
    """The rows of an arm: the vector of every caption (n, d), and the number of its video (n,) in `video_vectors`."""

    captions: Vectors
    videos: IntArray

    def __post_init__(self) -> None:
        if self.captions.ndim != 2 or self.videos.shape != self.captions.shape[:1]:
            raise ValueError(
                f"captions have the shape {self.captions.shape} and videos {self.videos.shape}: give (n, d) and (n,)."
            )


@dataclass(frozen=True)
class Student:
    """A trained student: functions that map vectors of captions (n, d) and of videos (n, e) to one space (n, width)."""

    encode_captions: Callable[[Vectors], Vectors]
    encode_videos: Callable[[Vectors], Vectors]


def train_student(
    pairs: TrainingPairs, video_vectors: Vectors, seed: int, settings: StudentSettings | None = None
) -> Student:
    """Train a student on pairs of captions and videos, and return it; the same seed gives the same student.

    video_vectors: (m, e), which `pairs.videos` points to. The seed decides the first weights and the batches. It takes
    a second on one core: a thread for each core would wait longer than it computes, so torch gets one meanwhile. Raises
    TooFewRows for fewer pairs than a batch.
    """
    import torch

    given = settings or StudentSettings()
    n = len(pairs.videos)
    if n < given.batch:
        raise TooFewRows(f"{n} rows are fewer than a batch of {given.batch}: select more rows")
    generator = torch.Generator().manual_seed(seed)
    caption_head, video_head = _make_heads(pairs.captions.shape[1], video_vectors.shape[1], given, generator)
    parameters = [*caption_head.parameters(), *video_head.parameters()]
    optimiser = torch.optim.AdamW(parameters, lr=given.learning_rate, weight_decay=given.weight_decay)
    captions, videos = torch.from_numpy(pairs.captions), torch.from_numpy(video_vectors)
    numbers, threads = torch.from_numpy(pairs.videos), torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for rows in _draw_batches(n, given, generator):
            batch = numbers[rows]
            similarities = _normalise(caption_head(captions[rows])) @ _normalise(video_head(videos[batch])).T
            loss = _compute_loss(similarities / given.temperature, batch)
            optimiser.zero_grad()
            torch.autograd.backward(loss)
            optimiser.step()
    finally:
        torch.set_num_threads(threads)
    return Student(_build_encoder(caption_head), _build_encoder(video_head))


def _make_heads(
    caption_width: int, video_width: int, given: StudentSettings, generator: Generator
) -> tuple[nn.Module, nn.Module]:
    """Return the head of captions (two layers) and of videos (one), with first weights drawn by the generator."""
    import torch
    from torch import nn

    first, second = nn.Linear(caption_width, given.hidden), nn.Linear(given.hidden, given.width)
    video_head = nn.Linear(video_width, given.width)
    with torch.no_grad():
        for layer in (first, second, video_head):
            bound = layer.in_features**-0.5
            layer.weight.uniform_(-bound, bound, generator=generator)
            layer.bias.zero_()
    return nn.Sequential(first, nn.ReLU(), second), video_head


def _draw_batches(n: int, given: StudentSettings, generator: Generator) -> Iterator[Tensor]:
    """Yield the rows of every step's batch: all rows in a random order, and again in another one."""
    import torch

    rows = torch.empty(0, dtype=torch.int64)
    for _ in range(given.steps):
        if len(rows) < given.batch:
            rows = torch.randperm(n, generator=generator)
        yield rows[: given.batch]
        rows = rows[given.batch :]


def _compute_loss(logits: Tensor, videos: Tensor) -> Tensor:
    """InfoNCE in both directions of logits (b, b); pairs of the same video off the diagonal do not count."""
    import torch
    from torch.nn.functional import cross_entropy

    same = (videos[:, None] == videos[None, :]) & ~torch.eye(len(videos), dtype=torch.bool)
    masked, target = logits.masked_fill(same, float("-inf")), torch.arange(len(videos))
    return (cross_entropy(masked, target) + cross_entropy(masked.T, target)) / 2


def _normalise(vectors: Tensor) -> Tensor:
    from torch.nn.functional import normalize

    return normalize(vectors, dim=1)


def _build_encoder(head: nn.Module) -> Callable[[Vectors], Vectors]:
    def encode(vectors: Vectors) -> Vectors:
        import torch

        with torch.no_grad():
            encoded: Vectors = _normalise(head(torch.from_numpy(vectors))).numpy()
        return encoded

    return encode
