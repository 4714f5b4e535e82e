"""The frozen vectors that the students of a trial see: of captions, of videos, and of the test videos' clean texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from assets.trial.parts import TrialParts
from metrics_core.arrays import IntArray
from metrics_core.trial.latent import LatentEncoder
from metrics_core.trial.student import Vectors


@dataclass(frozen=True)
class TrialVectors:
    """The vectors of a trial. captions: (n, d) by caption. videos: (m, e), training videos before test videos;
    video_places: the row (n,) of every caption's video, -1 for one that neither trains nor tests. test_texts: (t, d),
    the clean text of every test video.
    """

    captions: Vectors
    videos: Vectors
    video_places: IntArray
    test_texts: Vectors

    @property
    def test_videos(self) -> Vectors:
        """The vectors (t, e) of the test videos, in the order of their clean texts."""
        return self.videos[len(self.videos) - len(self.test_texts) :]


def build_trial_vectors(parts: TrialParts, frames: Mapping[int, Vectors] | None) -> TrialVectors:
    """Build all vectors of a trial.

    Texts get latent vectors, fitted to the training part's texts only: no metric ranks captions by these, so no arm has
    chosen in the student's own space. A video's vector is the mean of its frames' vectors; without frames it is that of
    its references other than the first, which is its clean text. frames: the mean vector by video id; None for
    references.
    """
    texts, known = parts.captions.texts, [*parts.train_videos, *parts.test_videos]
    training_texts = [texts[place] for place in parts.training.tolist()]
    encoder = LatentEncoder([*training_texts, *[text for video in parts.train_videos for text in video.references]])
    place = {video.video_id: number for number, video in enumerate(known)}
    if frames is None:
        video_vectors = np.stack([encoder.encode(video.references[1:]).mean(axis=0) for video in known])
    else:
        video_vectors = np.stack([frames[video.video_id] for video in known]).astype(np.float32)
    return TrialVectors(
        encoder.encode(texts),
        video_vectors,
        np.array([place.get(video_id, -1) for video_id in parts.captions.video_ids.tolist()], dtype=np.int64),
        encoder.encode([video.references[0] for video in parts.test_videos]),
    )
