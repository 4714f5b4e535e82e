"""The built-in trainer of trials: a small head on frozen vectors."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sqlalchemy.engine import Connection, Engine

from assets.scores.base import Scorer
from assets.sources.base import BATCH_SIZE
from assets.sources.frames import SampledFrames
from assets.trial.arms import TrialRun
from assets.trial.parts import TrialParts, compute_digest
from assets.words.text import format_count
from db.evidence.frames import load_frames
from db.evidence.video_vectors import list_encoders, load_video_vectors
from db.manifest.datasets import Dataset
from db.scores.pending import split_ids
from db.selection.recipes import SelectionError
from db.selection.trial_rows import TrialVideo
from db.selection.trials import TrainedRun
from metrics_core.arrays import IntArray
from metrics_core.trial.latent import LatentEncoder
from metrics_core.trial.student import (
    HeldOutPairs,
    StudentSettings,
    TooFewRows,
    TrainingPairs,
    Vectors,
    compute_chance,
    measure_retrieval,
    train_student,
)

MEASURE = "mrr"
VERSION = 2
"""Raise it when the student or its measure changes: stored runs of before then count no more."""


@dataclass(frozen=True)
class SeenVectors:
    """The vectors of videos that students see, by video id. identity: plain data that, with the videos' files,
    determines them. video_side: what they are of, as a stored trial names it.
    """

    identity: Any
    vectors: Mapping[int, Vectors]
    video_side: str


@dataclass(frozen=True)
class _TrialVectors:
    """The vectors of a trial. captions: (n, d) by caption. videos: (m, e), of the training videos; video_places: the
    row (n,) of every caption's video, -1 for one that does not train. validation, test: the held-out videos.
    """

    captions: Vectors
    videos: Vectors
    video_places: IntArray
    validation: HeldOutPairs
    test: HeldOutPairs


class StudentTrainer:
    """Trains a small head on frozen vectors, and measures retrieval of the test videos both ways.

    seen: the vectors of videos; None for references. chance: the measure of a random order. video_side: what a student
    gets of a video. settings: what the stored trial says of it. keeps_runs: whether a stored run is used again.
    """

    name = "a small head on frozen vectors"
    keeps_runs = True

    def __init__(self, parts: TrialParts, seen: SeenVectors | None) -> None:
        self._parts = parts
        self._seen = seen
        self._settings = StudentSettings()
        self.video_side = "references" if seen is None else seen.video_side
        self.settings: Mapping[str, Any] = asdict(self._settings)
        self.chance: float | None = compute_chance(len(parts.test_videos))

    @cached_property
    def identity(self) -> Mapping[str, Any]:
        """Everything but rows, held-out videos and seed that decides what a student reaches."""
        parts, texts = self._parts, self._parts.captions.texts
        known = [*parts.train_videos, *parts.validation_videos, *parts.test_videos]
        seen = {
            "texts": [texts[place] for place in parts.training.tolist()],
            "videos": [(video.key, video.references, video.content_sha256) for video in known],
        }
        encoder = None if self._seen is None else self._seen.identity
        return {"student": self.settings, "version": VERSION, "encoder": encoder, "seen": compute_digest(seen)}

    def train(self, run: TrialRun) -> TrainedRun:
        """Train a student on the rows of a run, and return its measures by test video."""
        started, vectors = time.perf_counter(), self._vectors
        pairs = TrainingPairs(vectors.captions[run.texts], vectors.video_places[run.videos])
        try:
            student = train_student(pairs, vectors.videos, vectors.validation, run.seed, self._settings)
        except TooFewRows:
            n = format_count(len(run.texts), "training row")
            return TrainedRun("too_few_rows", f"{n}: fewer than a batch of {self._settings.batch}")
        measured = measure_retrieval(student, vectors.test)
        means = {
            MEASURE: float(measured.reciprocal_rank.mean()),
            "recall_at_1": float(measured.recall_at_1.mean()),
            "recall_at_5": float(measured.recall_at_5.mean()),
        }
        seconds = time.perf_counter() - started
        ranks = tuple(measured.reciprocal_rank.tolist())
        return TrainedRun("ok", None, MEASURE, ranks, means, seconds, student.curve)

    @cached_property
    def _vectors(self) -> _TrialVectors:
        try:
            return _build_vectors(self._parts, None if self._seen is None else self._seen.vectors)
        except ValueError as error:
            raise SelectionError(f"the texts of the dataset cannot be encoded: {error}") from None


def load_seen_vectors(
    engine: Engine, scorers: Mapping[str, Scorer], dataset: Dataset, videos: Sequence[TrialVideo]
) -> SeenVectors | None:
    """Load the vectors of the videos' frames by an encoder whose frames a scorer reads, else those that the manifest
    brought, of the first encoder by name; None where neither has one for every video.
    """
    with engine.connect() as connection:
        model_id = _find_frame_model(connection, scorers)
    if model_id is not None:
        frames = _load_frame_vectors(engine, model_id, videos)
        if len(frames) == len(videos):
            return SeenVectors(model_id, frames, "frames")
    with engine.begin() as connection:
        for name in list_encoders(connection, dataset):
            vectors = load_video_vectors(connection, dataset, name, [video.video_id for video in videos])
            if len(vectors) == len(videos):
                # Another manifest may bring other vectors for the same files.
                digest = compute_digest([vectors[video.video_id].tolist() for video in videos])
                return SeenVectors([name, digest], vectors, f"the videos by {name}")
    return None


def _find_frame_model(connection: Connection, scorers: Mapping[str, Scorer]) -> int | None:
    """The id of the image-text encoder whose frames a scorer reads; None where none has stored any."""
    sources = (source for scorer in scorers.values() for source in scorer.sources)
    return next((source.model_id(connection) for source in sources if isinstance(source, SampledFrames)), None)


def _load_frame_vectors(engine: Engine, model_id: int, videos: Sequence[TrialVideo]) -> dict[int, Vectors]:
    """The mean over time of the frames' vectors, by the id of every video that has stored frames."""
    means: dict[int, Vectors] = {}
    # The frames of a large dataset do not fit into memory, their means do.
    for ids in split_ids([video.video_id for video in videos], BATCH_SIZE):
        frames = load_frames(engine, model_id, ids)
        means |= {number: stored.features.mean(axis=0) for number, stored in frames.items() if len(stored.features)}
    return means


