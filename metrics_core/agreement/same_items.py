"""A metric beside baselines and raters on the very items that it has a value for, in the same resamples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metrics_core.agreement.correlation import kendall_of, mean_of
from metrics_core.agreement.groupings import Sides, pooled
from metrics_core.agreement.groups import Resamples
from metrics_core.agreement.inputs import checked_inputs
from metrics_core.agreement.raters import mean_rating, one_against_others
from metrics_core.agreement.resampling import Draws, draw, interval
from metrics_core.agreement.table import ONE_RATER
from metrics_core.arrays import FloatArray, IntArray

STATISTIC = "kendall_b"


@dataclass(frozen=True, slots=True)
class Coefficient:
    """A correlation in [-1, 1] over n items, with its interval; None where undefined."""

    name: str
    value: float | None
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True, slots=True)
class SameItems:
    """A metric's coefficient, and on its items the coefficient of one more rater and of the strongest baseline.

    ceiling: each rater with the mean of the others, on average; it has no interval here.
    strongest: the baseline farthest from 0, turned round where it is negative: "the shorter, the better" is knowledge,
    too. difference: the metric's coefficient less the strongest baseline's, in the same resamples; its interval may be
    far from 0 where the intervals of both overlap. None where nothing is defined; ceiling also with a single rater.
    """

    found: Coefficient
    ceiling: Coefficient | None
    strongest: Coefficient | None
    difference: Coefficient | None


def on_same_items(
    metrics: Mapping[str, npt.ArrayLike],
    baselines: Mapping[str, npt.ArrayLike],
    ratings: npt.ArrayLike,
    videos: Sequence[object],
    *,
    level: float = 0.95,
    n_resamples: int = 1000,
    seed: int = 0,
) -> dict[str, SameItems]:
    """Compare every metric with people over all its items, by Kendall's tau-b; arguments as in `agreement_rows`.

    >>> found = on_same_items({"m": [1, 2, 3, 4]}, {"length": [4, 3, 2, 2]}, [[1], [2], [3], [4]], "aabb")["m"]
    >>> found.found.value, round(found.strongest.value, 2), found.difference.n
    (1.0, 0.91, 4)
    """
    inputs = checked_inputs(metrics, baselines, {STATISTIC: ratings}, videos, None, None)
    rated = inputs.ratings[STATISTIC]
    people = mean_rating(rated)
    draws = draw(inputs.n_videos, 0, "videos", n_resamples, seed)
    results = {}
    for name in metrics:
        kept = np.isfinite(inputs.values[name]) & np.isfinite(people)
        own = {other: inputs.values[other][kept] for other in baselines}
        chosen = _strongest(own, people[kept])
        found = _compared(inputs.values[name][kept], people[kept], inputs.video[kept], draws)
        baseline = chosen and _compared(own[chosen], people[kept], inputs.video[kept], draws)
        beside = _beside(found, chosen, baseline, level) if chosen and baseline else (None, None)
        made = _made(name, found.values[STATISTIC], found.resampled[STATISTIC], found.n[STATISTIC], level)
        results[name] = SameItems(made, _ceiling(rated[kept]), *beside)
    return results


def _compared(side: FloatArray, people: FloatArray, video: IntArray, draws: Draws) -> Resamples:
    """The coefficient of the items that have a value."""
    kept = np.isfinite(side)
    sides = Sides(side[kept], people[kept], video[kept], np.full(int(kept.sum()), -1))
    return pooled(sides, draws, (STATISTIC,))


def _strongest(baselines: Mapping[str, FloatArray], people: FloatArray) -> str | None:
    """The baseline that is farthest from 0; None where none has a coefficient."""
    defined = {name: side for name, side in baselines.items() if _value(side, people) is not None}
    return max(defined, key=lambda name: abs(_value(defined[name], people) or 0.0), default=None)


def _value(side: FloatArray, people: FloatArray) -> float | None:
    """Kendall's tau-b of the items that have both numbers."""
    kept = np.isfinite(side) & np.isfinite(people)
    return kendall_of(side[kept], people[kept])


def _ceiling(ratings: FloatArray) -> Coefficient | None:
    """The mean of the raters' coefficients, each with the mean of the others, without an interval."""
    sides = [side for side in one_against_others(ratings) if side[2].any()]
    values = [value for one, others, kept in sides if (value := kendall_of(one[kept], others[kept])) is not None]
    n = max((int(kept.sum()) for _, _, kept in sides), default=0)
    return Coefficient(ONE_RATER, mean_of(values), None, None, n) if sides else None


def _beside(found: Resamples, name: str, baseline: Resamples, level: float) -> tuple[Coefficient, Coefficient | None]:
    """The strongest baseline, turned round where it is negative, and how far the metric lies above it."""
    value, other = found.values[STATISTIC], baseline.values[STATISTIC]
    assert other is not None
    sign = -1.0 if other < 0 else 1.0
    resampled = sign * baseline.resampled[STATISTIC]
    strongest = _made(name, sign * other, resampled, baseline.n[STATISTIC], level)
    if value is None:
        return strongest, None
    less = found.resampled[STATISTIC] - resampled
    return strongest, _made(name, value - sign * other, less, found.n[STATISTIC], level)


def _made(name: str, value: float | None, resampled: FloatArray, n: int, level: float) -> Coefficient:
    limits = interval(resampled, level)
    return Coefficient(name, value, *((None, None) if value is None else (limits.low, limits.high)), n)
