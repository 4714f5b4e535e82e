"""Planted noise: captions of other videos, swapped in at a known share, which a trial must find."""

from __future__ import annotations

import numpy as np

from metrics_core.arrays import IntArray


def plant_noise(videos: IntArray, share: float, seed: int) -> IntArray:
    """Return for every caption (n,) the position of the one whose text it gets: a share get one of another video.

    videos: (n,), the video of every caption. Chosen captions trade their texts in a circle, so no text is lost or
    doubled; where one video has more than half of the chosen captions, some of its captions keep their texts.
    Raises ValueError for a share outside [0, 1].

    >>> plant_noise(np.array([0, 1, 2, 3]), 0.5, seed=1).tolist()
    [1, 0, 2, 3]
    """
    if not 0 <= share <= 1:
        raise ValueError(f"share is {share}: give the share of captions to swap, from 0 to 1.")
    rng = np.random.default_rng(seed)
    source = np.arange(len(videos))
    chosen = rng.permutation(len(videos))[: round(share * len(videos))]
    # Sorted by video and shifted by the largest number of captions of a video, no caption meets its own video, unless
    # one video has more than half of them: what it has too much keeps its texts.
    chosen = chosen[np.argsort(videos[chosen], kind="stable")]
    values, counts = np.unique(videos[chosen], return_counts=True)
    if len(chosen):
        surplus = max(0, 2 * int(counts.max()) - len(chosen))
        chosen = np.delete(chosen, np.flatnonzero(videos[chosen] == values[counts.argmax()])[:surplus])
        largest = min(int(counts.max()), len(chosen) // 2)
        source[chosen] = np.roll(chosen, largest)
    return source