def _build_vectors(parts: TrialParts, frames: Mapping[int, Vectors] | None) -> _TrialVectors:
    """Build all vectors of a trial.

    Texts get latent vectors, fitted to the training part's texts only: no metric ranks captions by these, so no arm has
    chosen in the student's own space. A video's vector is the mean of its frames' vectors; without frames it is that of
    its references other than the first, which is its clean text. frames: the mean vector by video id; None for
    references.
    """
    texts = parts.captions.texts
    training_texts = [texts[place] for place in parts.training.tolist()]
    encoder = LatentEncoder([*training_texts, *[text for video in parts.train_videos for text in video.references]])
    place = {video.video_id: number for number, video in enumerate(parts.train_videos)}

    def encode_videos(videos: Sequence[TrialVideo]) -> Vectors:
        if frames is None:
            return np.stack([encoder.encode(video.references[1:]).mean(axis=0) for video in videos])
        return np.stack([frames[video.video_id] for video in videos]).astype(np.float32)

    def pair(videos: Sequence[TrialVideo]) -> HeldOutPairs:
        return HeldOutPairs(encoder.encode([video.references[0] for video in videos]), encode_videos(videos))

    return _TrialVectors(
        encoder.encode(texts),
        encode_videos(parts.train_videos),
        np.array([place.get(video_id, -1) for video_id in parts.captions.video_ids.tolist()], dtype=np.int64),
        pair(parts.validation_videos),
        pair(parts.test_videos),
    )
