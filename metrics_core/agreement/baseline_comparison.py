"""Compares a metric with simple scores and with raters on the items that the metric has a value for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from metrics_core.agreement.coefficients import compute_coefficient
from metrics_core.agreement.groupings import compute_pooled
from metrics_core.agreement.inputs import AgreementInputs
from metrics_core.agreement.raters import RaterAndOthers, compute_mean_ratings, list_ceiling_raters
from metrics_core.agreement.row import CHANCE, KENDALL, ONE_RATER, AgreementRow
from metrics_core.arrays import BoolArray, FloatArray
from metrics_core.intervals import (
    Estimate,
    JackknifeStatistics,
    average_over_raters,
    jackknife_estimate,
    jackknife_p_value,
)

BESIDE_RATER = "beside one rater"
"""The grouping in which a metric is compared with the same means of raters as one more rater is, on the metric's own
items.
"""
ABOVE = "above "
"""The beginning of the grouping of a difference: a metric's coefficient less that of a simple score or of one more
rater.
"""


@dataclass(frozen=True, slots=True)
class Coefficient:
    """A correlation in [-1, 1] over n items, or a difference of two correlations in [-2, 2], with its interval from
    `low` to `high`. name: the metric, simple score or rater that it belongs to. p: the two-sided p-value. value, low,
    high and p are None where undefined.
    """

    name: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    p: float | None = None


@dataclass(frozen=True, slots=True)
class BaselineComparison:
    """A metric's coefficient with people (`coefficient`), compared on the same items with simple scores and with one
    more rater. `strongest_baseline` is the simple score whose coefficient is farthest from 0, and `above_baseline` is
    the metric's coefficient less that one. `ceiling` compares raters with the mean of the others; `against_others`
    compares the metric with the same means; `above_rater` is their difference. None where undefined.

    The strongest baseline's sign is changed where it is negative: "the shorter, the better" is knowledge, too.
    above_rater subtracts `ceiling` from `against_others`, not from `coefficient`, since a metric compared with more
    raters than the rater is would seem better. Both differences leave out the same videos on both sides; their
    intervals may be far from 0 where the intervals of both overlap. ceiling, against_others and above_rater are also
    None where no two raters share enough items. n_videos: the number of videos of the metric's items.
    """

    coefficient: Coefficient
    ceiling: Coefficient | None
    strongest_baseline: Coefficient | None
    above_baseline: Coefficient | None
    above_rater: Coefficient | None
    n_videos: int
    against_others: Coefficient | None = None


class AspectComparisons:
    """The comparisons of metrics, simple scores and raters with the ratings of one aspect, by Kendall's tau-b. The
    object keeps every result, so a second call with the same arguments computes nothing. A mask `kept` (items,) selects
    the items to compare.

    Leaving out videos is what costs time, and the table, one more rater and the strongest baseline ask for many
    comparisons twice. people: the mean ratings (items,). is_rated: a mask (items,) of the items with a rating.
    """

    def __init__(self, inputs: AgreementInputs, aspect: str) -> None:
        self.inputs, self.aspect, self.ratings = inputs, aspect, inputs.ratings[aspect]
        self.people = compute_mean_ratings(self.ratings)
        self.is_rated: BoolArray = np.isfinite(self.people)
        self._pooled: dict[tuple[str, bytes], JackknifeStatistics] = {}
        self._without_one_rater: dict[tuple[str, bytes], JackknifeStatistics] = {}
        self._counted: dict[bytes, list[RaterAndOthers]] = {}

    def remember_pooled(self, name: str, kept: BoolArray, statistics: JackknifeStatistics) -> None:
        """Keep `statistics` as the comparison over the kept items, so that `compute_pooled` or `compute_ceiling` does
        not compute it again. name: a metric or simple score, or `ONE_RATER` for the human ceiling.
        """
        self._pooled[name, kept.tobytes()] = statistics

    def compute_pooled(self, name: str, kept: BoolArray) -> JackknifeStatistics:
        """Compute tau-b of the values of a metric or simple score with the mean ratings, over the items where `kept` is
        True, and again without each block of videos. Every kept item must have a value and a rating. The object keeps
        the result by name and `kept` for later calls.
        """
        key = name, kept.tobytes()
        if key not in self._pooled:
            sides = self.inputs.select_items(self.inputs.values[name], self.people, kept)
            self._pooled[key] = compute_pooled(sides, (KENDALL,))
        return self._pooled[key]

    def list_ceiling_raters(self, kept: BoolArray) -> list[RaterAndOthers]:
        """List the raters who count in the human ceiling, by their ratings of the items where `kept` is True. A record
        has the rater's ratings and the means of the other raters who count; [] where none counts, and at most the 20
        most active raters. The object keeps the result for later calls.
        """
        key = kept.tobytes()
        if key not in self._counted:
            self._counted[key] = list_ceiling_raters(np.where(kept[:, None], self.ratings, np.nan))
        return self._counted[key]

    def compute_ceiling(self, kept: BoolArray) -> JackknifeStatistics | None:
        """Compute the human ceiling on the items where `kept` is True: tau-b of every rater with the mean of the
        others, averaged over raters, and again without each block of videos. None without a rater who counts. The
        object keeps the result for later calls.
        """
        key = ONE_RATER, kept.tobytes()
        if key not in self._pooled and (ceiling := compute_ceiling(self.inputs, self.list_ceiling_raters(kept))):
            self._pooled[key] = ceiling
        return self._pooled.get(key)

    def compute_without_one_rater(self, name: str, kept: BoolArray) -> JackknifeStatistics:
        """Compute tau-b of a metric with the means of all raters but one, averaged over the raters who are left out in
        turn, and again without each block of videos. The items are those where `kept` is True that the left-out rater
        shares with others. At least one rater must count in the human ceiling. The object keeps the result for later
        calls.

        Raters count by the items that they share with others, with or without a value of the metric.
        """
        key = name, kept.tobytes()
        if key not in self._without_one_rater:
            values, counted = self.inputs.values[name], self.list_ceiling_raters(kept)
            by_rater = []
            for rater in counted:
                rows = rater.is_shared & np.isfinite(values)
                sides = self.inputs.select_items(values, rater.other_means, rows)
                by_rater.append({KENDALL: compute_pooled(sides, (KENDALL,))})
            weights = [rater.n_shared for rater in counted]
            self._without_one_rater[key] = average_over_raters(by_rater, weights)[KENDALL]
        return self._without_one_rater[key]


def compute_ceiling(inputs: AgreementInputs, counted: Sequence[RaterAndOthers]) -> JackknifeStatistics | None:
    """Compute the human ceiling: tau-b of every rater in `counted` with the mean of the other raters, averaged over
    raters, and again without each block of videos. Raters weigh as much as they share items with others. None where
    `counted` is empty.
    """
    sides = [inputs.select_items(rater.ratings, rater.other_means, rater.is_shared) for rater in counted]
    by_rater = [{KENDALL: compute_pooled(side, (KENDALL,))} for side in sides]
    return average_over_raters(by_rater, [rater.n_shared for rater in counted])[KENDALL] if counted else None


def find_strongest_baseline(comparisons: AspectComparisons, kept: BoolArray) -> Coefficient | None:
    """Find the simple score whose tau-b with people is farthest from 0, and return its coefficient with its interval; a
    negative one changes its sign. A simple score is compared on the kept items that it has a number for. None where no
    simple score has a coefficient. kept: a mask (items,) of rated items.
    """
    name = _name_strongest_baseline(comparisons, kept)
    if name is None:
        return None
    return _turn_positive(_build_coefficient(name, _compute_pooled_baseline(comparisons, name, kept)))


def _name_strongest_baseline(comparisons: AspectComparisons, kept: BoolArray) -> str | None:
    """Name the strongest baseline over the kept items; None where no baseline has a coefficient."""
    known = {}
    for name in comparisons.inputs.baselines:
        side = comparisons.inputs.values[name]
        rows = kept & np.isfinite(side)
        value = compute_coefficient(side[rows], comparisons.people[rows], KENDALL)
        if value is not None:
            known[name] = abs(value)
    return max(known, key=lambda name: known[name], default=None)


def _compute_pooled_baseline(comparisons: AspectComparisons, baseline: str, kept: BoolArray) -> JackknifeStatistics:
    """Compute tau-b of a baseline with people on the kept items that it has a number for."""
    return comparisons.compute_pooled(baseline, kept & np.isfinite(comparisons.inputs.values[baseline]))


def _turn_positive(coefficient: Coefficient) -> Coefficient:
    """Change the sign of a coefficient and its interval where it is negative."""
    if coefficient.value is None or coefficient.value >= 0:
        return coefficient
    low, high = (None if end is None else -end for end in (coefficient.high, coefficient.low))
    return replace(coefficient, value=-coefficient.value, low=low, high=high)


def build_baseline_rows(comparisons: AspectComparisons, metric: str) -> Iterator[AgreementRow]:
    """Yield the agreement rows that compare a metric with the strongest simple score and with one more rater, on the
    metric's own rated items. Each coefficient gives a row of tau-b (`KENDALL`) and a row of its p-value (`CHANCE`).
    Rows of comparisons that have no coefficient are left out.

    The metric's own coefficient is that of the grouping "pooled", so only its p-value is yielded. A baseline keeps the
    sign that it has with people.
    """
    kept = np.isfinite(comparisons.inputs.values[metric]) & comparisons.is_rated
    n_videos, n_rated = np.unique(comparisons.inputs.video[kept]).size, int(comparisons.is_rated.sum())

    def chance_row(name: str, grouping: str, coefficient: Coefficient, *, baseline: bool = False) -> AgreementRow:
        return AgreementRow(
            name, comparisons.aspect, grouping, CHANCE, coefficient.p, None, None, n_videos, 0, 0, baseline
        )

    def rows(name: str, grouping: str, coefficient: Coefficient, *, baseline: bool = False) -> Iterator[AgreementRow]:
        numbers = coefficient.value, coefficient.low, coefficient.high, coefficient.n, n_rated - coefficient.n, 0
        yield AgreementRow(name, comparisons.aspect, grouping, KENDALL, *numbers, baseline)
        yield chance_row(name, grouping, coefficient, baseline=baseline)

    statistics = comparisons.compute_pooled(metric, kept)
    yield chance_row(metric, "pooled", _build_coefficient(metric, statistics))
    if (strongest := _name_strongest_baseline(comparisons, kept)) is not None:
        baseline_statistics = _compute_pooled_baseline(comparisons, strongest, kept)
        yield from rows(
            strongest,
            _format_own_items(metric),
            _build_coefficient(strongest, baseline_statistics),
            baseline=True,
        )
        both = comparisons.compute_pooled(metric, kept & np.isfinite(comparisons.inputs.values[strongest]))
        sign = -1.0 if (baseline_statistics.values[KENDALL] or 0.0) < 0 else 1.0
        if above := _subtract(both, baseline_statistics, strongest, sign):
            yield from rows(metric, f"{ABOVE}{strongest}", above)
    if ceiling := comparisons.compute_ceiling(kept):
        yield from rows(ONE_RATER, _format_own_items(metric), _build_coefficient(ONE_RATER, ceiling))
        against_others = comparisons.compute_without_one_rater(metric, kept)
        yield from rows(metric, BESIDE_RATER, _build_coefficient(metric, against_others))
        if above := _subtract(against_others, ceiling, ONE_RATER):
            yield from rows(metric, f"{ABOVE}{ONE_RATER}", above)


def _format_own_items(metric: str) -> str:
    """Format the grouping of a baseline and of one more rater on the items that a metric has a value for."""
    return f"where {metric} has a value"


def _build_coefficient(name: str, statistics: JackknifeStatistics) -> Coefficient:
    value, jackknife_values = statistics.values[KENDALL], statistics.jackknife_values[KENDALL]
    estimate = jackknife_estimate(value, jackknife_values)
    return _add_p_value(name, estimate, statistics.n[KENDALL], jackknife_values)


def _subtract(
    statistics: JackknifeStatistics, other: JackknifeStatistics, name: str, sign: float = 1.0
) -> Coefficient | None:
    """Return by how much a metric is above a baseline or a rater, times `sign`; None where a side is undefined."""
    value, jackknife_values = statistics.subtract(other, KENDALL, sign)
    if value is None:
        return None
    estimate = jackknife_estimate(value, jackknife_values, (-2.0, 2.0))
    return _add_p_value(name, estimate, statistics.n[KENDALL], jackknife_values)


def _add_p_value(name: str, estimate: Estimate, n: int, jackknife_values: FloatArray) -> Coefficient:
    p = jackknife_p_value(estimate.value, jackknife_values)
    return Coefficient(name, estimate.value, estimate.low, estimate.high, n, p)


def is_baseline_row(row: AgreementRow) -> bool:
    """Whether an agreement row belongs to the comparison of a metric with simple scores or one more rater on the
    metric's own items. `build_baseline_rows` yields such rows; rows of p-values (`CHANCE`) count, too.
    """
    return row.statistic == CHANCE or row.grouping == BESIDE_RATER or row.grouping.startswith((ABOVE, "where "))


def build_baseline_comparisons(rows: Sequence[AgreementRow]) -> dict[tuple[str, str], BaselineComparison]:
    """Build the comparisons of metrics with simple scores and raters from rows of the agreement table: a
    BaselineComparison by (aspect, metric). Metrics without the rows of `build_baseline_rows` are left out.
    """
    by_metric: dict[tuple[str, str], dict[str, Coefficient]] = {}
    chances = {(row.aspect, row.metric, row.grouping): row for row in rows if row.statistic == CHANCE}
    for row in rows:
        key = row.aspect, row.metric, row.grouping
        if row.statistic == KENDALL and key in chances:
            coefficient = Coefficient(row.metric, row.value, row.low, row.high, row.n, chances[key].value)
            by_metric.setdefault((row.aspect, row.grouping), {})[row.metric] = coefficient
    pooled_chances = [(key[:2], row.n) for key, row in chances.items() if key[2] == "pooled"]
    return {key: _build_baseline_comparison(by_metric, *key, n_videos) for key, n_videos in pooled_chances}


def _build_baseline_comparison(
    coefficients: Mapping[tuple[str, str], Mapping[str, Coefficient]], aspect: str, metric: str, n_videos: int
) -> BaselineComparison:
    """Build the comparison of one metric. coefficients: by metric's name, by aspect and grouping."""
    on_own_items = dict(coefficients.get((aspect, _format_own_items(metric)), {}))
    ceiling = on_own_items.pop(ONE_RATER, None)
    strongest = next(iter(on_own_items.values()), None)

    def above(name: str) -> Coefficient | None:
        difference = coefficients.get((aspect, f"{ABOVE}{name}"), {}).get(metric)
        return None if difference is None else replace(difference, name=name)

    return BaselineComparison(
        coefficients[aspect, "pooled"][metric],
        ceiling,
        _turn_positive(strongest) if strongest else None,
        above(strongest.name) if strongest else None,
        above(ONE_RATER),
        n_videos,
        coefficients.get((aspect, BESIDE_RATER), {}).get(metric),
    )
