"""How much noise a score lets into the best part of a dataset (the form of EVQAScore's Table 4)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metrics_core.arrays import BoolArray, FloatArray, number_groups
from metrics_core.intervals import draw_blocks, jackknife_estimate


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
    """The share with its 95 % interval, which leaves out videos with all their items."""
    block = draw_blocks(number_groups(videos), 0)
    left_out = np.array([noise_share(scores, noisy, share, (block != each) / 1.0) for each in np.unique(block)])
    found = jackknife_estimate(noise_share(scores, noisy, share), left_out, bounds=(0.0, 1.0))
    assert found.value is not None
    return found.value, found.low, found.high
