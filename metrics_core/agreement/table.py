"""The agreement table: every statistic of every metric, baseline and rater with people, in one list of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metrics_core.agreement.groupings import (
    Sides,
    averaged_videos,
    per_system,
    per_video,
    pooled,
    pooled_rest,
    within_system,
    without_length,
    without_system_means,
)
from metrics_core.agreement.pairs import held_out_accuracy, pooled_held_out_accuracy, soft_accuracy_of
from metrics_core.agreement.raters import OneRater, alphas, checked_ratings, list_counted, mean_rating, most_active
from metrics_core.arrays import BoolArray, FloatArray, IntArray, numbered
from metrics_core.intervals import BLOCKS, LEVEL, Found, blocks_of, mean_over_raters

ONE_RATER = "one rater"
"""The metric's name in rows of the human ceiling: each rater against the mean of the others, averaged over raters.

A rater counts by the items that they share with others; see `is_counted` for those who are left out.
"""
WITHOUT_ONE_RATER = "pooled without one rater"
"""The grouping in which a metric is held against the very means, on the very items, that ONE_RATER is held against."""
BY_RATER = "pooled by rater"
"""The grouping in which a metric is compared with each rater alone, pooled; the mean over raters (VATEX-EVAL)."""
CEILING = "kendall_b"
"""The statistic in which a metric is compared with one more rater."""
RATERS = "raters"
"""The metric's name in rows of Krippendorff's alpha, whose n and n_undefined count ratings."""
CALIBRATED = "pairwise_accuracy_calibrated"
"""Pairwise accuracy where small differences of the metric are ties; how small was chosen on the other half of the
videos."""
SOFT = "soft_pairwise_accuracy"


@dataclass(frozen=True, slots=True)
class AgreementRow:
    """One number of the agreement table, with its interval over videos.

    aspect: what people rated. grouping: how captions were grouped, see `Grouping`; "pooled without system means" and
    "pooled without length" are partial correlations, "pooled by rater" is the mean over single raters, "pooled without
    one rater" over the means of all raters but one. value, low, high: None where undefined, and without an interval.
    n: the items of pooled, the videos of per_video, the systems of per_system and within_system that have a value.
    n_undefined: the items without a number on a side, or the groups without a value, which are left out.
    n_undefined_resamples: blocks of videos without which there is no value; they do not count for the interval.
    baseline: the metric knows nothing of quality.
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


@dataclass(frozen=True)
class Inputs:
    """n items: metrics' and baselines' values (n,), NaN for undefined, ratings (n, raters), numbered groups (n,).

    block: the block of each item's video, see `blocks_of`. n_resamples, seed: of the flips of soft pairwise accuracy.
    """

    values: dict[str, FloatArray]
    baselines: tuple[str, ...]
    ratings: dict[str, FloatArray]
    video: IntArray
    system: IntArray
    block: IntArray
    lengths: FloatArray | None = None
    n_resamples: int = 1000
    seed: int = 0

    @property
    def n_videos(self) -> int:
        """The number of different videos."""
        return int(self.video.max(initial=-1)) + 1

    def sides(self, metric: FloatArray, people: FloatArray, kept: BoolArray) -> Sides:
        """A metric and people on the kept items."""
        return Sides(metric[kept], people[kept], self.video[kept], self.system[kept], self.block[kept])

    def sides_of(self, metric: FloatArray, people: FloatArray) -> Sides:
        """A metric and people on the items that have both numbers."""
        return self.sides(metric, people, np.isfinite(metric) & np.isfinite(people))


