"""The mean of an expensive value over all items, from a random part for which it is known and a cheap value of all.

The difference estimator: the mean of b f over all N items, and the mean of y - b f over the n items of the part. The
slope b is fitted on one half of the part and used on the other, so a cheap value that is useless, or runs the other
way, gets a slope near 0 or below. The randomness is only that of the draw: items are a simple random sample without
replacement, their values are fixed numbers, and items may resemble each other as much as captions of one video do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metrics_core.arrays import FloatArray
from metrics_core.intervals import LEVEL

FEWEST_ANSWERS = 10
"""The smallest number of answers for an interval."""
FEWEST_OTHERS = 15
"""Where fewer answers than this have another value than the most frequent one, or are clearly off what the cheap value
says of most of them, their mean is not corrected."""
BOOTSTRAP_BELOW = 200
"""With fewer answers, the interval is by a studentised bootstrap."""
FEW_ANSWERS = 30
"""With fewer answers, the interval has quantiles of WIDE_LEVEL (.98): with those of .95 it held the mean too seldom."""
WIDE_LEVEL = 0.98
_RESAMPLES = 999
# Residuals that differ by less are equal but for rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class MeanEstimate:
    """The mean of a value over all `size` items, estimated from `n` of them, with its interval from `low` to `high`,
    None below FEWEST_ANSWERS (10) answers. slope: that of the cheap value, 0 without one. plain: the mean over the
    answers; gain: how many times as many answers it would need for as narrow an interval, None where undefined.

    `spread` is the standard deviation of what the cheap value leaves open, for `count_further_answers`; None where the
    interval is not by it.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int
    size: int
    slope: float
    plain: float | None
    gain: float | None
    spread: float | None


def estimate_mean(
    expensive: npt.ArrayLike,
    cheap: npt.ArrayLike | None = None,
    cheap_mean: float | None = None,
    *,
    size: int,
    seed: int = 0,
) -> MeanEstimate:
    """Estimate the mean of an expensive value over all `size` items from a simple random sample of n, corrected by a
    cheap value; the plain mean without one. expensive, cheap: (n,), finite; cheap_mean: over all items. seed: decides
    how the sample is halved, and the bootstrap. Raises ValueError for arrays that do not fit, and for more answers than
    items.

    The interval is by Student's t on n - 1 degrees of freedom, by a studentised bootstrap below BOOTSTRAP_BELOW (200)
    answers, with quantiles of 98 % in place of 95 % below FEW_ANSWERS (30), or by Clopper and Pearson's, without
    correction, where fewer than FEWEST_OTHERS (15) answers differ from the most frequent value, as few errors among
    many zeros do, and that value is the lowest or the highest and that of two thirds of the answers. The mean is not
    corrected either where the cheap value fits all answers but fewer than FEWEST_OTHERS: too few show how far it is
    off. A cheap value that fits all answers, most of which differ, leaves no width. Where all items are asked, their
    mean is the value.

    >>> y = np.arange(40) / 10
    >>> round(estimate_mean(y, y, 1.4, size=1000).value, 9), estimate_mean(y, size=1000).value
    (1.4, 1.95)
    """
    values = np.asarray(expensive, dtype=np.float64)
    n = values.size
    if n > size:
        raise ValueError(f"{n} answers about {size} items: give the number of all items as size.")
    helper = np.zeros(n) if cheap is None or cheap_mean is None else np.asarray(cheap, dtype=np.float64) - cheap_mean
    if helper.shape != values.shape:
        raise ValueError(f"{n} values and {helper.size} cheap values: give both for the same items.")
    if n == 0:
        return MeanEstimate(None, None, None, 0, size, 0.0, None, None, None)
    plain = float(values.mean())
    slopes = _fit_crossed_slopes(values, helper, seed) if n < size else np.zeros(n)
    residuals = values - slopes * helper
    n_others = _count_others(values)
    is_exact = float(np.ptp(residuals)) < _ROUNDING and 2 * np.unique(values).size > n + 1
    if not is_exact and _count_off(residuals) < FEWEST_OTHERS:
        slopes, residuals = np.zeros(n), values
    if n_others is not None and n_others < FEWEST_OTHERS and not is_exact:
        low, high = _compute_rare_limits(values, size) if n >= FEWEST_ANSWERS else (None, None)
        return MeanEstimate(plain, low, high, n, size, 0.0, plain, 1.0, None)
    value, spread = float(residuals.mean()), 0.0 if is_exact else float(residuals.std(ddof=1)) if n > 1 else None
    low = high = None
    if n >= FEWEST_ANSWERS and spread is not None:
        error = spread * math.sqrt((1 - n / size) / n)
        below, above = _find_quantiles(residuals, seed)
        low, high = value - above * error, value - below * error
    of_plain = float(values.std(ddof=1)) if n > 1 else 0.0
    gain = (of_plain / spread) ** 2 if spread else None
    return MeanEstimate(value, low, high, n, size, float(slopes.mean()), plain, gain, spread)


