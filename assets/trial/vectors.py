"""The frozen vectors of a trial, and its split: which captions train, and which videos test with which clean text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from assets.reports.text import format_count
from db.selection.recipes import SelectionError
from db.selection.trial_rows import FrozenCaption, TrialCaptions, TrialVideo
from metrics_core.arrays import IntArray
from metrics_core.facts.signatures import convert_to_unit_vectors
from metrics_core.trial import is_test_video
from metrics_core.trial.latent import LatentEncoder
from metrics_core.trial.student import Vectors

COPY_SIMILARITY = 0.6
"""A training video whose signature is at least so much like a test video's is left out as its copy."""


@dataclass(frozen=True)
class TrialVectors:
    """The vectors of all captions and videos of a trial, and its two parts.

    captions: (n, d) by caption. videos: (m, e) by video; video_places: the video (n,) of every caption. training: the
    positions of training captions. test_videos: the places in `videos` (t,) of test videos. test_texts: (t, d), the
    clean text of every test video. video_side: "frames" or "references". n_left_out: training videos left out as copies
    of test videos.
    """

    captions: Vectors
    videos: Vectors
    video_places: IntArray
    training: IntArray
    test_videos: IntArray
    test_texts: Vectors
    video_side: str
    n_left_out: int


def build_trial_vectors(
    captions: TrialCaptions, videos: Sequence[TrialVideo], frames: Mapping[int, Vectors] | None
) -> TrialVectors:
    """Split the videos by the hash of their keys, and build all vectors.

    Texts get latent vectors, fitted to the training part's texts only: no metric ranks captions by these, so no arm has
    chosen in the student's own space. A video's vector is the mean of its frames' vectors, or of its references' other
    than the first, which is its clean text. frames: the mean vector by video id; None, or without one of the videos,
    for references. Videos without a vector or a clean text train and test nothing. Raises SelectionError where no video
    has both.
    """
    use_frames = frames is not None and all(video.video_id in frames for video in videos)
    least = 1 if use_frames else 2
    usable = [video for video in videos if len(video.references) >= least]
    test = [video for video in usable if is_test_video(video.key)]
    training = _drop_copies([video for video in usable if not is_test_video(video.key)], test)
    if not test or not training:
        raise SelectionError(
            f"{format_count(len(videos), 'video')} are too few for a trial, or have no "
            f"{'reference' if use_frames else 'second reference'}: add videos with {'one' if use_frames else 'two'}"
        )
    test_texts = {text for video in test for text in video.references}
    train_ids = {video.video_id for video in training}
    positions = [
        position
        for position, (video_id, text) in enumerate(zip(captions.video_ids.tolist(), captions.texts, strict=True))
        if video_id in train_ids and text not in test_texts
    ]
    encoder = LatentEncoder(
        [*[captions.texts[i] for i in positions], *[text for video in training for text in video.references]]
    )
    known = [*training, *test]
    place = {video.video_id: number for number, video in enumerate(known)}
    if use_frames and frames is not None:
        video_vectors = np.stack([frames[video.video_id] for video in known]).astype(np.float32)
    else:
        video_vectors = np.stack([encoder.encode(video.references[1:]).mean(axis=0) for video in known])
    return TrialVectors(
        encoder.encode(captions.texts),
        video_vectors,
        np.array([place.get(video_id, -1) for video_id in captions.video_ids.tolist()], dtype=np.int64),
        np.array(positions, dtype=np.int64),
        np.arange(len(training), len(known)),
        encoder.encode([video.references[0] for video in test]),
        "frames" if use_frames else "references",
        sum(not is_test_video(video.key) for video in usable) - len(training),
    )


def find_frozen_positions(vectors: TrialVectors, captions: TrialCaptions, frozen: Sequence[FrozenCaption]) -> IntArray:
    """Find the positions (n,) of a selection's training captions, in order; rows whose sample is gone are left out."""
    training = set(vectors.training.tolist())
    found = [captions.positions[row.sample_id] for row in frozen if row.sample_id in captions.positions]
    return np.array(sorted(place for place in found if place in training), dtype=np.int64)


def _drop_copies(training: Sequence[TrialVideo], test: Sequence[TrialVideo]) -> list[TrialVideo]:
    """The training videos that are no copy of a test video, by the hash of their file or by their signature."""
    hashes = {video.content_sha256 for video in test} - {None}
    kept = [video for video in training if video.content_sha256 not in hashes]
    signed = [video.signature for video in test if video.signature is not None]
    if not signed:
        return kept
    units = convert_to_unit_vectors(signed)
    return [
        video
        for video in kept
        if video.signature is None
        or float((units @ convert_to_unit_vectors([video.signature])[0]).max()) < COPY_SIMILARITY
    ]
