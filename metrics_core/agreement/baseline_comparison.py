"""A metric beside simple scores and raters on the very items that it has a value for, without the same videos."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from metrics_core.agreement.coefficients import compute_coefficient
from metrics_core.agreement.groupings import compute_pooled
from metrics_core.agreement.inputs import AgreementInputs
from metrics_core.agreement.raters import RaterAndOthers, compute_mean_ratings, list_ceiling_raters
from metrics_core.agreement.row import CHANCE, KENDALL, ONE_RATER, AgreementRow
from metrics_core.arrays import BoolArray
from metrics_core.intervals import (
    LEVEL,
    JackknifeStatistics,
    average_over_raters,
    jackknife_estimate,
    jackknife_p_value,
)

BESIDE_RATER = "beside one rater"
"""The grouping of a metric held against the means that one more rater is held against, on the metric's own items."""
ABOVE = "above "
"""The beginning of the grouping of a metric's coefficient less that of a simple score or of one more rater."""


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
class BaselineComparison:
    """A metric's coefficient, and on its items the coefficient of one more rater and of the strongest baseline.

    ceiling: each rater with the mean of the others, on average. against_others: the metric with the same means.
    strongest: the baseline farthest from 0, turned round where it is negative: "the shorter, the better" is knowledge,
    too. above_baseline: the metric's coefficient less the strongest baseline's. above_rater: against_others less
    ceiling, since a metric held against more raters than the rater is would seem better. Both leave out the same videos
    on both sides; their intervals may be far from 0 where the intervals of both overlap. None where nothing is defined;
    ceiling, against_others and above_rater also where no two raters share enough. n_videos: of the metric's items.
    """

    coefficient: Coefficient
    ceiling: Coefficient | None
    strongest_baseline: Coefficient | None
    above_baseline: Coefficient | None
    above_rater: Coefficient | None
    n_videos: int
    against_others: Coefficient | None = None


class AspectComparisons:
    """The comparisons by `KENDALL` with the ratings of one aspect, each computed once, whatever rests on it.

    Items are named by a mask (items,) of those that count. Leaving out videos is what costs, and the table, one more
    rater and the strongest baseline ask for many comparisons twice.
    """

    def __init__(self, inputs: AgreementInputs, aspect: str) -> None:
        self.inputs, self.aspect, self.ratings = inputs, aspect, inputs.ratings[aspect]
        self.people = compute_mean_ratings(self.ratings)
        self.is_rated: BoolArray = np.isfinite(self.people)
        self._pooled: dict[tuple[str, bytes], JackknifeStatistics] = {}
        self._without_one_rater: dict[tuple[str, bytes], JackknifeStatistics] = {}
        self._counted: dict[bytes, list[RaterAndOthers]] = {}

    def remember_pooled(self, name: str, kept: BoolArray, found: JackknifeStatistics) -> None:
        """Remember a comparison of these items that was computed elsewhere; name: a metric, or `ONE_RATER`."""
        self._pooled[name, kept.tobytes()] = found

    def compute_pooled(self, name: str, kept: BoolArray) -> JackknifeStatistics:
        """Compare a metric's or a baseline's values of the kept items, all of them rated and defined, with people."""
        key = name, kept.tobytes()
        if key not in self._pooled:
            sides = self.inputs.select_items(self.inputs.values[name], self.people, kept)
            self._pooled[key] = compute_pooled(sides, (KENDALL,))
        return self._pooled[key]

    def list_ceiling_raters(self, kept: BoolArray) -> list[RaterAndOthers]:
        """List the raters of the human ceiling by their ratings of the kept items."""
        key = kept.tobytes()
        if key not in self._counted:
            self._counted[key] = list_ceiling_raters(np.where(kept[:, None], self.ratings, np.nan))
        return self._counted[key]

    def compute_ceiling(self, kept: BoolArray) -> JackknifeStatistics | None:
        """Compare each rater with the mean of the others on the kept items; None without a rater who counts."""
        key = ONE_RATER, kept.tobytes()
        if key not in self._pooled and (found := compute_ceiling(self.inputs, self.list_ceiling_raters(kept))):
            self._pooled[key] = found
        return self._pooled.get(key)

    def compute_without_one_rater(self, name: str, kept: BoolArray) -> JackknifeStatistics:
        """Hold a metric against the mean of all raters but one, on that one's kept items; the mean over the raters.

        There must be a rater who counts. Raters count by the items that they share with others, with or without a
        value of the metric.
        """
        key = name, kept.tobytes()
        if key not in self._without_one_rater:
            values, counted = self.inputs.values[name], self.list_ceiling_raters(kept)
            by_rater = [
                {
                    KENDALL: compute_pooled(
                        self.inputs.select_items(values, each.other_means, each.is_shared & np.isfinite(values)),
                        (KENDALL,),
                    )
                }
                for each in counted
            ]
            self._without_one_rater[key] = average_over_raters(by_rater, [each.n_shared for each in counted])[KENDALL]
        return self._without_one_rater[key]


