"""What the ECS paper and others report besides the agreement table: rank correlations, Pairwise@gap, and systems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.papers.coefficients import sum_by_video_and_system
from metrics_core.agreement.coefficients import (
    compute_coefficient,
    list_group_pairs,
    require_finite_sides,
    require_group_numbers,
)
from metrics_core.agreement.groupings import DECIMALS
from metrics_core.agreement.pairs import TOLERANCE
from metrics_core.arithmetic import ratio, wilson_interval
from metrics_core.arrays import FloatArray


@dataclass(frozen=True, slots=True)
class Correlation:
    """Rank correlations of n items, in [-1, 1]; None where a side is constant, and for fewer than two items."""

    n: int
    spearman: float | None
    kendall: float | None


@dataclass(frozen=True, slots=True)
class MeanCorrelation:
    """Unweighted means of the groups' correlations: every group counts once, whatever its size.

    n_undefined of the n_groups groups have no correlation and are left out. The means are None where no group has one.
    """

    n_groups: int
    n_undefined: int
    spearman: float | None
    kendall: float | None


def correlation(metric: npt.ArrayLike, people: npt.ArrayLike) -> Correlation:
    """Compute Spearman's rho (mean ranks for ties) and Kendall's tau-b of two sides (n,).

    Only equal numbers are ties, so round numbers that may differ by rounding errors alone. Raises ValueError for shapes
    that differ and for numbers that are not finite.

    >>> coefficients = correlation([1, 2, 3, 4, 5, 5], [1, 3, 2, 4, 4, 6])
    >>> round(coefficients.spearman, 6), round(coefficients.kendall, 6)
    (0.897059, 0.785714)
    """
    left, right = require_finite_sides(metric, people)
    return Correlation(
        left.size, compute_coefficient(left, right, "spearman"), compute_coefficient(left, right, "kendall_b")
    )


def mean_correlation(metric: npt.ArrayLike, people: npt.ArrayLike, groups: Sequence[object]) -> MeanCorrelation:
    """Average `correlation` over the groups.

    groups (n,): the group of every item. With systems as groups, the mean says whether the metric orders the captions
    of one system, where a difference between systems cannot help; with videos, whether it orders the captions of one
    video.

    >>> mean_correlation([1, 2, 9, 8], [1, 2, 3, 4], ["a", "a", "b", "b"]).kendall
    0.0
    """
    left, right = require_finite_sides(metric, people)
    number = require_group_numbers("groups", groups, left.size)
    n_groups = int(number.max(initial=-1)) + 1
    by_group = [correlation(left[number == group], right[number == group]) for group in range(n_groups)]
    spearman = [coefficients.spearman for coefficients in by_group if coefficients.spearman is not None]
    kendall = [coefficients.kendall for coefficients in by_group if coefficients.kendall is not None]
    return MeanCorrelation(n_groups, n_groups - len(kendall), _mean(spearman), _mean(kendall))


@dataclass(frozen=True, slots=True)
class PairwiseAgreement:
    """How often a metric and people prefer the same caption of a pair, where people's scores differ by at least `gap`.

    n_eligible of the n_pairs pairs have such a gap. The metric orders n_agreeing eligible pairs as people do; n_tied
    eligible pairs are tied in the metric, which counts as disagreement. low, high: Wilson interval of the share; None
    without an eligible pair. It assumes independent pairs, so it is too narrow for many systems on few videos.
    """

    gap: float
    n_pairs: int
    n_eligible: int
    n_agreeing: int
    n_tied: int
    low: float | None
    high: float | None

    @property
    def share(self) -> float | None:
        """n_agreeing / n_eligible, in [0, 1]; None without an eligible pair."""
        return ratio(self.n_agreeing, self.n_eligible)


def pairwise_agreement(
    metric: npt.ArrayLike,
    people: npt.ArrayLike,
    clips: Sequence[object],
    gap: float = 0.10,
    *,
    level: float = 0.95,
) -> PairwiseAgreement:
    """Compare every two captions of the same clip (Pairwise@gap of the ECS paper, there with two systems).

    metric, people (n,): the scores of every caption. clips (n,): the clip of every caption. Raises ValueError for a gap
    that is not positive, a level outside (0, 1), shapes that do not fit and numbers that are not finite.

    >>> agreement = pairwise_agreement([0.6, 0.5, 0.5, 0.5], [0.5, 0.4, 0.2, 0.6], ["a", "a", "b", "b"])
    >>> agreement.n_agreeing, agreement.n_tied, agreement.n_eligible
    (1, 1, 2)
    """
    if not gap > TOLERANCE:
        raise ValueError(f"gap is {gap}: give the least difference in people's scores that counts, above 0.")
    left, right = require_finite_sides(metric, people)
    number = require_group_numbers("clips", clips, left.size)
    one, other = list_group_pairs(number)
    metric_gaps, people_gaps = left[one] - left[other], right[one] - right[other]
    eligible = np.abs(people_gaps) >= gap - TOLERANCE
    tied = eligible & (np.abs(metric_gaps) <= TOLERANCE)
    agreeing = eligible & ~tied & (np.sign(metric_gaps) == np.sign(people_gaps))
    n_eligible, n_agreeing = int(eligible.sum()), int(agreeing.sum())
    low, high = wilson_interval(n_agreeing, n_eligible, level)
    return PairwiseAgreement(gap, one.size, n_eligible, n_agreeing, int(tied.sum()), low, high)


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
    left, right = require_finite_sides(metric, people)
    system, clip = (
        require_group_numbers("systems", systems, left.size),
        require_group_numbers("clips", clips, left.size),
    )
    n_systems, n_clips = int(system.max(initial=-1)) + 1, int(clip.max(initial=-1)) + 1
    sums = [sum_by_video_and_system(weights, system, clip) for weights in (left, right, np.ones_like(left))]
    kendall = tau_of(*(by_clip.sum(axis=0) for by_clip in sums))
    if kendall is None:
        return SystemAgreement(n_systems, n_clips, None, None, None, None, level, n_resamples, n_resamples)
    rng = np.random.default_rng(seed)
    drawn = np.stack([np.bincount(rng.integers(n_clips, size=n_clips), minlength=n_clips) for _ in range(n_resamples)])
    resampled = [tau_of(*rows) for rows in zip(*(drawn @ by_clip for by_clip in sums), strict=True)]
    taus = np.array([tau for tau in resampled if tau is not None])
    low = high = None
    if taus.size:
        outside = (1 - level) / 2
        low, high = np.quantile(taus, [outside, 1 - outside], method="inverted_cdf").tolist()
    p_positive = ratio(int((taus > 0).sum()), taus.size)
    n_undefined = n_resamples - taus.size
    return SystemAgreement(n_systems, n_clips, kendall, low, high, p_positive, level, n_resamples, n_undefined)


def tau_of(metric: FloatArray, people: FloatArray, n: FloatArray) -> float | None:
    """Compute tau-b of the systems' means, given their sums of scores and their numbers n of captions.

    It is None where a system has no caption.
    """
    if not n.all():
        return None
    return compute_coefficient(np.round(metric / n, DECIMALS), np.round(people / n, DECIMALS), "kendall_b")


def _mean(values: Sequence[float]) -> float | None:
    """The mean; None without a value."""
    return float(np.mean(values)) if values else None