def agreement_rows(
    metrics: Mapping[str, npt.ArrayLike],
    ratings: Mapping[str, npt.ArrayLike],
    videos: Sequence[object],
    systems: Sequence[object | None] | None = None,
    *,
    lengths: npt.ArrayLike | None = None,
    baselines: Mapping[str, npt.ArrayLike] | None = None,
    level: float = LEVEL,
    n_resamples: int = 1000,
    seed: int = 0,
) -> tuple[AgreementRow, ...]:
    """Compare every metric and baseline with the mean rating of every aspect, and the raters with each other.

    metrics, baselines: values (n,) by name, NaN where undefined; a metric is compared on the items that it has a value
    for. ratings: (n, raters) by aspect, NaN where a rater gave none. videos, systems (n,): the groups of every item; a
    system of None is unknown. lengths (n,): of the texts, for partial correlations. n_resamples: the random flips of
    soft pairwise accuracy; seed: of the flips, and of the videos' blocks. The cost grows with n log n of the items.

    Soft pairwise accuracy rests on resamples itself and has no interval; of a single video nothing has one.
    Intervals of partial correlations take the systems' means and the line over lengths as known.

    Raises ValueError for shapes that do not fit, infinite numbers, a name used twice, a level outside (0, 1) and fewer
    than 1 resample.

    >>> rows = agreement_rows({"m": [1, 2, 3, 4]}, {"quality": [[1], [2], [2], [5]]}, ["a", "a", "b", "b"])
    >>> [(row.grouping, row.value, row.n) for row in rows if row.statistic == "kendall_b"][1]
    ('per_video', 1.0, 2)
    """
    options = {"n_resamples": n_resamples, "seed": seed}
    inputs = checked_inputs(metrics, ratings, videos, systems, lengths, baselines, **options)
    if not 0 < level < 1 or n_resamples < 1:
        raise ValueError(f"level is {level}, n_resamples {n_resamples}: give a level inside (0, 1) and 1 or more.")
    return tuple(row for aspect in inputs.ratings for row in _of_aspect(inputs, aspect, level))


def checked_inputs(
    metrics: Mapping[str, npt.ArrayLike],
    ratings: Mapping[str, npt.ArrayLike],
    videos: Sequence[object],
    systems: Sequence[object | None] | None = None,
    lengths: npt.ArrayLike | None = None,
    baselines: Mapping[str, npt.ArrayLike] | None = None,
    *,
    n_resamples: int = 1000,
    seed: int = 0,
) -> Inputs:
    """Check and convert the input of `agreement_rows`, and raise its ValueErrors."""
    n, baselines = len(videos), baselines or {}
    twice = sorted(set(metrics) & set(baselines))
    if twice:
        raise ValueError(f"{twice[0]!r} names a metric and a baseline: give them different names.")
    values = {name: _checked_values(name, side, n) for name, side in {**metrics, **baselines}.items()}
    rated = {aspect: checked_ratings(of_aspect) for aspect, of_aspect in ratings.items()}
    for aspect, of_aspect in rated.items():
        if len(of_aspect) != n:
            raise ValueError(f"{aspect} has ratings of {len(of_aspect)} items, there are {n}: give a row for each.")
    if lengths is not None:
        lengths = _checked_values("lengths", lengths, n)
        if np.isnan(lengths).any():
            raise ValueError("A length is NaN: every text has a length.")
    if systems is not None and len(systems) != n:
        raise ValueError(f"There are {len(systems)} systems for {n} items: give one for each.")
    video = numbered(videos)
    block = blocks_of(video, seed)
    system = _known_numbers(systems or [None] * n)
    return Inputs(values, tuple(baselines), rated, video, system, block, lengths, n_resamples, seed)


def _checked_values(name: str, values: npt.ArrayLike, n: int) -> FloatArray:
    """Return values (n,) as float64. Raises ValueError for another shape and infinite numbers."""
    side = np.asarray(values, dtype=np.float64)
    if side.shape != (n,):
        raise ValueError(f"{name} has shape {side.shape}: give one number for each of the {n} items.")
    if np.isinf(side).any():
        raise ValueError(f"{name} has an infinite value: give numbers, and NaN where it is undefined.")
    return side


def _known_numbers(systems: Sequence[object | None]) -> IntArray:
    """Number the systems of items from 0 in order of appearance, and None as -1."""
    known = np.array([system is not None for system in systems], dtype=np.bool_)
    number = np.full(len(systems), -1, dtype=np.int64)
    number[known] = numbered([system for system in systems if system is not None])
    return number


def _of_aspect(inputs: Inputs, aspect: str, level: float) -> Iterator[AgreementRow]:
    """Yield the rows of one aspect."""
    rated = inputs.ratings[aspect]
    people = mean_rating(rated)
    n_rated = int(np.isfinite(people).sum())
    for name, values in inputs.values.items():
        kept = np.isfinite(values) & np.isfinite(people)
        for grouping, found in compared(inputs, values, people, kept).items():
            yield from rows_of(
                (name, aspect, grouping), found, level, n_rated=n_rated, baseline=name in inputs.baselines
            )
    of_raters = rated[:, most_active(rated)]
    if of_raters.shape[1] > 1:
        for name, values in inputs.values.items():
            by_rater = [{BY_RATER: pooled(inputs.sides_of(values, one))} for one in of_raters.T]
            found = mean_over_raters(by_rater)[BY_RATER]
            yield from rows_of(
                (name, aspect, BY_RATER), found, level, n_rated=n_rated, baseline=name in inputs.baselines
            )
    counted = list_counted(rated)
    ceilings = [compared(inputs, each.own, each.others, each.shared) for each in counted]
    for grouping, found in mean_over_raters(ceilings, [each.n_shared for each in counted]).items():
        yield from rows_of((ONE_RATER, aspect, grouping), found, level, n_rated=n_rated)
    for name, values in inputs.values.items() if counted else ():
        yield from rows_of(
            (name, aspect, WITHOUT_ONE_RATER),
            without_one_rater(inputs, values, counted),
            level,
            n_rated=n_rated,
            baseline=name in inputs.baselines,
        )
    yield from rows_of((RATERS, aspect, "pooled"), alphas(rated, inputs.block), level)


