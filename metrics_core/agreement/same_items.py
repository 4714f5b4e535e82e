"""A metric beside baselines and raters on the very items that it has a value for, without the same videos."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metrics_core.agreement.coefficients import coefficient
from metrics_core.agreement.groupings import pooled
from metrics_core.agreement.raters import OneRater, list_counted, mean_rating
from metrics_core.agreement.table import CEILING, ONE_RATER, Inputs, checked_inputs, without_one_rater
from metrics_core.arrays import BoolArray, FloatArray
from metrics_core.intervals import LEVEL, Found, chance, estimate, mean_over_raters

STATISTIC = CEILING


@dataclass(frozen=True, slots=True)
class Coefficient:
    """A correlation in [-1, 1] over n items, with its interval, or a difference of two; None where undefined.

    p: how often chance alone gives a number so far from 0, two-sided.
    """

    name: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    p: float | None = None


@dataclass(frozen=True, slots=True)
class SameItems:
    """A metric's coefficient, and on its items the coefficient of one more rater and of the strongest baseline.

    ceiling: each rater with the mean of the others, on average. against_others: the metric with the same means.
    strongest: the baseline farthest from 0, turned round where it is negative: "the shorter, the better" is knowledge,
    too. above_baseline: the metric's coefficient less the strongest baseline's. above_rater: against_others less
    ceiling, since a metric held against more raters than the rater is would seem better. Both leave out the same videos
    on both sides; their intervals may be far from 0 where the intervals of both overlap. None where nothing is defined;
    ceiling, against_others and above_rater also where no two raters share enough. n_videos: of the metric's items.
    """

    found: Coefficient
    ceiling: Coefficient | None
    strongest: Coefficient | None
    above_baseline: Coefficient | None
    above_rater: Coefficient | None
    n_videos: int
    against_others: Coefficient | None = None


def on_same_items(
    metrics: Mapping[str, npt.ArrayLike],
    baselines: Mapping[str, npt.ArrayLike],
    ratings: npt.ArrayLike,
    videos: Sequence[object],
    *,
    level: float = LEVEL,
    seed: int = 0,
) -> dict[str, SameItems]:
    """Compare every metric with people over all its items, by Kendall's tau-b; arguments as in `agreement_rows`.

    >>> found = on_same_items({"m": [1, 2, 3, 4]}, {"length": [4, 3, 2, 2]}, [[1], [2], [3], [4]], "aabb")["m"]
    >>> found.found.value, round(found.strongest.value, 2), found.above_baseline.n, found.n_videos
    (1.0, 0.91, 4, 2)
    """
    inputs = checked_inputs(metrics, {STATISTIC: ratings}, videos, baselines=baselines, seed=seed)
    return {name: _on_items_of(inputs, name, level) for name in metrics}


def _on_items_of(inputs: Inputs, name: str, level: float) -> SameItems:
    rated, values = inputs.ratings[STATISTIC], inputs.values[name]
    people = mean_rating(rated)
    kept = np.isfinite(values) & np.isfinite(people)
    found = _pooled(inputs, values, people)
    counted = list_counted(np.where(kept[:, None], rated, np.nan))
    ceiling = ceiling_of(inputs, counted)
    beside_rater = without_one_rater(inputs, values, counted) if counted else None
    strongest, above = strongest_baseline(inputs, people, kept, level), None
    if strongest:
        side = inputs.values[strongest.name]
        both = (
            found
            if np.isfinite(side[kept]).all()
            else _pooled(inputs, np.where(np.isfinite(side), values, np.nan), people)
        )
        beside = _pooled(inputs, np.where(kept, side, np.nan), people)
        turned = -1.0 if (beside.values[STATISTIC] or 0.0) < 0 else 1.0
        above = _above(strongest.name, both, beside, level, turned)
    return SameItems(
        _coefficient(name, found, level),
        _coefficient(ONE_RATER, ceiling, level) if ceiling else None,
        strongest,
        above,
        _above(ONE_RATER, beside_rater, ceiling, level) if ceiling and beside_rater else None,
        np.unique(inputs.video[kept]).size,
        _coefficient(name, beside_rater, level) if beside_rater else None,
    )


def strongest_baseline(inputs: Inputs, people: FloatArray, kept: BoolArray, level: float = LEVEL) -> Coefficient | None:
    """The baseline whose tau-b with people (n,) is farthest from 0 over the kept items that it has a number for.

    It is turned round where it is negative. None where no baseline has a coefficient.
    """
    known = {}
    for name in inputs.baselines:
        rows = kept & np.isfinite(inputs.values[name])
        value = coefficient(inputs.values[name][rows], people[rows], STATISTIC)
        if value is not None:
            known[name] = value
    if not known:
        return None
    name = max(known, key=lambda each: abs(known[each]))
    found = _pooled(inputs, np.where(kept, inputs.values[name], np.nan), people)
    return _coefficient(name, found, level, -1.0 if known[name] < 0 else 1.0)


def _pooled(inputs: Inputs, side: FloatArray, people: FloatArray) -> Found:
    """The coefficient of the items that have both numbers."""
    return pooled(inputs.sides_of(side, people), (STATISTIC,))


def ceiling_of(inputs: Inputs, counted: Sequence[OneRater]) -> Found | None:
    """The mean of the raters' coefficients, each with the mean of the others; None without a rater who counts."""
    found = [{STATISTIC: pooled(inputs.sides(each.own, each.others, each.shared), (STATISTIC,))} for each in counted]
    return mean_over_raters(found, [each.n_shared for each in counted])[STATISTIC] if found else None


def _coefficient(name: str, found: Found, level: float, sign: float = 1.0) -> Coefficient:
    value = found.values[STATISTIC]
    return _made(name, None if value is None else sign * value, sign * found.left_out[STATISTIC], found, level)


def _above(name: str, found: Found, other: Found, level: float, sign: float = 1.0) -> Coefficient | None:
    """By how much a metric is above a baseline or a rater; None where a side is undefined."""
    value, left_out = found.less(other, STATISTIC, sign)
    return None if value is None else _made(name, value, left_out, found, level, 2.0)


def _made(
    name: str, value: float | None, left_out: FloatArray, found: Found, level: float, most: float = 1.0
) -> Coefficient:
    each = estimate(value, left_out, level, (-most, most))
    return Coefficient(name, each.value, each.low, each.high, found.n[STATISTIC], chance(value, left_out))
