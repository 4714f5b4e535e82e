"""The agreement table: every statistic of every metric, baseline and rater with people, in one list of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from metrics_core.agreement.baseline_comparison import AspectComparisons, build_baseline_rows
from metrics_core.agreement.groupings import (
    ComparedValues,
    average_over_videos,
    compute_partial,
    compute_per_system,
    compute_per_video,
    compute_pooled,
    compute_within_system,
    subtract_length_trend,
    subtract_system_means,
)
from metrics_core.agreement.inputs import AgreementInputs, build_inputs
from metrics_core.agreement.pairs import (
    compute_held_out_accuracy,
    compute_pooled_held_out_accuracy,
    compute_soft_accuracy,
)
from metrics_core.agreement.raters import compute_alphas, list_most_active_raters
from metrics_core.agreement.row import (
    BY_RATER,
    CALIBRATED,
    ONE_RATER,
    RATERS,
    SOFT,
    WITHOUT_ONE_RATER,
    AgreementRow,
    build_agreement_rows,
)
from metrics_core.arrays import BoolArray, FloatArray
from metrics_core.intervals import BLOCKS, JackknifeStatistics, average_over_raters


def compute_agreement_rows(
    metrics: Mapping[str, npt.ArrayLike],
    ratings: Mapping[str, npt.ArrayLike],
    videos: Sequence[object],
    systems: Sequence[object | None] | None = None,
    *,
    lengths: npt.ArrayLike | None = None,
    baselines: Mapping[str, npt.ArrayLike] | None = None,
    n_resamples: int = 1000,
    seed: int = 0,
) -> tuple[AgreementRow, ...]:
    """Compare every metric and simple score with the mean rating of every aspect, and the raters with each other: all
    rows of the agreement table, aspect by aspect. metrics, baselines: values (n,) by name, NaN where undefined;
    baselines are simple scores. ratings: (n, raters) by aspect, NaN where a rater gave none. videos, systems (n,): the
    video and system of every item; None is an unknown system.

    A metric is compared on the items that it has a value for. lengths (n,): of the texts, for partial correlations.
    n_resamples: the random flips of soft pairwise accuracy; seed: of the flips, of the videos' blocks, and of the
    halves on which ties are calibrated. The cost grows with n log n of the items.

    Soft pairwise accuracy is computed from resamples itself and has no interval; with a single video nothing has one.
    Intervals of partial correlations take the systems' means and the line over lengths as known.

    Raises ValueError for shapes that do not fit, infinite numbers, a name used twice and fewer than 1 resample.

    >>> rows = compute_agreement_rows({"m": [1, 2, 3, 4]}, {"quality": [[1], [2], [2], [5]]}, ["a", "a", "b", "b"])
    >>> [(row.grouping, row.value, row.n) for row in rows if row.statistic == "kendall_b"][1]
    ('per_video', 1.0, 2)
    """
    options = {"n_resamples": n_resamples, "seed": seed}
    inputs = build_inputs(metrics, ratings, videos, systems, lengths, baselines, **options)
    if n_resamples < 1:
        raise ValueError(f"n_resamples is {n_resamples}: give 1 or more.")
    return tuple(row for aspect in inputs.ratings for row in _compute_aspect_rows(inputs, aspect))


def _compute_aspect_rows(inputs: AgreementInputs, aspect: str) -> Iterator[AgreementRow]:
    """Yield the agreement rows of one aspect."""
    comparisons = AspectComparisons(inputs, aspect)
    n_rated = int(comparisons.is_rated.sum())

    def rows(name: str, grouping: str, statistics: JackknifeStatistics) -> Iterator[AgreementRow]:
        return build_agreement_rows(
            (name, aspect, grouping), statistics, n_rated=n_rated, baseline=name in inputs.baselines
        )

    for name, values in inputs.values.items():
        kept = np.isfinite(values) & comparisons.is_rated
        by_grouping = _compute_groupings(inputs, values, comparisons.people, kept)
        comparisons.remember_pooled(name, kept, by_grouping["pooled"])
        for grouping, statistics in by_grouping.items():
            yield from rows(name, grouping, statistics)
    active_raters = comparisons.ratings[:, list_most_active_raters(comparisons.ratings)]
    if active_raters.shape[1] > 1:
        for name, values in inputs.values.items():
            by_rater = [
                {BY_RATER: compute_pooled(inputs.select_defined_items(values, ratings))} for ratings in active_raters.T
            ]
            yield from rows(name, BY_RATER, average_over_raters(by_rater)[BY_RATER])
    counted = comparisons.list_ceiling_raters(comparisons.is_rated)
    ceilings = [_compute_groupings(inputs, rater.ratings, rater.other_means, rater.is_shared) for rater in counted]
    for grouping, statistics in average_over_raters(ceilings, [rater.n_shared for rater in counted]).items():
        if grouping == "pooled":
            comparisons.remember_pooled(ONE_RATER, comparisons.is_rated, statistics)
        yield from rows(ONE_RATER, grouping, statistics)
    for name in inputs.values if counted else ():
        yield from rows(name, WITHOUT_ONE_RATER, comparisons.compute_without_one_rater(name, comparisons.is_rated))
    yield from build_agreement_rows((RATERS, aspect, "pooled"), compute_alphas(comparisons.ratings, inputs.block))
    for name in inputs.values:
        if name not in inputs.baselines:
            yield from build_baseline_rows(comparisons, name)


def _compute_groupings(
    inputs: AgreementInputs, metric: FloatArray, people: FloatArray, kept: BoolArray
) -> dict[str, JackknifeStatistics]:
    """Compute the statistics of a metric's values with people's ratings over the items where `kept` is True: a record
    by the name of the grouping, such as pooled or per_video. metric, people: (n,), finite where kept. Groupings that
    need lengths or systems are absent without them.
    """
    sides = inputs.select_items(metric, people, kept)
    by_video = _add_calibrated_ties(compute_per_video(sides, inputs.n_videos), sides, inputs)
    by_grouping = {"pooled": _add_pooled_ties(compute_pooled(sides), sides, inputs), "per_video": by_video}
    if inputs.lengths is not None:
        lengths = inputs.lengths[kept]
        by_grouping["pooled without length"] = compute_partial(
            sides, lambda side, rows: subtract_length_trend(side, lengths[rows])
        )
    known = sides.select_items(sides.system >= 0)
    if (inputs.system >= 0).any():
        by_grouping["pooled without system means"] = compute_partial(
            known, lambda side, rows: subtract_system_means(side, known.system[rows])
        )
        by_grouping["per_system"] = _add_soft_accuracy(compute_per_system(known), known, inputs)
        by_grouping["within_system"] = compute_within_system(known)
    return by_grouping


def _add_calibrated_ties(
    statistics: JackknifeStatistics, sides: ComparedValues, inputs: AgreementInputs
) -> JackknifeStatistics:
    """Add the pairwise accuracy with a held-out epsilon, averaged over videos. Its interval takes epsilon as known."""
    by_video = compute_held_out_accuracy(sides.metric, sides.people, sides.video, inputs.n_videos, inputs.seed)
    return statistics.merge(average_over_videos({CALIBRATED: by_video}, sides))


def _add_pooled_ties(
    statistics: JackknifeStatistics, sides: ComparedValues, inputs: AgreementInputs
) -> JackknifeStatistics:
    """Add the pairwise accuracy with a held-out epsilon over the pairs of all items."""
    value, jackknife_values = compute_pooled_held_out_accuracy(
        sides.metric, sides.people, sides.video, sides.block, inputs.n_videos, inputs.seed
    )
    n = {CALIBRATED: sides.metric.size}
    return statistics.merge(
        JackknifeStatistics(
            {CALIBRATED: value}, {CALIBRATED: jackknife_values}, n, {CALIBRATED: 0}, statistics.n_blocks
        )
    )


def _add_soft_accuracy(
    statistics: JackknifeStatistics, sides: ComparedValues, inputs: AgreementInputs
) -> JackknifeStatistics:
    """Add the soft pairwise accuracy, without an interval, as it is computed from resamples itself."""
    value = compute_soft_accuracy(
        sides.metric, sides.people, sides.system, sides.video, inputs.n_resamples, inputs.seed
    )
    nothing = {SOFT: np.full(BLOCKS, np.nan)}
    return statistics.merge(JackknifeStatistics({SOFT: value}, nothing, {SOFT: statistics.n["pearson"]}, {SOFT: 0}, 0))
