"""Bootstrap resamples of videos, or of videos and systems: how often each was drawn, and the percentile interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from metrics_core.arrays import FloatArray, IntArray
from metrics_core.calibration.intervals import limits

Resampled = Literal["videos", "videos and systems"]
"""What a resample draws with replacement.

Captions of one video resemble each other, so a drawn video brings all its captions. "videos and systems" also draws
the systems (Deutsch et al. 2021): the interval then covers other systems, too.
"""


@dataclass(frozen=True)
class Draws:
    """How often each resample drew each video, (resamples, videos), and each system, (resamples, systems) or None."""

    videos: FloatArray
    systems: FloatArray | None
    seed: int

    @property
    def n(self) -> int:
        """The number of resamples."""
        return int(self.videos.shape[0])


@dataclass(frozen=True, slots=True)
class Interval:
    """A percentile interval; its limits are values that occurred, None without any.

    n_undefined: resamples without a value, which are left out.
    """

    low: float | None
    high: float | None
    n_undefined: int


def draw(n_videos: int, n_systems: int, resampled: Resampled, n_resamples: int, seed: int) -> Draws:
    """Draw as many videos as there are with replacement, and systems alike where they are resampled.

    A single video would always be drawn, so it has no resamples. The resamples of videos are the same with and without
    systems.
    """
    n_resamples = n_resamples if n_videos > 1 else 0
    videos = drawn(n_videos, n_resamples, np.random.default_rng([seed, 0]))
    systems = None
    if resampled == "videos and systems":
        systems = drawn(n_systems, n_resamples, np.random.default_rng([seed, 1]))
    return Draws(videos, systems, seed)


def drawn(n: int, n_resamples: int, rng: np.random.Generator) -> FloatArray:
    """Count how often each of n things is drawn in n draws, for every resample: (resamples, n)."""
    if n == 0:
        return np.zeros((n_resamples, 0))
    return rng.multinomial(n, np.full(n, 1 / n), size=n_resamples).astype(np.float64)


def interval(resampled: FloatArray, level: float) -> Interval:
    """Return the limits of the middle `level` of the resampled values (resamples,), where NaN is undefined."""
    values: FloatArray = resampled[np.isfinite(resampled)]
    return Interval(*limits(values, level), resampled.size - values.size)


def dense_ranks(values: FloatArray | IntArray) -> IntArray:
    """Number the different values from 0 in ascending order.

    >>> dense_ranks(np.array([0.5, 0.1, 0.5])).tolist()
    [1, 0, 1]
    """
    number: IntArray = np.unique(values, return_inverse=True)[1].astype(np.int64)
    return number
