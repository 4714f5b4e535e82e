"""A metric beside baselines and raters on the very items that it has a value for, in the same resamples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metrics_core.agreement.groupings import Resamples, Sides, pooled
from metrics_core.agreement.inputs import checked_inputs
from metrics_core.agreement.rater_rows import mean_of_raters
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
    known: dict[bytes, tuple[Coefficient | None, dict[str, Resamples]]] = {}
    results = {}
    for name in metrics:
        kept = np.isfinite(inputs.values[name]) & np.isfinite(people)
        if kept.tobytes() not in known:
            rows = rated[kept]
            own = {other: inputs.values[other][kept] for other in baselines}
            by_name = {other: _compared(side, people[kept], inputs.video[kept], draws) for other, side in own.items()}
            known[kept.tobytes()] = _ceiling(rows, inputs.video[kept], draws, level), by_name
        ceiling, by_name = known[kept.tobytes()]
        found = _compared(inputs.values[name][kept], people[kept], inputs.video[kept], draws)
        results[name] = SameItems(_coefficient(name, found, level), ceiling, *_beside(found, by_name, level))
    return results


def _compared(side: FloatArray, people: FloatArray, video: IntArray, draws: Draws) -> Resamples:
    """The coefficient of the items that have a value."""
    kept = np.isfinite(side)
    sides = Sides(side[kept], people[kept], video[kept], np.full(int(kept.sum()), -1))
    return pooled(sides, draws, (STATISTIC,))


def _ceiling(ratings: FloatArray, video: IntArray, draws: Draws, level: float) -> Coefficient | None:
    sides = [side for side in one_against_others(ratings) if side[2].any()]
    raters = [{"": _compared(np.where(kept, one, np.nan), others, video, draws)} for one, others, kept in sides]
    means = mean_of_raters(raters)
    return _coefficient(ONE_RATER, means[""], level) if means else None


def _beside(
    found: Resamples, baselines: Mapping[str, Resamples], level: float
) -> tuple[Coefficient | None, Coefficient | None]:
    """The strongest baseline, turned round where it is negative, and how far the metric lies above it."""
    values = {name: value for name, each in baselines.items() if (value := each.values[STATISTIC]) is not None}
    if not values:
        return None, None
    name = max(values, key=lambda each: abs(values[each]))
    sign = -1.0 if values[name] < 0 else 1.0
    resampled = sign * baselines[name].resampled[STATISTIC]
    strongest = _made(name, abs(values[name]), resampled, baselines[name].n[STATISTIC], level)
    value = found.values[STATISTIC]
    if value is None:
        return strongest, None
    less = found.resampled[STATISTIC] - resampled
    return strongest, _made(name, value - abs(values[name]), less, found.n[STATISTIC], level)


def _coefficient(name: str, found: Resamples, level: float) -> Coefficient:
    return _made(name, found.values[STATISTIC], found.resampled[STATISTIC], found.n[STATISTIC], level)


def _made(name: str, value: float | None, resampled: FloatArray, n: int, level: float) -> Coefficient:
    limits = interval(resampled, level)
    return Coefficient(name, value, *((None, None) if value is None else (limits.low, limits.high)), n)
