"""Agreement over systems: does the metric rank systems as people do, and how much does that depend on the videos?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metrics_core.agreement.correlation import both_sides, group_numbers, kendall_of
from metrics_core.arithmetic import ratio
from metrics_core.arrays import FloatArray, IntArray
from metrics_core.calibration.intervals import limits

DECIMALS = 9
"""Means are rounded to so many digits, so that equal means stay tied when captions are added in another order."""


@dataclass(frozen=True, slots=True)
class SystemAgreement:
    """Kendall's tau-b of the systems' mean scores, in [-1, 1], with a percentile bootstrap interval over clips.

    kendall, low, high and p_positive are None for fewer than two systems and where all systems are tied on a side.
    n_undefined of the n_resamples resamples have no tau, or a system without a clip, and are left out. p_positive: the
    share of the other resamples whose tau is above 0. With two systems tau can only be 1 or -1, and p_positive
    tells how surely one of them is better.
    """

    n_systems: int
    n_clips: int
    kendall: float | None
    low: float | None
    high: float | None
    p_positive: float | None
    level: float
    n_resamples: int
    n_undefined: int


def system_agreement(
    metric: npt.ArrayLike,
    people: npt.ArrayLike,
    systems: Sequence[object],
    clips: Sequence[object],
    *,
    level: float = 0.95,
    n_resamples: int = 1000,
    seed: int = 0,
) -> SystemAgreement:
    """Compare the systems' unweighted means over their captions.

    metric, people (n,): the scores of every caption. systems, clips (n,): the system and the clip of every caption. The
    bootstrap draws clips with replacement, and a drawn clip brings the captions of all systems. Raises ValueError for
    shapes that do not fit, numbers that are not finite, a level outside (0, 1) and fewer than 1 resample.

    >>> agreement = system_agreement([0.9, 0.2, 0.8, 0.3], [1, 0, 1, 0.5], ["a", "b", "a", "b"], [1, 1, 2, 2])
    >>> agreement.kendall, agreement.low, agreement.high, agreement.p_positive
    (1.0, 1.0, 1.0, 1.0)
    """
    if not 0 < level < 1 or n_resamples < 1:
        raise ValueError(f"level is {level}, n_resamples {n_resamples}: give a level inside (0, 1) and 1 or more.")
    left, right = both_sides(metric, people)
    system, clip = group_numbers("systems", systems, left.size), group_numbers("clips", clips, left.size)
    n_systems, n_clips = int(system.max(initial=-1)) + 1, int(clip.max(initial=-1)) + 1
    sums = [sums_of(weights, system, clip) for weights in (left, right, np.ones_like(left))]
    kendall = tau_of(*(by_clip.sum(axis=0) for by_clip in sums))
    if kendall is None:
        return SystemAgreement(n_systems, n_clips, None, None, None, None, level, n_resamples, n_resamples)
    rng = np.random.default_rng(seed)
    drawn = np.stack([np.bincount(rng.integers(n_clips, size=n_clips), minlength=n_clips) for _ in range(n_resamples)])
    resampled = [tau_of(*rows) for rows in zip(*(drawn @ by_clip for by_clip in sums), strict=True)]
    taus = np.array([tau for tau in resampled if tau is not None])
    low, high = limits(taus, level)
    p_positive = ratio(int((taus > 0).sum()), taus.size)
    n_undefined = n_resamples - taus.size
    return SystemAgreement(n_systems, n_clips, kendall, low, high, p_positive, level, n_resamples, n_undefined)


def sums_of(weights: FloatArray, system: IntArray, clip: IntArray) -> FloatArray:
    """Sum weights (n,) by clip and system: (clips, systems)."""
    sums = np.zeros((int(clip.max(initial=-1)) + 1, int(system.max(initial=-1)) + 1))
    np.add.at(sums, (clip, system), weights)
    return sums


def tau_of(metric: FloatArray, people: FloatArray, n: FloatArray) -> float | None:
    """Compute tau-b of the systems' means, given their sums of scores and their numbers n of captions.

    It is None where a system has no caption.
    """
    if not n.all():
        return None
    return kendall_of(np.round(metric / n, DECIMALS), np.round(people / n, DECIMALS))
