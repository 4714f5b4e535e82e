"""Checks of single raters: too few shared items, far from all other raters, or answers in a pattern."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from metrics_core.agreement.baseline_comparison import compute_ceiling
from metrics_core.agreement.coefficients import KENDALL, compute_coefficient
from metrics_core.agreement.groupings import compute_pooled
from metrics_core.agreement.inputs import AgreementInputs, build_inputs
from metrics_core.agreement.raters import (
    RaterAndOthers,
    list_ceiling_raters,
    list_most_active_raters,
    mark_ceiling_raters,
    split_rater,
)
from metrics_core.arithmetic import correct_defined_p_values
from metrics_core.arrays import FloatArray
from metrics_core.intervals import Estimate, jackknife_p_value

# A rater is far from the others where their coefficient is below this share of the others' coefficient without them.
_FAR_SHARE = 0.5
_MAX_P_VALUE = 0.05


@dataclass(frozen=True, slots=True)
class RaterCheck:
    """Agreement of one rater of an aspect with the others. n_shared: items that another rater has rated, too.
    is_counted: whether the rater counts in the human ceiling. coefficient: tau-b with the others' mean;
    ceiling_without_rater: the others' ceiling. is_far: agrees less than half as well as the others, by more than
    chance.

    Others are raters who count, see `mark_ceiling_raters`. coefficient and ceiling_without_rater are None for a rater
    who does not count or is none of the MOST_RATERS most active.
    """

    n_shared: int
    is_counted: bool
    coefficient: Estimate | None = None
    ceiling_without_rater: float | None = None
    is_far: bool = False


def compare_raters(ratings: npt.ArrayLike, videos: Sequence[object], *, seed: int = 0) -> tuple[RaterCheck, ...]:
    """Compare every rater of one aspect with the others: a RaterCheck for each column of the ratings (items, raters),
    in their order. videos: (items,), the video of every item. Whether a rater is far from the others is corrected by
    Holm for the number of checked raters. Raises ValueError as `compute_agreement_rows` does.

    With two raters nobody knows which one is far, so neither is.

    >>> ratings = np.stack([np.arange(40) % 5, np.arange(40) % 5, np.where(np.arange(40) < 9, 1, np.nan)], axis=1)
    >>> [(check.n_shared, check.is_counted) for check in compare_raters(ratings, range(40))]
    [(40, True), (40, True), (9, False)]
    """
    inputs = build_inputs({}, {KENDALL: ratings}, videos, seed=seed)
    rated = inputs.ratings[KENDALL]
    given, counts = ~np.isnan(rated), mark_ceiling_raters(rated)
    shared = (given & (given.sum(axis=1, keepdims=True) > 1)).sum(axis=0).tolist()
    checks = [RaterCheck(n, is_in) for n, is_in in zip(shared, counts.tolist(), strict=True)]
    counted_raters = np.flatnonzero(counts)
    chances: dict[int, float | None] = {}
    for place in list_most_active_raters(rated[:, counts]).tolist():
        rater = int(counted_raters[place])
        checks[rater], chances[rater] = _complete_check(inputs, rated[:, counts], place, checks[rater])
    for rater, p in zip(chances, correct_defined_p_values([*chances.values()]), strict=True):
        checks[rater] = replace(checks[rater], is_far=p is not None and p <= _MAX_P_VALUE)
    return tuple(checks)


def compute_human_ceiling(ratings: npt.ArrayLike, videos: Sequence[object], *, seed: int = 0) -> Estimate | None:
    """Compute the human ceiling of the ratings (items, raters) of one aspect, with its interval; None where no rater
    counts. videos: (items,), the video of every item. Raises ValueError as `compute_agreement_rows` does.

    >>> round(compute_human_ceiling(np.stack([np.arange(40) % 5] * 3, axis=1), range(40)).value, 6)
    1.0
    """
    inputs = build_inputs({}, {KENDALL: ratings}, videos, seed=seed)
    statistics = compute_ceiling(inputs, list_ceiling_raters(inputs.ratings[KENDALL]))
    if statistics is None:
        return None
    return statistics.compute_estimate(KENDALL)


def _complete_check(
    inputs: AgreementInputs, counted: FloatArray, rater: int, check: RaterCheck
) -> tuple[RaterCheck, float | None]:
    """Complete the check of a rater who counts, and return the p-value of the distance from the others.

    It is 1 for a rater who is not that far, and None for a rater with only one other.
    """
    rater_sides, others = split_rater(counted, rater), list_ceiling_raters(np.delete(counted, rater, axis=1))
    statistics = compute_pooled(
        inputs.select_items(rater_sides.ratings, rater_sides.other_means, rater_sides.is_shared), (KENDALL,)
    )
    estimate = statistics.compute_estimate(KENDALL)
    ceiling = _compute_ceiling_value(others)
    check = replace(check, coefficient=estimate, ceiling_without_rater=ceiling)
    if estimate.value is None or ceiling is None:
        return check, None
    if estimate.value >= _FAR_SHARE * ceiling:
        return check, 1.0
    ceiling_statistics = compute_ceiling(inputs, others)
    return check, jackknife_p_value(*statistics.subtract(ceiling_statistics, KENDALL)) if ceiling_statistics else None


def _compute_ceiling_value(counted: Sequence[RaterAndOthers]) -> float | None:
    """Compute the value of `compute_ceiling`, without its interval."""
    taus = [
        compute_coefficient(rater.ratings[rater.is_shared], rater.other_means[rater.is_shared], KENDALL)
        for rater in counted
    ]
    known = [(tau, rater.n_shared) for tau, rater in zip(taus, counted, strict=True) if tau is not None]
    return float(np.average([tau for tau, _ in known], weights=[n for _, n in known])) if known else None


# A stretch of answers that chance gives less often than this is a pattern.
_PATTERN_CHANCE = 0.001
_LONGEST_CYCLE = 10
# The lowest chance with which an answer is taken to repeat an earlier one, as a fair coin does.
_LEAST_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class AnswerPattern:
    """A stretch of n consecutive answers of a rater that repeats `cycle`, one or several answers. n_answers: how many
    answers the rater gave in all.
    """

    cycle: tuple[float, ...]
    n: int
    n_answers: int


def find_pattern(answers: Sequence[float], share: float) -> AnswerPattern | None:
    """Find the longest stretch of a rater's answers, in the order given, that repeats a cycle of up to 10 answers. None
    where chance gives such a stretch to 1 of 1,000 raters or more. share: that of the commonest answer among other
    raters' answers, 0 without any: the chance of a repeat, but at least 0.5 is assumed.

    >>> find_pattern([3, 1, *[1, 2, 3, 4, 5] * 5], 0.4)
    AnswerPattern(cycle=(1, 2, 3, 4, 5), n=25, n_answers=27)
    """
    given, likely = np.asarray(answers, dtype=np.float64), max(share, _LEAST_SHARE)
    best: tuple[int, int, int] | None = None
    for length in range(1, min(_LONGEST_CYCLE, given.size - 1) + 1):
        begin, n_alike = _longest_run(given[length:] == given[:-length])
        # Of stretches equally long the shortest cycle counts.
        if best is None or n_alike + length > best[1]:
            best = begin, n_alike + length, length
    if best is None:
        return None
    begin, n, length = best
    # Any of the answers may begin the stretch, and any cycle may be the one.
    if given.size * _LONGEST_CYCLE * likely ** (n - length) >= _PATTERN_CHANCE:
        return None
    return AnswerPattern(tuple(answers[begin : begin + length]), n, given.size)


def _longest_run(flags: npt.NDArray[np.bool_]) -> tuple[int, int]:
    """Find the first longest run of True: its position and length, (0, 0) without one."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    begins, ends = edges[::2], edges[1::2]
    if not begins.size:
        return 0, 0
    longest = int(np.argmax(ends - begins))
    return int(begins[longest]), int(ends[longest] - begins[longest])
