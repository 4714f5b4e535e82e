"""Every two metrics compared: is one closer to people than the other by more than chance?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import numpy.typing as npt

from metrics_core.agreement.coefficients import pearson_of
from metrics_core.agreement.inputs import Inputs, checked_inputs
from metrics_core.agreement.raters import mean_rating
from metrics_core.agreement.significance import WilliamsTest, holm, permutation_test, williams_test
from metrics_core.arrays import FloatArray


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """Pearson's r of a metric with people less the other metric's, over the n items that have all three numbers.

    p: two-sided, by swapping the two metrics' standardised scores video by video. p_holm: p corrected for the number of
    comparisons of its aspect. p_williams: one-sided, that the metric is closer; it takes the items as independent, so
    it is too small where videos have several captions. None where undefined.
    """

    metric: str
    other: str
    aspect: str
    difference: float | None
    p: float | None
    p_holm: float | None
    p_williams: float | None
    n: int


def comparison_rows(
    metrics: Mapping[str, npt.ArrayLike],
    ratings: Mapping[str, npt.ArrayLike],
    videos: Sequence[object],
    *,
    n_resamples: int = 1000,
    seed: int = 0,
) -> tuple[ComparisonRow, ...]:
    """Compare every two metrics by every aspect; arguments and errors are those of `agreement_rows`.

    >>> rows = comparison_rows({"a": [1, 2, 3, 4, 6], "b": [2, 1, 4, 3, 3]}, {"q": [[1], [2], [3], [4], [5]]}, range(5))
    >>> rows[0].metric, round(rows[0].difference, 3), rows[0].p
    ('a', 0.432, 0.0625)
    """
    inputs = checked_inputs(metrics, {}, ratings, videos, None, None)
    return tuple(row for aspect in inputs.ratings for row in _corrected(list(_rows(inputs, aspect, n_resamples, seed))))


def _rows(inputs: Inputs, aspect: str, n_resamples: int, seed: int) -> Iterator[ComparisonRow]:
    """Yield the comparisons by one aspect, not corrected."""
    people = mean_rating(inputs.ratings[aspect])
    for (metric, left), (other, right) in combinations(inputs.values.items(), 2):
        kept = np.isfinite(left) & np.isfinite(right) & np.isfinite(people)
        sides = left[kept], right[kept], people[kept]
        test = permutation_test(*sides, inputs.video[kept].tolist(), n_resamples=n_resamples, seed=seed)
        p_williams = _williams(*sides).p
        yield ComparisonRow(metric, other, aspect, test.difference, test.p, None, p_williams, test.n)


def _williams(left: FloatArray, right: FloatArray, people: FloatArray) -> WilliamsTest:
    """Williams' test of two metrics; undefined where a correlation is."""
    first, second, between = pearson_of(left, people), pearson_of(right, people), pearson_of(left, right)
    if first is None or second is None or between is None:
        return WilliamsTest(None, None)
    return williams_test(first, second, between, people.size)


def _corrected(rows: list[ComparisonRow]) -> list[ComparisonRow]:
    """Add Holm's corrected p-values, for the comparisons that have one."""
    corrected = iter(holm([row.p for row in rows if row.p is not None]))
    return [row if row.p is None else replace(row, p_holm=next(corrected)) for row in rows]
