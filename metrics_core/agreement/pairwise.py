"""Pairwise agreement: does the metric prefer the same one of two captions as people do?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metrics_core.agreement.correlation import both_sides, group_numbers
from metrics_core.arithmetic import ratio, wilson_interval
from metrics_core.arrays import IntArray

TOLERANCE = 1e-9
"""Smaller differences are rounding errors: 0.5 - 0.4 counts as a gap of 0.1, and 0.1 + 0.2 is tied with 0.3."""


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
    left, right = both_sides(metric, people)
    number = group_numbers("clips", clips, left.size)
    one, other = pairs_inside(number)
    metric_gaps, people_gaps = left[one] - left[other], right[one] - right[other]
    eligible = np.abs(people_gaps) >= gap - TOLERANCE
    tied = eligible & (np.abs(metric_gaps) <= TOLERANCE)
    agreeing = eligible & ~tied & (np.sign(metric_gaps) == np.sign(people_gaps))
    n_eligible, n_agreeing = int(eligible.sum()), int(agreeing.sum())
    low, high = wilson_interval(n_agreeing, n_eligible, level)
    return PairwiseAgreement(gap, one.size, n_eligible, n_agreeing, int(tied.sum()), low, high)


def pairs_inside(group: IntArray) -> tuple[IntArray, IntArray]:
    """Return the positions of the first and of the second item of every pair of items in the same group (n,).

    Groups are numbered from 0.

    >>> [rows.tolist() for rows in pairs_inside(np.array([0, 1, 0, 1, 0]))]
    [[0, 0, 2, 1], [2, 4, 4, 3]]
    """
    order = np.argsort(group, kind="stable")
    sizes = np.diff(np.flatnonzero(np.diff(group[order], prepend=-1, append=-1)))
    # Each item in order is the first of as many pairs as items of its group follow it.
    followers = np.repeat(np.cumsum(sizes), sizes) - np.arange(group.size) - 1
    first = np.repeat(np.arange(group.size), followers)
    second = first + 1 + np.arange(first.size) - np.repeat(np.cumsum(followers) - followers, followers)
    return order[first], order[second]