def count_further_answers(estimate: MeanEstimate, half_width: float) -> int | None:
    """Count how many more answers an interval of this half width would probably need; 0 where it is as narrow already,
    None where the estimate has no spread to compute it from. Raises ValueError for a half width that is not above 0.

    >>> estimate = estimate_mean([0, 1] * 200, size=100_000)
    >>> count_further_answers(estimate, 0.02)
    1951
    """
    from scipy.special import ndtri

    if not half_width > 0:
        raise ValueError(f"the half width is {half_width}: give a number above 0.")
    if estimate.spread is None:
        return None
    variance = (float(ndtri((1 + LEVEL) / 2)) * estimate.spread) ** 2
    needed = estimate.size * variance / (estimate.size * half_width**2 + variance)
    return max(0, math.ceil(needed) - estimate.n)


def _fit_crossed_slopes(values: FloatArray, helper: FloatArray, seed: int) -> FloatArray:
    """Return for every item the slope that was fitted on the half without it; 0 where the helper does not vary."""
    is_first = np.random.default_rng(seed).permutation(values.size) % 2 == 0
    slopes = np.zeros(values.size)
    for half in (is_first, ~is_first):
        centred = helper[~half] - helper[~half].mean() if np.any(~half) else np.zeros(0)
        total = float(centred @ centred)
        if total > _ROUNDING:
            slopes[half] = float(centred @ values[~half]) / total
    return slopes


def _count_others(values: FloatArray) -> int | None:
    """Count the items without the most frequent value; None where that value is neither the lowest nor the highest, or
    not that of two thirds of the items.
    """
    counts = np.unique(values, return_counts=True)[1]
    most = int(counts.argmax())
    is_usual = most in (0, counts.size - 1) and 3 * counts[most] >= 2 * values.size
    return values.size - int(counts[most]) if is_usual else None


def _count_off(residuals: FloatArray) -> int:
    """Count the residuals that are off the middle one by more than a quarter of what the farthest is: few where a cheap
    value fits all answers but some, and most where it fits none exactly.
    """
    distances = np.abs(residuals - np.median(residuals))
    return int((distances > max(float(distances.max()) / 4, _ROUNDING)).sum())


def _compute_rare_limits(values: FloatArray, size: int) -> tuple[float, float] | tuple[None, None]:
    """Compute limits of the mean of values most of which are equal, in a finite population, by Clopper and Pearson.

    Differences z from the frequent value count as (sum z)^2 / sum z^2 events of the size sum z^2 / sum z. With values 0
    and 1 this is the interval of their share. There is no limit where all values are equal, and neither 0 nor 1.
    """
    from scipy.special import betaincinv

    distinct, counts = np.unique(values, return_counts=True)
    usual, n = float(distinct[counts.argmax()]), values.size
    differences = values - usual
    if n == size:
        return float(values.mean()), float(values.mean())
    if distinct.size > 1:
        scale = float(differences @ differences) / float(differences.sum())
    elif usual in (0.0, 1.0):
        scale = 1 - 2 * usual
    else:
        return None, None
    effective = n / (1 - n / size)
    events = effective * float(differences.mean()) / scale
    tail = (1 - LEVEL) / 2
    low = float(betaincinv(events, effective - events + 1, tail)) if events > 0 else 0.0
    high = float(betaincinv(events + 1, effective - events, 1 - tail))
    ends = usual + scale * low, usual + scale * high
    return min(ends), max(ends)


def _find_quantiles(residuals: FloatArray, seed: int) -> tuple[float, float]:
    """Return the lower and upper quantile of the studentised mean: of Student's t, or of a bootstrap for few items.

    The bootstrap only widens: a limit is never nearer than that of Student's t.
    """
    from scipy.special import stdtrit

    n = residuals.size
    level = LEVEL if n >= FEW_ANSWERS else WIDE_LEVEL
    t = float(stdtrit(n - 1, (1 + level) / 2))
    if n >= BOOTSTRAP_BELOW or float(np.ptp(residuals)) < _ROUNDING:
        return -t, t
    drawn = residuals[np.random.default_rng(seed).integers(0, n, (_RESAMPLES, n))]
    spread = drawn.std(axis=1, ddof=1)
    is_defined = spread > _ROUNDING
    statistics = (drawn.mean(axis=1) - residuals.mean())[is_defined] / (spread[is_defined] / math.sqrt(n))
    below, above = np.quantile(statistics, [(1 - level) / 2, (1 + level) / 2])
    return min(-t, float(below)), max(t, float(above))