def compute_ceiling(inputs: AgreementInputs, counted: Sequence[RaterAndOthers]) -> JackknifeStatistics | None:
    """Average the coefficients of raters, each with the mean of the others; None without a rater who counts."""
    found = [
        {KENDALL: compute_pooled(inputs.select_items(each.ratings, each.other_means, each.is_shared), (KENDALL,))}
        for each in counted
    ]
    return average_over_raters(found, [each.n_shared for each in counted])[KENDALL] if found else None


def find_strongest_baseline(
    comparisons: AspectComparisons, kept: BoolArray, level: float = LEVEL
) -> Coefficient | None:
    """Find the baseline whose tau-b with people is farthest from 0 over the kept items that it has a number for.

    It is turned round where it is negative. None where no baseline has a coefficient.
    """
    name = _name_strongest_baseline(comparisons, kept)
    return (
        None
        if name is None
        else _turn_positive(_build_coefficient(name, _compute_pooled_baseline(comparisons, name, kept), level))
    )


def _name_strongest_baseline(once: AspectComparisons, kept: BoolArray) -> str | None:
    """Name the strongest baseline over the kept items; None where no baseline has a coefficient."""
    known = {}
    for name in once.inputs.baselines:
        side = once.inputs.values[name]
        rows = kept & np.isfinite(side)
        value = compute_coefficient(side[rows], once.people[rows], KENDALL)
        if value is not None:
            known[name] = abs(value)
    return max(known, key=lambda name: known[name], default=None)


def _compute_pooled_baseline(once: AspectComparisons, baseline: str, kept: BoolArray) -> JackknifeStatistics:
    """Compare a baseline with people on the kept items that it has a number for."""
    return once.compute_pooled(baseline, kept & np.isfinite(once.inputs.values[baseline]))


def _turn_positive(found: Coefficient) -> Coefficient:
    """Turn a coefficient round where it is negative."""
    if found.value is None or found.value >= 0:
        return found
    low, high = (None if end is None else -end for end in (found.high, found.low))
    return replace(found, value=-found.value, low=low, high=high)


def build_baseline_rows(comparisons: AspectComparisons, metric: str, level: float = LEVEL) -> Iterator[AgreementRow]:
    """Yield the rows of a metric beside the strongest baseline and one more rater, on the metric's own items.

    Each coefficient is a row of `KENDALL` and one of `CHANCE`; the metric's own coefficient is that of grouping
    `pooled`, and only its chance is yielded. A baseline has the sign that it has with people.
    """
    kept = np.isfinite(comparisons.inputs.values[metric]) & comparisons.is_rated
    n_videos, n_rated = np.unique(comparisons.inputs.video[kept]).size, int(comparisons.is_rated.sum())

    def chance_row(name: str, grouping: str, each: Coefficient, *, baseline: bool = False) -> AgreementRow:
        return AgreementRow(name, comparisons.aspect, grouping, CHANCE, each.p, None, None, n_videos, 0, 0, baseline)

    def rows(name: str, grouping: str, each: Coefficient, *, baseline: bool = False) -> Iterator[AgreementRow]:
        numbers = each.value, each.low, each.high, each.n, n_rated - each.n, 0
        yield AgreementRow(name, comparisons.aspect, grouping, KENDALL, *numbers, baseline)
        yield chance_row(name, grouping, each, baseline=baseline)

    found = comparisons.compute_pooled(metric, kept)
    yield chance_row(metric, "pooled", _build_coefficient(metric, found, level))
    if (strongest := _name_strongest_baseline(comparisons, kept)) is not None:
        beside = _compute_pooled_baseline(comparisons, strongest, kept)
        yield from rows(
            strongest, _format_own_items(metric), _build_coefficient(strongest, beside, level), baseline=True
        )
        both = comparisons.compute_pooled(metric, kept & np.isfinite(comparisons.inputs.values[strongest]))
        sign = -1.0 if (beside.values[KENDALL] or 0.0) < 0 else 1.0
        if above := _subtract(both, beside, strongest, level, sign):
            yield from rows(metric, f"{ABOVE}{strongest}", above)
    if ceiling := comparisons.compute_ceiling(kept):
        yield from rows(ONE_RATER, _format_own_items(metric), _build_coefficient(ONE_RATER, ceiling, level))
        against_others = comparisons.compute_without_one_rater(metric, kept)
        yield from rows(metric, BESIDE_RATER, _build_coefficient(metric, against_others, level))
        if above := _subtract(against_others, ceiling, ONE_RATER, level):
            yield from rows(metric, f"{ABOVE}{ONE_RATER}", above)


