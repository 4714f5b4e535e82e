"""Soft pairwise accuracy: is a metric as sure as people which of two systems is better (WMT24)?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

from metrics_core.agreement.correlation import both_sides, group_numbers
from metrics_core.agreement.pairwise import TOLERANCE
from metrics_core.agreement.systems import sums_of
from metrics_core.arrays import FloatArray, IntArray

# Up to this many videos all flips of signs are tried.
EXACT = 10


def soft_pairwise_accuracy(
    metric: npt.ArrayLike,
    people: npt.ArrayLike,
    systems: Sequence[object],
    videos: Sequence[object],
    *,
    n_resamples: int = 1000,
    seed: int = 0,
) -> float | None:
    """Compute 1 - mean |p of people - p of the metric| over all pairs of systems, in [0, 1].

    p is the one-sided paired permutation p-value that the first system is better: the share of random flips of the
    signs of the differences on common videos whose sum reaches the sum seen. People and metric share the flips. A
    system's captions of one video are averaged. Pairs of systems without a common video are left out; None without a
    pair. Raises ValueError for shapes that do not fit and numbers that are not finite.

    >>> metric, people = [0.9, 0.4, 0.6, 0.5, 0.5, 0.5], [3, 4, 5, 2, 3, 5]
    >>> soft_pairwise_accuracy(metric, people, ["a"] * 3 + ["b"] * 3, [1, 2, 3] * 2)
    0.875
    """
    left, right = both_sides(metric, people)
    system, video = group_numbers("systems", systems, left.size), group_numbers("videos", videos, left.size)
    return soft_accuracy_of(left, right, system, video, n_resamples, seed)


def soft_accuracy_of(
    metric: FloatArray, people: FloatArray, system: IntArray, video: IntArray, n_resamples: int, seed: int
) -> float | None:
    """Compute `soft_pairwise_accuracy` of checked sides and numbered groups."""
    sums = [sums_of(each, system, video) for each in (metric, people, np.ones(metric.size))]
    with np.errstate(invalid="ignore"):
        means = [each / sums[2] for each in sums[:2]]
    one, other = np.array(list(combinations(range(sums[2].shape[1]), 2)), dtype=np.int64).reshape(-1, 2).T
    differences = [side[:, one] - side[:, other] for side in means]
    common = np.isfinite(differences[0]).any(axis=0)
    if not common.any():
        return None
    signs = flips(sums[2].shape[0], n_resamples, seed)
    p_metric, p_people = (p_values(np.nan_to_num(each[:, common]), signs) for each in differences)
    return float(1 - np.abs(p_people - p_metric).mean())


def flips(n: int, n_resamples: int, seed: int) -> FloatArray:
    """Signs of n differences, 1 or -1: all flips (2^n, n) of few, else random ones and the signs as seen."""
    if n <= EXACT:
        return np.where(np.arange(2**n)[:, None] >> np.arange(n) & 1, -1.0, 1.0)
    signs = np.where(np.random.default_rng(seed).random((n_resamples, n)) < 0.5, -1.0, 1.0)
    # The signs as seen are one of the flips, so that no p-value is 0.
    signs[0] = 1
    return signs


def p_values(differences: FloatArray, signs: FloatArray) -> FloatArray:
    """The share of flips whose sum of differences (videos, pairs) reaches the sum seen: (pairs,)."""
    seen = differences.sum(axis=0)
    p: FloatArray = (signs @ differences >= seen - TOLERANCE * np.abs(differences).sum(axis=0)).mean(axis=0)
    return p
