"""Two scorers against people on the same samples: is the difference more than chance?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from metrics_core.agreement.correlation import group_numbers
from metrics_core.agreement.groupings import pooled
from metrics_core.agreement.groups import Resamples
from metrics_core.agreement.metric_tests import comparison_rows
from metrics_core.agreement.raters import checked_ratings, mean_rating
from metrics_core.agreement.resampling import draw
from metrics_core.agreement.significance import holm
from metrics_core.agreement.two_scorers import STATISTICS, Estimate, estimate, sides_of
from metrics_core.arrays import FloatArray, IntArray


@dataclass(frozen=True)
class PeopleCompared:
    """Two scorers against the mean rating of one aspect, on the n items that have all three numbers.

    first, second: each scorer's coefficients with people; difference: second less first, with an interval of its own,
    because both scorers share the resamples. p: two-sided, of equal Pearson correlations, by swapping the two scorers'
    standardised values video by video; None where undefined and for a single video. p_williams: Williams' test of the
    same, two-sided; it takes the items as independent. Both are also corrected by Holm for the number of aspects.
    """

    aspect: str
    n: int
    n_videos: int
    n_raters: int
    first: Mapping[str, Estimate]
    second: Mapping[str, Estimate]
    difference: Mapping[str, Estimate]
    p: float | None
    p_holm: float | None
    p_williams: float | None
    p_williams_holm: float | None


def compare_with_people(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    ratings: Mapping[str, npt.ArrayLike],
    videos: Sequence[object],
    *,
    level: float = 0.95,
    n_resamples: int = 1000,
    seed: int = 0,
) -> tuple[PeopleCompared, ...]:
    """Compare two scorers' values (n,) with ratings (n, raters) by aspect, NaN where a number is missing.

    Raises ValueError for shapes that do not fit and infinite numbers.

    >>> people = {"quality": [[1], [2], [3], [4], [5]]}
    >>> found = compare_with_people([2, 1, 4, 3, 3], [1, 2, 3, 4, 6], people, range(5))[0]
    >>> round(found.difference["pearson"].value, 3), found.p
    (0.432, 0.0625)
    """
    tests = comparison_rows({"first": first, "second": second}, ratings, videos, n_resamples=n_resamples, seed=seed)
    sides = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    video = group_numbers("videos", videos, sides[0].size)
    found = []
    for test in tests:
        rated = checked_ratings(ratings[test.aspect])
        compared = _with_people(test.aspect, sides, rated, video, level, n_resamples, seed)
        one_sided = test.p_williams
        p_williams = None if one_sided is None else 2 * min(one_sided, 1 - one_sided)
        found.append(replace(compared, p=test.p, p_williams=p_williams))
    by_swaps, by_williams = (_corrected([getattr(each, name) for each in found]) for name in ("p", "p_williams"))
    return tuple(
        replace(each, p_holm=p, p_williams_holm=p_williams)
        for each, p, p_williams in zip(found, by_swaps, by_williams, strict=True)
    )


def _with_people(
    aspect: str,
    sides: tuple[FloatArray, FloatArray],
    rated: FloatArray,
    video: IntArray,
    level: float,
    n_resamples: int,
    seed: int,
) -> PeopleCompared:
    """Compute the coefficients of both scorers with people and their differences, without the tests."""
    people = mean_rating(rated)
    kept = np.isfinite(people) & np.isfinite(sides[0]) & np.isfinite(sides[1])
    n_raters = int((~np.isnan(rated[kept])).any(axis=0).sum())
    number = np.unique(video[kept], return_inverse=True)[1].astype(np.int64)
    n_videos = int(number.max(initial=-1)) + 1
    draws = draw(n_videos, 0, "videos", n_resamples, seed)
    both = [pooled(sides_of(side[kept], people[kept], number), draws, STATISTICS) for side in sides]
    first, second = (
        {name: estimate(each.values[name], each.resampled[name], level) for name in STATISTICS} for each in both
    )
    difference = {name: _difference(both[0], both[1], name, level) for name in STATISTICS}
    return PeopleCompared(
        aspect, int(kept.sum()), n_videos, n_raters, first, second, difference, None, None, None, None
    )


def _difference(first: Resamples, second: Resamples, name: str, level: float) -> Estimate:
    """The second coefficient less the first, resample by resample."""
    values = first.values[name], second.values[name]
    value = None if values[0] is None or values[1] is None else values[1] - values[0]
    return estimate(value, second.resampled[name] - first.resampled[name], level)


def _corrected(p_values: Sequence[float | None]) -> list[float | None]:
    """Correct by Holm those p-values that are defined."""
    corrected = iter(holm([p for p in p_values if p is not None]))
    return [None if p is None else next(corrected) for p in p_values]