def _format_own_items(metric: str) -> str:
    """The grouping of a baseline and of one more rater on the items that a metric has a value for."""
    return f"where {metric} has a value"


def _build_coefficient(name: str, found: JackknifeStatistics, level: float) -> Coefficient:
    value, left_out = found.values[KENDALL], found.jackknife_values[KENDALL]
    each = jackknife_estimate(value, left_out, level)
    return Coefficient(name, each.value, each.low, each.high, found.n[KENDALL], jackknife_p_value(value, left_out))


def _subtract(
    found: JackknifeStatistics, other: JackknifeStatistics, name: str, level: float, sign: float = 1.0
) -> Coefficient | None:
    """By how much a metric is above a baseline or a rater, times `sign`; None where a side is undefined."""
    value, left_out = found.subtract(other, KENDALL, sign)
    if value is None:
        return None
    each = jackknife_estimate(value, left_out, level, (-2.0, 2.0))
    return Coefficient(name, each.value, each.low, each.high, found.n[KENDALL], jackknife_p_value(value, left_out))


def is_baseline_row(row: AgreementRow) -> bool:
    """Whether a row is one of those that `build_baseline_rows` yields."""
    return row.statistic == CHANCE or row.grouping == BESIDE_RATER or row.grouping.startswith((ABOVE, "where "))


def build_baseline_comparisons(rows: Sequence[AgreementRow]) -> dict[tuple[str, str], BaselineComparison]:
    """Read from the agreement table how metrics stand beside baselines and raters, by aspect and metric."""
    by_metric: dict[tuple[str, str], dict[str, Coefficient]] = {}
    chances = {(row.aspect, row.metric, row.grouping): row for row in rows if row.statistic == CHANCE}
    for row in rows:
        key = row.aspect, row.metric, row.grouping
        if row.statistic == KENDALL and key in chances:
            found = Coefficient(row.metric, row.value, row.low, row.high, row.n, chances[key].value)
            by_metric.setdefault((row.aspect, row.grouping), {})[row.metric] = found
    pooled_chances = [(key[:2], row.n) for key, row in chances.items() if key[2] == "pooled"]
    return {key: _build_baseline_comparison(by_metric, *key, n_videos) for key, n_videos in pooled_chances}


def _build_baseline_comparison(
    found: Mapping[tuple[str, str], Mapping[str, Coefficient]], aspect: str, metric: str, n_videos: int
) -> BaselineComparison:
    """found: coefficients by name, by aspect and grouping."""
    own = dict(found.get((aspect, _format_own_items(metric)), {}))
    ceiling = own.pop(ONE_RATER, None)
    strongest = next(iter(own.values()), None)

    def above(name: str) -> Coefficient | None:
        each = found.get((aspect, f"{ABOVE}{name}"), {}).get(metric)
        return None if each is None else replace(each, name=name)

    return BaselineComparison(
        found[aspect, "pooled"][metric],
        ceiling,
        _turn_positive(strongest) if strongest else None,
        above(strongest.name) if strongest else None,
        above(ONE_RATER),
        n_videos,
        found.get((aspect, BESIDE_RATER), {}).get(metric),
    )
