"""The agreement table: every statistic of every metric, baseline and rater with people, in one list of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metrics_core.agreement.comparison import compared, pooled_with
from metrics_core.agreement.groups import Resamples
from metrics_core.agreement.inputs import Inputs, checked_inputs
from metrics_core.agreement.rater_rows import alpha_rows, mean_of_raters
from metrics_core.agreement.raters import mean_rating, most_active, one_against_others
from metrics_core.agreement.resampling import Draws, Resampled, draw, interval

ONE_RATER = "one rater"
"""The metric's name in rows of the human ceiling: each rater against the mean of the others, averaged over raters."""
BY_RATER = "pooled by rater"
"""The grouping in which a metric is compared with each rater alone, pooled; the mean over raters (VATEX-EVAL)."""
RATERS = "raters"
"""The metric's name in rows of Krippendorff's alpha, whose n and n_undefined count ratings."""


@dataclass(frozen=True, slots=True)
class AgreementRow:
    """One number of the agreement table, with its percentile interval.

    aspect: what people rated. grouping: how captions were grouped, see `Grouping`; "pooled without system means" and
    "pooled without length" are partial correlations, "pooled by rater" is the mean over single raters. value, low,
    high: None where undefined, and without an interval.
    n: the items of pooled, the videos of per_video, the systems of per_system and within_system that have a value.
    n_undefined: the items without a number on a side, or the groups without a value, which are left out.
    n_undefined_resamples: resamples without a value, which are left out of the interval. baseline: the metric knows
    nothing of quality.
    """

    metric: str
    aspect: str
    grouping: str
    statistic: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    n_undefined: int
    n_undefined_resamples: int
    baseline: bool


def agreement_rows(
    metrics: Mapping[str, npt.ArrayLike],
    ratings: Mapping[str, npt.ArrayLike],
    videos: Sequence[object],
    systems: Sequence[object | None] | None = None,
    *,
    lengths: npt.ArrayLike | None = None,
    baselines: Mapping[str, npt.ArrayLike] | None = None,
    resampled: Resampled = "videos",
    level: float = 0.95,
    n_resamples: int = 1000,
    seed: int = 0,
) -> tuple[AgreementRow, ...]:
    """Compare every metric and baseline with the mean rating of every aspect, and the raters with each other.

    metrics, baselines: values (n,) by name, NaN where undefined; a metric is compared on the items that it has a value
    for. ratings: (n, raters) by aspect, NaN where a rater gave none. videos, systems (n,): the groups of every item; a
    system of None is unknown. lengths (n,): of the texts, for partial correlations. resampled: see `Resampled`. Equal
    seeds draw equal resamples for all metrics. The cost grows with n log n of the items. Resamples of videos are
    computed to first order for more than 5,000 items, see `first_order`: limits then move by some hundredths of the
    interval's width.

    Soft pairwise accuracy rests on resamples itself and has no interval; of a single video nothing has one.
    Intervals of partial correlations take the systems' means and the line over lengths as known.

    Raises ValueError for shapes that do not fit, infinite numbers, a name used twice, a level outside (0, 1) and fewer
    than 1 resample.

    >>> rows = agreement_rows({"m": [1, 2, 3, 4]}, {"quality": [[1], [2], [2], [5]]}, ["a", "a", "b", "b"])
    >>> [(row.grouping, row.value, row.n) for row in rows if row.statistic == "kendall_b"][1]
    ('per_video', 1.0, 2)
    """
    inputs = checked_inputs(metrics, baselines or {}, ratings, videos, systems, lengths)
    if not 0 < level < 1 or n_resamples < 1:
        raise ValueError(f"level is {level}, n_resamples {n_resamples}: give a level inside (0, 1) and 1 or more.")
    draws = draw(inputs.n_videos, inputs.n_systems, resampled, n_resamples, seed)
    return tuple(row for aspect in inputs.ratings for row in _of_aspect(inputs, aspect, draws, level))


def _of_aspect(inputs: Inputs, aspect: str, draws: Draws, level: float) -> Iterator[AgreementRow]:
    """Yield the rows of one aspect."""
    rated = inputs.ratings[aspect]
    people = mean_rating(rated)
    n_rated = int(np.isfinite(people).sum())
    for name, values in inputs.values.items():
        kept = np.isfinite(values) & np.isfinite(people)
        found = compared(inputs, values, people, kept, draws)
        for grouping, resamples in found.items():
            yield from _rows((name, aspect, grouping), resamples, n_rated, level, name in inputs.baselines)
    of_raters = most_active(rated)
    if of_raters.shape[1] > 1:
        for name, values in inputs.values.items():
            by_rater = [pooled_with(inputs, values, one, draws) for one in of_raters.T]
            found = mean_of_raters([{BY_RATER: each} for each in by_rater])
            yield from _rows((name, aspect, BY_RATER), found[BY_RATER], n_rated, level, name in inputs.baselines)
    sides = [side for side in one_against_others(of_raters) if side[2].any()]
    ceilings = [compared(inputs, *side, draws) for side in sides]
    for grouping, resamples in mean_of_raters(ceilings).items():
        yield from _rows((ONE_RATER, aspect, grouping), resamples, n_rated, level)
    yield from _rows((RATERS, aspect, "pooled"), alpha_rows(rated, inputs.video, draws), None, level)


def _rows(
    names: tuple[str, str, str], found: Resamples, n_rated: int | None, level: float, baseline: bool = False
) -> Iterator[AgreementRow]:
    """Yield a row for every statistic of one metric, aspect and grouping."""
    metric, aspect, grouping = names
    for statistic, value in found.values.items():
        limits = interval(found.resampled[statistic], level)
        # Without a value for all the data, resamples that happen to have one say nothing.
        low, high = (None, None) if value is None else (limits.low, limits.high)
        n = found.n[statistic]
        n_undefined = found.n_undefined[statistic]
        if n_rated is not None and grouping.startswith("pooled"):
            n_undefined = n_rated - n
        yield AgreementRow(
            metric, aspect, grouping, statistic, value, low, high, n, n_undefined, limits.n_undefined, baseline
        )
