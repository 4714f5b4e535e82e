"""Compares a metric with simple scores and with raters on the items that the metric has a value for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from metrics_core.agreement.coefficients import KENDALL, compute_coefficient
from metrics_core.agreement.groupings import compute_pooled
from metrics_core.agreement.inputs import AgreementInputs
from metrics_core.agreement.raters import RaterAndOthers, compute_mean_ratings, list_ceiling_raters
from metrics_core.agreement.row import (
    DIFFERENCE,
    ONE_RATER,
    RIVAL,
    AgreementRow,
    build_agreement_rows,
    turn_positive,
)
from metrics_core.arrays import BoolArray, FloatArray
from metrics_core.intervals import (
    JackknifeStatistics,
    average_over_raters,
    jackknife_estimate,
    jackknife_p_value,
)


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
        self._counted: dict[bytes, list[RaterAndOthers]] = {}

    def remember_pooled(self, name: str, kept: BoolArray, statistics: JackknifeStatistics) -> None:
        """Keep `statistics` as the comparison over the kept items, so that `compute_pooled` or `compute_ceiling` does
        not compute it again. name: a metric or simple score, or `ONE_RATER` for the human ceiling.
        """
        self._pooled[name, kept.tobytes()] = statistics

    def compute_pooled(self, name: str, kept: BoolArray) -> JackknifeStatistics:
        """Compute tau-b of the values of a metric or simple score with the mean ratings, over the items where `kept` is
        True, also with each block of videos left out. Every kept item must have a value and a rating. The object keeps
        the result by name and `kept` for later calls.
        """
        key = name, kept.tobytes()
        if key not in self._pooled:
            sides = self.inputs.select_items(self.inputs.values[name], self.people, kept)
            self._pooled[key] = compute_pooled(sides)
        return self._pooled[key]

    def list_ceiling_raters(self, kept: BoolArray) -> list[RaterAndOthers]:
        """List the raters who count in the human ceiling by their ratings of the items where `kept` is True, at most
        the 20 most active ones; [] where none counts. A record has the rater's ratings and the means of the other
        raters who count. The object keeps the result for later calls.
        """
        key = kept.tobytes()
        if key not in self._counted:
            self._counted[key] = list_ceiling_raters(np.where(kept[:, None], self.ratings, np.nan))
        return self._counted[key]

    def compute_ceiling(self, kept: BoolArray) -> JackknifeStatistics | None:
        """Compute the human ceiling on the items where `kept` is True: tau-b of every rater with the mean of the
        others, averaged over raters, also with each block of videos left out. None where no rater counts, see
        `list_ceiling_raters`. The object keeps the result for later calls.
        """
        key = ONE_RATER, kept.tobytes()
        if key not in self._pooled and (ceiling := compute_ceiling(self.inputs, self.list_ceiling_raters(kept))):
            self._pooled[key] = ceiling
        return self._pooled.get(key)

    def compute_without_one_rater(self, name: str, kept: BoolArray) -> JackknifeStatistics:
        """Compute tau-b of a metric with the means of all raters but one, averaged over the raters who are left out in
        turn, also with each block of videos left out. The items are those where `kept` is True that the left-out rater
        shares with others. At least one rater must count in the human ceiling.

        Raters count by the items that they share with others, with or without a value of the metric.
        """
        values, counted = self.inputs.values[name], self.list_ceiling_raters(kept)
        by_rater = []
        for rater in counted:
            sides = self.inputs.select_items(values, rater.other_means, rater.is_shared & np.isfinite(values))
            by_rater.append({KENDALL: compute_pooled(sides)})
        return average_over_raters(by_rater, [rater.n_shared for rater in counted])[KENDALL]


def compute_ceiling(inputs: AgreementInputs, counted: Sequence[RaterAndOthers]) -> JackknifeStatistics | None:
    """Compute the human ceiling: tau-b of every rater in `counted` with the mean of the other raters, averaged over
    raters, also with each block of videos left out. A rater weighs by the number of items shared with others. None
    where `counted` is empty.
    """
    sides = [inputs.select_items(rater.ratings, rater.other_means, rater.is_shared) for rater in counted]
    by_rater = [{KENDALL: compute_pooled(side)} for side in sides]
    return average_over_raters(by_rater, [rater.n_shared for rater in counted])[KENDALL] if counted else None


def find_strongest_baseline(comparisons: AspectComparisons, kept: BoolArray) -> AgreementRow | None:
    """Find the simple score whose tau-b with people is farthest from 0, and return its row, a negative tau-b turned
    positive. A simple score is compared on the kept items that it has a number for. None where no simple score has a
    coefficient. kept: a mask (items,) of rated items.
    """
    name = _name_strongest_baseline(comparisons, kept)
    if name is None:
        return None
    statistics, n_videos = _compute_pooled_baseline(comparisons, name, kept), comparisons.inputs.count_videos(kept)
    [row] = build_agreement_rows((name, comparisons.aspect, "captions"), statistics, n_videos, baseline=True)
    return turn_positive(row)


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


def compare_with_rivals(comparisons: AspectComparisons, metric: str) -> Iterator[AgreementRow]:
    """Yield the agreement rows that compare a metric with two rivals, the strongest simple score and one more rater, on
    the metric's rated items: the rival's tau-b (`RIVAL`), and the metric's less the rival's (`DIFFERENCE`). For one
    more rater also the metric's tau-b with the same means of ratings. Comparisons without a coefficient are left out.

    A simple score keeps the sign that it has with people; where it is negative, the difference adds it.
    """
    inputs, values = comparisons.inputs, comparisons.inputs.values
    kept = np.isfinite(values[metric]) & comparisons.is_rated
    n_videos, n_rated = inputs.count_videos(kept), int(comparisons.is_rated.sum())

    def row(against: str, statistic: str, n: int, value: float | None, jackknife_values: FloatArray) -> AgreementRow:
        limit = 2.0 if statistic == DIFFERENCE else 1.0
        estimate = jackknife_estimate(value, jackknife_values, (-limit, limit))
        p = jackknife_p_value(value, jackknife_values)
        numbers = value, estimate.low, estimate.high, p, n, n_videos, n_rated - n, 0
        return AgreementRow(metric, comparisons.aspect, "captions", against, statistic, *numbers, baseline=False)

    def compare(
        against: str, own: JackknifeStatistics, rival: JackknifeStatistics, sign: float = 1.0
    ) -> Iterator[AgreementRow]:
        yield row(against, RIVAL, rival.n[KENDALL], rival.values[KENDALL], rival.jackknife_values[KENDALL])
        difference, jackknife_values = own.subtract(rival, KENDALL, sign)
        if difference is not None:
            yield row(against, DIFFERENCE, own.n[KENDALL], difference, jackknife_values)

    if (strongest := _name_strongest_baseline(comparisons, kept)) is not None:
        rival = _compute_pooled_baseline(comparisons, strongest, kept)
        sign = -1.0 if (rival.values[KENDALL] or 0.0) < 0 else 1.0
        yield from compare(
            strongest, comparisons.compute_pooled(metric, kept & np.isfinite(values[strongest])), rival, sign
        )
    if ceiling := comparisons.compute_ceiling(kept):
        own = comparisons.compute_without_one_rater(metric, kept)
        yield row(ONE_RATER, KENDALL, own.n[KENDALL], own.values[KENDALL], own.jackknife_values[KENDALL])
        yield from compare(ONE_RATER, own, ceiling)
