"""How much noise a score lets into the best part of a dataset (the form of EVQAScore's Table 4)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metrics_core.agreement.resampling import draw, interval
from metrics_core.arrays import BoolArray, FloatArray, numbered

RESAMPLES = 1000


def noise_share(scores: FloatArray, noisy: BoolArray, share: float, weights: FloatArray | None = None) -> float:
    """The share of noisy items among the best `share` of the items; of equal scores as many as there is room for.

    weights (n,): how often each item counts. Items tied at the end of the best part are taken in equal parts, the mean
    over all orders of them. NaN without an item.

    >>> noise_share(np.array([4.0, 3, 3, 1]), np.array([False, True, False, True]), 0.5)
    0.25
    """
    counts = np.ones(scores.size) if weights is None else weights
    room = share * counts.sum()
    if room <= 0:
        return float("nan")
    levels, number = np.unique(-scores, return_inverse=True)
    size = np.bincount(number, counts, levels.size)
    taken = np.clip(room - (size.cumsum() - size), 0, size)
    with np.errstate(invalid="ignore"):
        noise = np.where(size > 0, np.bincount(number, counts * noisy, levels.size) / size, 0)
    return float((taken * noise).sum() / room)


def noise_with_interval(
    scores: FloatArray, noisy: BoolArray, share: float, videos: Sequence[object]
) -> tuple[float, float | None, float | None]:
    """The share with its 95 % percentile interval; every resample draws videos with all their items."""
    video = numbered(videos)
    draws = draw(int(video.max()) + 1, 0, "videos", RESAMPLES, 0)
    resampled = np.array([noise_share(scores, noisy, share, row[video]) for row in draws.videos])
    limits = interval(resampled, 0.95)
    return noise_share(scores, noisy, share), limits.low, limits.high