def compared(inputs: Inputs, metric: FloatArray, people: FloatArray, kept: BoolArray) -> dict[str, Found]:
    """Compute the statistics of the kept items, by grouping. Groupings that need systems are absent without them."""
    sides = inputs.sides(metric, people, kept)
    of_videos = _with_calibrated_ties(per_video(sides, inputs.n_videos), sides, inputs)
    found = {"pooled": _with_pooled_ties(pooled(sides), sides, inputs), "per_video": of_videos}
    if inputs.lengths is not None:
        lengths = inputs.lengths[kept]
        found["pooled without length"] = pooled_rest(sides, lambda side, rows: without_length(side, lengths[rows]))
    known = sides.only(sides.system >= 0)
    if (inputs.system >= 0).any():
        found["pooled without system means"] = pooled_rest(
            known, lambda side, rows: without_system_means(side, known.system[rows])
        )
        found["per_system"] = _with_soft_accuracy(per_system(known), known, inputs)
        found["within_system"] = within_system(known)
    return found


def without_one_rater(inputs: Inputs, values: FloatArray, counted: Sequence[OneRater]) -> Found:
    """Hold values (n,) against the mean of all raters but one, on that one's items; the mean over the raters.

    counted: one rater or more. Raters count by the items that they share with others, with or without a value.
    """
    found = [
        {WITHOUT_ONE_RATER: pooled(inputs.sides(values, each.others, each.shared & np.isfinite(values)), (CEILING,))}
        for each in counted
    ]
    return mean_over_raters(found, [each.n_shared for each in counted])[WITHOUT_ONE_RATER]


def _with_calibrated_ties(found: Found, sides: Sides, inputs: Inputs) -> Found:
    """Add the pairwise accuracy with a held-out epsilon. Its interval takes epsilon as known."""
    by_video = held_out_accuracy(sides.metric, sides.people, sides.video, inputs.n_videos, inputs.seed)
    return found.joined(averaged_videos({CALIBRATED: by_video}, sides))


def _with_pooled_ties(found: Found, sides: Sides, inputs: Inputs) -> Found:
    """Add the same over the pairs of all items."""
    value, left_out = pooled_held_out_accuracy(
        sides.metric, sides.people, sides.video, sides.block, inputs.n_videos, inputs.seed
    )
    n = {CALIBRATED: sides.metric.size}
    return found.joined(Found({CALIBRATED: value}, {CALIBRATED: left_out}, n, {CALIBRATED: 0}, found.n_blocks))


def _with_soft_accuracy(found: Found, sides: Sides, inputs: Inputs) -> Found:
    """Add the soft pairwise accuracy, without an interval: it rests on resamples itself."""
    value = soft_accuracy_of(sides.metric, sides.people, sides.system, sides.video, inputs.n_resamples, inputs.seed)
    nothing = {SOFT: np.full(BLOCKS, np.nan)}
    return found.joined(Found({SOFT: value}, nothing, {SOFT: found.n["pearson"]}, {SOFT: 0}, 0))


def rows_of(
    names: tuple[str, str, str], found: Found, level: float, *, n_rated: int | None = None, baseline: bool = False
) -> Iterator[AgreementRow]:
    """Yield a row for every statistic of one metric, aspect and grouping. n_rated: the items that people rated."""
    for statistic in found.values:
        each, n, n_undefined = found.estimate(statistic, level), found.n[statistic], found.n_undefined[statistic]
        if n_rated is not None and names[2].startswith("pooled"):
            n_undefined = n_rated - n
        not_left = found.n_not_left(statistic)
        yield AgreementRow(*names, statistic, each.value, each.low, each.high, n, n_undefined, not_left, baseline)
