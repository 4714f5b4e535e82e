"""The agreement table: every statistic of every metric, baseline and rater with people, in one list of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from metrics_core.agreement.baseline_comparison import AspectComparisons, compare_with_rivals
from metrics_core.agreement.coefficients import KENDALL, TIED_PAIRS
from metrics_core.agreement.groupings import compute_per_system, compute_per_video, compute_pooled
from metrics_core.agreement.inputs import AgreementInputs, build_inputs
from metrics_core.agreement.pairs import compute_held_out_accuracy
from metrics_core.agreement.raters import compute_alphas
from metrics_core.agreement.row import CALIBRATED, ONE_RATER, RATERS, AgreementRow, Over, build_agreement_rows
from metrics_core.arrays import BoolArray, FloatArray
from metrics_core.intervals import JackknifeStatistics, average_over_raters


def compute_agreement_rows(
    metrics: Mapping[str, npt.ArrayLike],
    ratings: Mapping[str, npt.ArrayLike],
    videos: Sequence[object],
    systems: Sequence[object | None] | None = None,
    *,
    baselines: Mapping[str, npt.ArrayLike] | None = None,
    seed: int = 0,
) -> tuple[AgreementRow, ...]:
    """Compare every metric and simple score with the mean rating of every aspect, and raters with each other: all rows
    of the agreement table, aspect by aspect. metrics, baselines (simple scores): values (n,) by name, NaN where
    undefined. ratings: (n, raters) by aspect, NaN for none. videos, systems: (n,); None is an unknown system.

    A metric is compared on the items that it has a value for. seed: of the videos' blocks, and of the halves on which
    ties are calibrated. The cost grows with n log n of the items. With a single video nothing has an interval.

    Raises ValueError for shapes that do not fit, infinite numbers and a name used twice.

    >>> rows = compute_agreement_rows({"m": [1, 2, 3, 4]}, {"quality": [[1], [2], [2], [5]]}, ["a", "a", "b", "b"])
    >>> [(row.over, row.value, row.n) for row in rows if row.statistic == "kendall_b"][1]
    ('within a video', 1.0, 2)
    """
    inputs = build_inputs(metrics, ratings, videos, systems, baselines, seed=seed)
    return tuple(row for aspect in inputs.ratings for row in _compute_aspect_rows(inputs, aspect))


def _compute_aspect_rows(inputs: AgreementInputs, aspect: str) -> Iterator[AgreementRow]:
    """Yield the agreement rows of one aspect."""
    comparisons = AspectComparisons(inputs, aspect)
    n_rated = int(comparisons.is_rated.sum())

    def rows(name: str, compared: Mapping[Over, JackknifeStatistics], kept: BoolArray) -> Iterator[AgreementRow]:
        n_videos, baseline = inputs.count_videos(kept), name in inputs.baselines
        for over, statistics in compared.items():
            yield from build_agreement_rows(
                (name, aspect, over), statistics, n_videos, n_rated=n_rated, baseline=baseline
            )

    for name, values in inputs.values.items():
        kept = np.isfinite(values) & comparisons.is_rated
        compared = _compare(inputs, values, comparisons.people, kept)
        comparisons.remember_pooled(name, kept, compared["captions"])
        yield from rows(name, compared, kept)
    counted = comparisons.list_ceiling_raters(comparisons.is_rated)
    if counted:
        by_rater = [_compare(inputs, rater.ratings, rater.other_means, rater.is_shared) for rater in counted]
        ceiling = average_over_raters(by_rater, [rater.n_shared for rater in counted])
        comparisons.remember_pooled(ONE_RATER, comparisons.is_rated, ceiling["captions"])
        yield from rows(ONE_RATER, ceiling, np.any([rater.is_shared for rater in counted], axis=0))
    several = (~np.isnan(comparisons.ratings)).sum(axis=1) > 1
    alphas = compute_alphas(comparisons.ratings, inputs.block)
    yield from build_agreement_rows((RATERS, aspect, "captions"), alphas, inputs.count_videos(several))
    for name in inputs.values:
        if name not in inputs.baselines:
            yield from compare_with_rivals(comparisons, name)


def _compare(
    inputs: AgreementInputs, metric: FloatArray, people: FloatArray, kept: BoolArray
) -> dict[Over, JackknifeStatistics]:
    """Compute the statistics of a metric's values with people's ratings over the items where `kept` is True, by what is
    compared. metric, people: (n,), finite where kept. Nothing is compared over systems where none is known.
    """
    sides = inputs.select_items(metric, people, kept)
    value, jackknife_values = compute_held_out_accuracy(
        sides.metric, sides.people, sides.video, sides.block, inputs.n_videos, inputs.seed
    )
    captions = compute_pooled(sides, (KENDALL, TIED_PAIRS))
    calibrated = JackknifeStatistics(
        {CALIBRATED: value}, {CALIBRATED: jackknife_values}, {CALIBRATED: sides.metric.size}, {CALIBRATED: 0}, 0
    )
    compared: dict[Over, JackknifeStatistics] = {
        "captions": captions.merge(calibrated),
        "within a video": compute_per_video(sides, inputs.n_videos),
    }
    if (inputs.system >= 0).any():
        compared["systems"] = compute_per_system(sides.select_items(sides.system >= 0))
    return compared
