"""The frozen vectors that the students of a trial see: of captions, of videos, and of held-out videos' clean texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from assets.trial.parts import TrialParts
from db.selection.trial_rows import TrialVideo
from metrics_core.arrays import IntArray
from metrics_core.trial import HeldOutPairs
from metrics_core.trial.latent import LatentEncoder
from metrics_core.trial.student import Vectors


@dataclass(frozen=True)
class TrialVectors:
    """The vectors of a trial. captions: (n, d) by caption. videos: (m, e), of the training videos; video_places: the
    row (n,) of every caption's video, -1 for one that does not train. validation, test: the held-out videos.
    """

    captions: Vectors
    videos: Vectors
    video_places: IntArray
    validation: HeldOutPairs
    test: HeldOutPairs


def build_trial_vectors(parts: TrialParts, frames: Mapping[int, Vectors] | None) -> TrialVectors:
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

    return TrialVectors(
        encoder.encode(texts),
        encode_videos(parts.train_videos),
        np.array([place.get(video_id, -1) for video_id in parts.captions.video_ids.tolist()], dtype=np.int64),
        pair(parts.validation_videos),
        pair(parts.test_videos),
    )
