"""The uncertainty of a threshold: a bootstrap over labels, or over the videos that the labels come from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from metrics_core.arrays import FloatArray, IntArray, numbered
from metrics_core.calibration.labels import Labelled, checked_labels
from metrics_core.calibration.result import Objective, ThresholdInterval
from metrics_core.calibration.threshold import Parameters, best_cuts, counts_at, cuts_of, status_of

# Resamples are drawn in batches whose weights hold up to this many numbers (8 MiB); a batch has at least one resample.
CELLS = 1 << 20


def threshold_interval(
    scores: npt.ArrayLike,
    labels: npt.ArrayLike,
    objective: Objective = "f1",
    *,
    groups: Sequence[object] | None = None,
    grid_step: float | None = None,
    level: float = 0.95,
    n_resamples: int = 1000,
    seed: int = 0,
) -> ThresholdInterval:
    """Compute a percentile bootstrap interval of `best_threshold`. Its arguments and errors apply here, too.

    groups (n,): the group of every label, such as its video. The bootstrap draws groups with replacement; None draws
    single labels. The labels of a video resemble each other, so drawing them one by one makes the interval too narrow.
    The limits are thresholds that occurred. A wide interval means that the labels hardly decide where the threshold
    lies. Also raises ValueError unless level is between 0 and 1 and n_resamples at least 1.

    >>> interval = threshold_interval([0.9, 0.8, 0.7, 0.3, 0.2, 0.1], [1, 1, 1, 0, 0, 0])
    >>> interval.low, interval.high
    (0.7, 0.9)
    """
    parameters = Parameters(objective, grid_step, level, n_resamples, seed)
    return interval_of(checked_labels(scores, labels, groups)[0], parameters)


def interval_of(labelled: Labelled, parameters: Parameters) -> ThresholdInterval:
    """Compute `threshold_interval` of checked labels."""
    # Groups are numbered along the sorted labels, so that equal labels give equal intervals whatever labels came along.
    group_of = numbered(labelled.groups.tolist())
    n_groups = int(group_of.max(initial=-1)) + 1
    if n_groups < 2:
        return ThresholdInterval(None, None, parameters.level, n_groups, parameters.n_resamples, 0)
    cuts = cuts_of(labelled, parameters.grid_step)
    batches = []
    for weights in resamples(group_of, n_groups, parameters):
        totals = np.stack([weights @ labelled.labels, weights.sum(axis=1)], axis=1)
        defined = np.array([status_of(parameters.objective, *row) == "ok" for row in totals.tolist()])
        n_positive, n = totals[defined, :1], totals[defined, 1:]
        hits, predicted = counts_at(cuts, weights[defined] * labelled.labels), counts_at(cuts, weights[defined])
        batches.append(cuts.thresholds[best_cuts(parameters.objective, hits, predicted, n_positive, n)])
    thresholds = np.concatenate(batches)
    low, high = limits(thresholds, parameters.level)
    n_undefined = parameters.n_resamples - thresholds.size
    return ThresholdInterval(low, high, parameters.level, n_groups, parameters.n_resamples, n_undefined)


def resamples(group_of: IntArray, n_groups: int, parameters: Parameters) -> Iterator[IntArray]:
    """Yield batches of resamples as counts (resamples, n): how often every label was drawn.

    A resample draws n_groups groups with replacement, and a label is drawn as often as its group.
    """
    rng = np.random.default_rng(parameters.seed)
    at_once = max(1, CELLS // group_of.size)
    for start in range(0, parameters.n_resamples, at_once):
        rows = min(at_once, parameters.n_resamples - start)
        drawn = rng.integers(n_groups, size=(rows, n_groups)) + n_groups * np.arange(rows)[:, None]
        yield np.bincount(drawn.ravel(), minlength=rows * n_groups).reshape(rows, n_groups)[:, group_of]


def limits(thresholds: FloatArray, level: float) -> tuple[float | None, float | None]:
    """Return the limits of the middle `level` of the thresholds, which are thresholds themselves; None without any."""
    if thresholds.size == 0:
        return None, None
    outside = (1 - level) / 2
    low, high = np.quantile(thresholds, [outside, 1 - outside], method="inverted_cdf")
    return float(low), float(high)
