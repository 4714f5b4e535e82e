"""The student of a trial: two small heads on frozen vectors of captions and videos, trained by contrast.

Every arm of a trial trains the same student by the same rule, so only the rows differ. The caption's head has two
layers, the video's one; both end in unit vectors of one space, where a caption and its video are close (InfoNCE in both
directions). Other captions of the same video are no negatives.

Few rows are learned, and then learned by heart, in fewer steps than many, and swapped captions are learned by heart
last. A fixed number of steps would therefore decide which arm wins: every student stops where it is best on held-out
videos.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from metrics_core.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    from torch import Generator, Tensor, nn

Vectors = npt.NDArray[np.float32]
"""Vectors (n, dim), one row for each text or video."""


class TooFewRows(ValueError):
    """Raised when an arm has fewer rows than a batch, so that it cannot be trained like the others."""


@dataclass(frozen=True, slots=True)
class StudentSettings:
    """How a student is trained. hidden: width of the caption head's first layer. width: of the vectors that both heads
    give. max_steps: the most training steps. patience: checks without a better result before training ends. batch:
    pairs per step. learning_rate, weight_decay: of AdamW. temperature: divides similarities in the loss.
    """

    hidden: int = 256
    width: int = 96
    max_steps: int = 4096
    patience: int = 4
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
class HeldOutPairs:
    """The clean texts (n, d) and the vectors (n, e) of the same held-out videos in the same order."""

    texts: Vectors
    videos: Vectors


@dataclass(frozen=True)
class Student:
    """A trained student: functions that map vectors of captions (n, d) and of videos (n, e) to one space (n, width).

    curve: the mean reciprocal rank of the validation videos by the number of steps; the student is that of the best.
    """

    encode_captions: Callable[[Vectors], Vectors]
    encode_videos: Callable[[Vectors], Vectors]
    curve: Mapping[int, float]


@dataclass(frozen=True)
class RetrievalMeasures:
    """Measures by held-out video (n,), means of both directions: 1 / rank, and whether the rank is 1, or up to 5."""

    reciprocal_rank: FloatArray
    recall_at_1: FloatArray
    recall_at_5: FloatArray


def find_best_step(curve: Mapping[int, float]) -> int:
    """Find the number of steps after which a student was best by its curve: the first of equally good ones.

    >>> find_best_step({8: 0.1, 11: 0.3, 16: 0.3})
    11
    """
    return max(curve, key=lambda step: curve[step])


def _list_checks(max_steps: int) -> list[int]:
    """List the numbers of steps after which a student is measured: from 8 on, each larger by a factor of the root of 2.

    >>> _list_checks(64)
    [8, 11, 16, 23, 32, 45, 64]
    """
    n_checks = math.floor(2 * math.log2(max_steps / 8)) + 1
    return [round(8 * 2 ** (check / 2)) for check in range(n_checks)]


def train_student(
    pairs: TrainingPairs,
    video_vectors: Vectors,
    validation: HeldOutPairs,
    seed: int,
    settings: StudentSettings | None = None,
) -> Student:
    """Train a student on pairs of captions and videos, and return it as it was at its best step.

    video_vectors: (m, e), which `pairs.videos` points to. validation: decides the best step. The seed decides the first
    weights and the batches, and the same seed gives the same student. It takes a second or two on one core: a thread
    for each core would wait longer than it computes, so torch gets one meanwhile. Raises TooFewRows for fewer pairs
    than a batch.
    """
    import torch

    given = settings or StudentSettings()
    n = len(pairs.videos)
    if n < given.batch:
        raise TooFewRows(
            f"{n:,} {'row is' if n == 1 else 'rows are'} fewer than a batch of {given.batch:,}: select more rows"
        )
    generator = torch.Generator().manual_seed(seed)
    caption_head, video_head = _make_heads(pairs.captions.shape[1], video_vectors.shape[1], given, generator)
    parameters = [*caption_head.parameters(), *video_head.parameters()]
    optimiser = torch.optim.AdamW(parameters, lr=given.learning_rate, weight_decay=given.weight_decay)
    captions, videos = torch.from_numpy(pairs.captions), torch.from_numpy(video_vectors)
    numbers, threads = torch.from_numpy(pairs.videos), torch.get_num_threads()
    student = Student(_build_encoder(caption_head), _build_encoder(video_head), {})
    checks = _list_checks(given.max_steps)
    curve: dict[int, float] = {}
    best: list[Tensor] = []
    torch.set_num_threads(1)
    try:
        for step, rows in enumerate(_draw_batches(n, given, generator), 1):
            batch = numbers[rows]
            similarities = _normalise(caption_head(captions[rows])) @ _normalise(video_head(videos[batch])).T
            loss = _compute_loss(similarities / given.temperature, batch)
            optimiser.zero_grad()
            torch.autograd.backward(loss)
            optimiser.step()
            if step not in checks:
                continue
            curve[step] = float(measure_retrieval(student, validation).reciprocal_rank.mean())
            reached = find_best_step(curve)
            if reached == step:
                best = [weights.detach().clone() for weights in parameters]
            elif checks.index(step) - checks.index(reached) == given.patience:
                break
    finally:
        torch.set_num_threads(threads)
    with torch.no_grad():
        for weights, kept in zip(parameters, best, strict=True):
            weights.copy_(kept)
    return replace(student, curve=curve)


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
    for _ in range(given.max_steps):
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


def measure_retrieval(student: Student, pairs: HeldOutPairs) -> RetrievalMeasures:
    """Measure how a student ranks all held-out videos for every text, and all texts for every video, by cosine.

    Equal cosines share the mean of their ranks, so that a student that sees no difference gains nothing.
    """
    similarities = student.encode_captions(pairs.texts) @ student.encode_videos(pairs.videos).T
    return _measure_ranks(similarities.astype(np.float64))


def _measure_ranks(similarities: FloatArray) -> RetrievalMeasures:
    """Compute the measures from similarities (n, n) of texts and videos; the true pairs are on the diagonal.

    >>> _measure_ranks(np.array([[0.9, 0.1], [0.8, 0.2]])).reciprocal_rank.tolist()
    [1.0, 0.75]
    """
    ranks = np.stack([_rank_diagonal(similarities), _rank_diagonal(similarities.T)])
    return RetrievalMeasures(
        (1 / ranks).mean(axis=0),
        (ranks <= 1).mean(axis=0, dtype=np.float64),
        (ranks <= 5).mean(axis=0, dtype=np.float64),
    )


def compute_chance(n: int) -> float:
    """Compute the mean reciprocal rank of a student that ranks n videos at random.

    >>> round(compute_chance(200), 3)
    0.029
    """
    return float((1 / np.arange(1, n + 1)).mean())


def _rank_diagonal(similarities: FloatArray) -> FloatArray:
    """The rank (n,) of every row's diagonal value in its row, from 1; equal values share the mean of their ranks."""
    true = np.diag(similarities)[:, None]
    higher, equal = (similarities > true).sum(axis=1), (similarities == true).sum(axis=1)
    ranks: FloatArray = 1 + higher + (equal - 1) / 2
    return ranks
