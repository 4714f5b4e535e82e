"""Whether one arm of a trial trains better than another: paired differences, with intervals over seeds and videos."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

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
    leaves it open, and where the measure is known in total only.
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
    return {
        name: _conclude(replace(each, p=p), arm.shape[1])
        for (name, each), p in zip(found.items(), corrected, strict=True)
    }


def compute_detectable_difference(random_arm: FloatArray) -> float:
    """Compute the least difference that a trial finds in 80 % of cases, from an arm that is drawn anew for every seed.

    random_arm: a measure by seed and test video (seeds, videos), as in `compare_arms`. Two seeds differ by nothing but
    draw, first weights and batches: how much they do is the noise that a difference has to exceed.
    """
    from scipy.special import stdtrit

    _require_sizes(random_arm)
    error, freedom = _compute_error(random_arm - np.roll(random_arm, 1, axis=0))
    return float(stdtrit(freedom, 1 - LEVEL / 2) + stdtrit(freedom, POWER)) * error


def _estimate(arm: FloatArray, other: FloatArray) -> ArmDifference:
    from scipy.special import stdtr, stdtrit

    if arm.shape != other.shape:
        raise ValueError(f"the arms have the shapes {arm.shape} and {other.shape}: give (seeds, videos) of both.")
    _require_sizes(arm)
    mean = float((arm - other).mean())
    error, freedom = _compute_error(arm - other)
    if error == 0:
        return ArmDifference(mean, mean, mean, 1.0 if mean == 0 else 0.0)
    half = float(stdtrit(freedom, 1 - LEVEL / 2)) * error
    return ArmDifference(mean, mean - half, mean + half, 2 * float(stdtr(freedom, -abs(mean) / error)))


def _require_sizes(arm: FloatArray) -> None:
    if arm.ndim != 2 or arm.shape[0] < 2 or not arm.shape[1]:
        raise ValueError(f"an arm has the shape {arm.shape}: give (seeds, videos) of two or more seeds.")


def _compute_error(differences: FloatArray) -> tuple[float, float]:
    """The standard error of the mean of differences (seeds, videos), and its degrees of freedom.

    Seeds and videos are both drawn at random, so both vary the mean: the analysis of variance of the crossed design
    gives both parts, and Satterthwaite's formula (1946) the degrees of freedom of their sum. Resampling seeds
    and videos calls 13 to 15 % of equal arms different where there are five seeds and they matter most, this 4 to 5 %.
    """
    n_seeds, n_videos = differences.shape
    if n_videos == 1:
        return float(differences.std(ddof=1)) / math.sqrt(n_seeds), n_seeds - 1.0
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
        return 0.0, 1.0
    return math.sqrt(variance), float(variance**2 / (squares**2 / freedoms).sum())


def _conclude(difference: ArmDifference, n_videos: int) -> ArmDifference:
    """The difference with its conclusion: above or below 0 after correction, negligible, or open."""
    low, high = difference.low, difference.high
    if difference.p < LEVEL and (low > 0 or high < 0):
        return replace(difference, conclusion="better" if difference.value > 0 else "worse")
    if max(abs(low), abs(high)) <= NEGLIGIBLE:
        return replace(difference, conclusion="no difference")
    if low > 0 or high < 0 or n_videos == 1:
        return difference
    # The interval shrinks with the root of the videos, until it excludes 0 or what is not negligible.
    aim = max(abs(difference.value), NEGLIGIBLE - abs(difference.value), NEGLIGIBLE / 3)
    factor = ((high - low) / 2 / aim) ** 2
    return replace(difference, n_more_videos=max(1, math.ceil(n_videos * (factor - 1))))
