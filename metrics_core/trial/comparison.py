"""Whether one arm of a trial trains better than another: paired differences, with intervals over seeds and videos."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from metrics_core.arithmetic import correct_p_values
from metrics_core.arrays import FloatArray

NEGLIGIBLE = 0.03
"""A difference of mean reciprocal ranks up to this makes no difference for a training set."""
LEVEL = 0.05
"""The chance that equal arms are called different."""
POWER = 0.8
"""The chance that a trial finds a difference that it calls detectable."""

Conclusion = Literal["better", "worse", "no difference", "open"]


@dataclass(frozen=True, slots=True)
class ArmDifference:
    """By how much an arm is above another one in the mean over seeds and test videos, and what follows from it.

    low, high: the limits of the 95 % interval. p: two-sided, corrected for the other comparisons by Holm's steps.
    n_more_videos: how many more test videos an open comparison would take; 0 for the others, where only the correction
    leaves it open, and where seeds vary too much for any number of videos.
    """

    value: float
    low: float
    high: float
    p: float
    conclusion: Conclusion = "open"
    n_more_videos: int = 0


def compare_arms(arm: FloatArray, others: Mapping[str, FloatArray]) -> dict[str, ArmDifference]:
    """Compare an arm with every other one, by the other arm's name.

    arm, others: a measure such as the reciprocal rank by seed and test video (seeds, videos), of the same seeds and
    videos in the same order; two seeds or more. A measure that is known in total only has one column: then chance is
    that of the seeds. Raises ValueError for other shapes.

    >>> rng = np.random.default_rng(0)
    >>> arm = rng.uniform(0.3, 0.5, (5, 200))
    >>> found = compare_arms(arm + 0.1, {"random": arm, "all": arm + 0.1})
    >>> found["random"].conclusion, found["all"].conclusion
    ('better', 'no difference')
    """
    found = {name: _estimate(arm, other) for name, other in others.items()}
    corrected = correct_p_values([each.p for each in found.values()])
    return {name: _conclude(replace(each, p=p)) for (name, each), p in zip(found.items(), corrected, strict=True)}


def compute_detectable_difference(arm: FloatArray, random_arm: FloatArray) -> float:
    """Compute the smallest difference that a single comparison finds in 80 % of cases, from the spread of the
    difference between an arm and one that is drawn anew for every seed.

    arm, random_arm: a measure by seed and test video (seeds, videos), as in `compare_arms`.
    """
    from scipy.special import stdtrit

    _require_same_shape(arm, random_arm)
    variance = _compute_variance(arm - random_arm)
    return float(stdtrit(variance.freedom, 1 - LEVEL / 2) + stdtrit(variance.freedom, POWER)) * variance.error


def _estimate(arm: FloatArray, other: FloatArray) -> ArmDifference:
    from scipy.special import stdtr, stdtrit

    _require_same_shape(arm, other)
    mean = float((arm - other).mean())
    variance = _compute_variance(arm - other)
    if variance.error == 0:
        return ArmDifference(mean, mean, mean, 1.0 if mean == 0 else 0.0)
    half = float(stdtrit(variance.freedom, 1 - LEVEL / 2)) * variance.error
    p = 2 * float(stdtr(variance.freedom, -abs(mean) / variance.error))
    more = _count_more_videos(mean, half, variance, arm.shape[1])
    return ArmDifference(mean, mean - half, mean + half, p, n_more_videos=more)


def _require_same_shape(arm: FloatArray, other: FloatArray) -> None:
    if arm.shape != other.shape:
        raise ValueError(f"the arms have the shapes {arm.shape} and {other.shape}: give (seeds, videos) of both.")
    if arm.ndim != 2 or arm.shape[0] < 2 or not arm.shape[1]:
        raise ValueError(f"an arm has the shape {arm.shape}: give (seeds, videos) of two or more seeds.")


class _Variance(NamedTuple):
    """The variance of a mean of differences: its standard error, its degrees of freedom, and the part of it that more
    seeds would lower but more videos would not.
    """

    error: float
    freedom: float
    of_seeds: float


def _compute_variance(differences: FloatArray) -> _Variance:
    """The variance of the mean of differences (seeds, videos).

    Seeds and videos are both drawn at random, so both vary the mean: the analysis of variance of the crossed design
    gives both parts, and Satterthwaite's formula (1946) the degrees of freedom of their sum. Resampling seeds
    and videos calls 13 to 15 % of equal arms different where there are five seeds and they matter most, this 4 to 5 %.
    """
    n_seeds, n_videos = differences.shape
    if n_videos == 1:
        error = float(differences.std(ddof=1)) / math.sqrt(n_seeds)
        return _Variance(error, n_seeds - 1.0, error**2)
    of_seeds, of_videos, mean = differences.mean(axis=1), differences.mean(axis=0), differences.mean()
    residual = differences - of_seeds[:, None] - of_videos[None, :] + mean
    freedoms = np.array([n_seeds - 1, n_videos - 1, (n_seeds - 1) * (n_videos - 1)], dtype=np.float64)
    squares = np.array(
        [
            of_seeds.var(ddof=1) / n_seeds,
            of_videos.var(ddof=1) / n_videos,
            (residual**2).sum() / freedoms[2] / (n_seeds * n_videos),
        ]
    )
    # The residual's part is in both others, and chance must not make the whole less than one of them.
    variance = float(max(squares[0] + squares[1] - squares[2], squares[0], squares[1]))
    if variance == 0:
        return _Variance(0.0, 1.0, 0.0)
    freedom = float(variance**2 / (squares**2 / freedoms).sum())
    return _Variance(math.sqrt(variance), freedom, max(0.0, float(squares[0] - squares[2])))


def _count_more_videos(value: float, half: float, variance: _Variance, n_videos: int) -> int:
    """How many more videos would make the interval exclude 0 or what is not negligible; 0 where no number would."""
    aim = max(abs(value), NEGLIGIBLE - abs(value), NEGLIGIBLE / 3)
    wanted = (variance.error * aim / half) ** 2 - variance.of_seeds
    if n_videos == 1 or wanted <= 0:
        return 0
    of_videos = variance.error**2 - variance.of_seeds
    return max(1, math.ceil(n_videos * (of_videos / wanted - 1)))


def _conclude(difference: ArmDifference) -> ArmDifference:
    """The difference with its conclusion: above or below 0 after correction, negligible, or open."""
    low, high = difference.low, difference.high
    if difference.p < LEVEL and (low > 0 or high < 0):
        return replace(difference, conclusion="better" if difference.value > 0 else "worse", n_more_videos=0)
    if max(abs(low), abs(high)) <= NEGLIGIBLE:
        return replace(difference, conclusion="no difference", n_more_videos=0)
    return replace(difference, n_more_videos=0) if low > 0 or high < 0 else difference
