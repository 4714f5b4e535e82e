"""Finds the best threshold of labelled scores with its interval, and one for every dimension with enough labels."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from metrics_core.arrays import FloatArray, IntArray, number_groups
from metrics_core.calibration.labels import LabelledScores, sort_labelled_scores
from metrics_core.calibration.result import (
    CalibrationWarning,
    Confusion,
    Objective,
    Status,
    Threshold,
    ThresholdInterval,
)
from metrics_core.calibration.search import (
    SearchParameters,
    choose_best_thresholds,
    find_objective_status,
    list_possible_thresholds,
    sum_at_thresholds,
)

# A threshold that says yes to fewer or to more than these shares of the scores hardly separates any scores.
FEW, MANY = 0.05, 0.95

REASONS: dict[Status, str] = {
    "no_labels": "there is no label",
    "no_positive": "no label says yes",
    "no_negative": "no label says no",
}


def find_best_threshold(
    scores: npt.ArrayLike, labels: npt.ArrayLike, objective: Objective = "f1", *, grid_step: float | None = None
) -> Threshold:
    """Find the threshold t at which the predictions score >= t fit the labels best by an objective, with its agreement
    with the labels. The result has a status and no value where the objective is not defined. scores (n,) are finite,
    and higher scores mean yes; labels (n,) are True or False. Issues a CalibrationWarning where the threshold may be of
    no use.

    Candidates are all distinct scores and a value just above them, or the multiples of grid_step in [0, 1]. Of equally
    good ones, the largest wins. "f1" is Eq. 3 of the ECS paper.

    ==========  ==========================================================================================
    objective   the best threshold has
    ==========  ==========================================================================================
    f1          the greatest 2TP / (2TP + FP + FN)
    youden      the greatest recall minus false positive rate
    mcc         the greatest Matthews correlation; predicting all or nothing counts as 0
    coverage    as many predictions of yes as labels of yes, which keeps a system's mean at its labels' mean
    ==========  ==========================================================================================

    Where the objective is not defined on the labels, the result has a status and no value. Warns (CalibrationWarning)
    of constant scores, and of a threshold that says yes to more than 95 % or less than 5 % of the scores. Raises
    ValueError for shapes that do not fit, a score that is not finite, a label that is neither yes nor no, and unknown
    settings.

    >>> threshold = find_best_threshold([0.95, 0.90, 0.80, 0.60, 0.55, 0.30, 0.20, 0.05], [1, 1, 0, 1, 0, 0, 1, 0])
    >>> threshold.value, threshold.counts.f1
    (0.6, 0.75)
    >>> find_best_threshold([0.9, 0.2], [False, False]).status
    'no_positive'
    """
    parameters = SearchParameters(objective, grid_step)
    threshold = search_threshold(sort_labelled_scores(scores, labels, None)[0], parameters)
    if threshold.warnings:
        warnings.warn(" ".join(threshold.warnings), CalibrationWarning, stacklevel=2)
    return threshold


def search_threshold(labelled: LabelledScores, parameters: SearchParameters) -> Threshold:
    """Find the best threshold of sorted labelled scores by `parameters.objective`. The result has a status and no value
    where the objective is not defined. Warnings are in the result, and none is issued.
    """
    n, n_positive = labelled.labels.size, labelled.n_positive
    status = find_objective_status(parameters.objective, n_positive, n)
    if status != "ok":
        return Threshold(None, parameters.objective, n, n_positive, None, status, REASONS[status])
    possible = list_possible_thresholds(labelled, parameters.grid_step)
    hits, predicted = (
        sum_at_thresholds(possible, labelled.labels),
        sum_at_thresholds(possible, np.ones_like(labelled.labels)),
    )
    best = choose_best_thresholds(parameters.objective, hits, predicted, np.array([n_positive]), np.array([n]))
    value = float(possible.thresholds[best])
    counts = labelled.count_confusion(value)
    return Threshold(value, parameters.objective, n, n_positive, counts, warnings=_explain_doubts(labelled, counts))


def _explain_doubts(labelled: LabelledScores, counts: Confusion) -> tuple[str, ...]:
    """List sentences on why a threshold may be of no use: all scores are equal, or more than 95 % or less than 5 % of
    the scores reach it. () without doubts. counts: how its predictions agree with the labels.
    """
    sentences = []
    if labelled.scores[0] == labelled.scores[-1]:
        sentences.append(f"All {counts.n} scores are {labelled.scores[0]:g}: no threshold can tell these labels apart.")
    rate = counts.n_predicted / counts.n
    if not FEW <= rate <= MANY:
        sentence = (
            f"The threshold predicts yes for {rate:.1%} of the labels, while {counts.prevalence:.1%} of them are yes"
        )
        if counts.f1 is not None and counts.all_positive_f1 is not None:
            sentence += f": F1 is {counts.f1:.3f}, and {counts.all_positive_f1:.3f} for always predicting yes"
        sentences.append(f"{sentence}.")
    return tuple(sentences)


@dataclass(frozen=True, slots=True)
class DimensionThresholds:
    """The thresholds of labels in several dimensions. pooled: the threshold of the labels of all dimensions together.
    by_dimension: a Threshold by the name of the dimension.
    """

    pooled: Threshold
    by_dimension: Mapping[str, Threshold]


def find_dimension_thresholds(
    scores: npt.ArrayLike,
    labels: npt.ArrayLike,
    dimensions: Sequence[str],
    objective: Objective = "f1",
    *,
    names: Sequence[str] = (),
    groups: Sequence[object] | None = None,
    grid_step: float | None = None,
    min_labels: int = 20,
    level: float = 0.95,
    n_resamples: int = 1000,
    seed: int = 0,
) -> DimensionThresholds:
    """Find the best threshold and its interval for every dimension of labelled scores, and one pooled over all
    dimensions. A dimension with too few labels gets the pooled threshold and a warning. scores, labels, dimensions:
    (n,), where `dimensions` has the name of every label's dimension. names: dimensions to list first in the result,
    even those without a label. Issues one CalibrationWarning with all warnings.

    The arguments and errors of `find_best_threshold` and `compute_threshold_interval` apply here, too. A dimension gets
    the pooled threshold with its interval where it has fewer than min_labels labels, no positive label, or labels on
    which the objective is not defined; `counts` then still counts the dimension's own labels. Where the pooled
    threshold is not defined either, its status says why. Every threshold also keeps its own warnings.

    >>> scores, labels = [0.9, 0.8, 0.3, 0.2] * 5 + [0.6], [True, True, False, False] * 5 + [False]
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", CalibrationWarning)
    ...     thresholds = find_dimension_thresholds(scores, labels, ["events"] * 20 + ["camera"]).by_dimension
    >>> {name: (threshold.value, threshold.pooled) for name, threshold in thresholds.items()}
    {'events': (0.8, False), 'camera': (0.8, True)}
    """
    parameters = SearchParameters(objective, grid_step, level, n_resamples, seed)
    everything, order = sort_labelled_scores(scores, labels, groups)
    if len(dimensions) != order.size:
        raise ValueError(f"There are {len(dimensions)} dimensions for {order.size} labels: give one for each label.")
    dimension_of = np.array(dimensions, dtype=object)[order]
    pooled = _calibrate_threshold(everything, parameters)
    by_dimension = {
        name: _choose_own_or_pooled(everything.select_rows(dimension_of == name), pooled, parameters, min_labels)
        for name in dict.fromkeys([*names, *dimensions])
    }
    _warn_once({"all dimensions": pooled, **by_dimension})
    return DimensionThresholds(pooled, by_dimension)


def _calibrate_threshold(labelled: LabelledScores, parameters: SearchParameters) -> Threshold:
    """Find the best threshold of labelled scores by `parameters.objective`, with its bootstrap interval. The result has
    a status and no value where the objective is not defined. Warnings are in the result, and none is issued.
    """
    return replace(search_threshold(labelled, parameters), interval=_bootstrap_interval(labelled, parameters))


def _choose_own_or_pooled(
    labelled: LabelledScores, pooled: Threshold, parameters: SearchParameters, min_labels: int
) -> Threshold:
    """Find the threshold of a dimension's own labels. Return the pooled threshold, with the counts of the dimension's
    labels and a warning, where there are fewer than min_labels, no label that says yes, or the objective is not
    defined.
    """
    n, n_positive = labelled.labels.size, labelled.n_positive
    status = find_objective_status(parameters.objective, n_positive, n) if n_positive else "no_positive"
    if n < min_labels:
        labels = "label" if n == 1 else "labels"
        why = f"the dimension has {n} {labels}, fewer than {min_labels}"
    elif status != "ok":
        why = REASONS[status]
    else:
        return _calibrate_threshold(labelled, parameters)
    if pooled.value is None:
        return replace(pooled, n=n, n_positive=n_positive, pooled=True)
    warning = f"The threshold of all dimensions together applies, because {why}."
    counts = labelled.count_confusion(pooled.value)
    return replace(pooled, n=n, n_positive=n_positive, counts=counts, pooled=True, warnings=(warning,))


def _warn_once(thresholds: Mapping[str, Threshold]) -> None:
    """Issue one CalibrationWarning, to the caller's caller, with the warnings of all thresholds, each after its name in
    `thresholds`. Issue none where there are no warnings.
    """
    sentences = [f"{name}: {warning}" for name, threshold in thresholds.items() for warning in threshold.warnings]
    if sentences:
        warnings.warn("\n".join(sentences), CalibrationWarning, stacklevel=3)


# Resamples are drawn in batches whose weights hold up to this many numbers (8 MiB); a batch has at least one resample.
CELLS = 1 << 20


def compute_threshold_interval(
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
    """Compute a percentile bootstrap interval of the threshold that `find_best_threshold` finds, by drawing groups of
    labels at random by the seed. groups (n,): the group of every label, such as its video; None draws single labels.
    level: the share of resamples inside the interval. The limits are None with fewer than two groups, or where no
    resample has a threshold.

    The other arguments and errors of `find_best_threshold` apply here, too. The labels of a video resemble each other,
    so drawing them one by one makes the interval too narrow. The limits are thresholds that occurred. A wide interval
    means that the labels hardly decide where the threshold lies. Also raises ValueError unless level is between 0 and 1
    and n_resamples at least 1.

    >>> interval = compute_threshold_interval([0.9, 0.8, 0.7, 0.3, 0.2, 0.1], [1, 1, 1, 0, 0, 0])
    >>> interval.low, interval.high
    (0.7, 0.9)
    """
    parameters = SearchParameters(objective, grid_step, level, n_resamples, seed)
    return _bootstrap_interval(sort_labelled_scores(scores, labels, groups)[0], parameters)


def _bootstrap_interval(labelled: LabelledScores, parameters: SearchParameters) -> ThresholdInterval:
    """Compute the percentile bootstrap interval of the best threshold of sorted labelled scores, by drawing groups of
    labels at random by `parameters.seed`. The limits are None with fewer than two groups, or where no resample has a
    threshold.
    """
    # Groups are numbered along the sorted labels, so that equal labels give equal intervals whatever labels came along.
    group_of = number_groups(labelled.groups.tolist())
    n_groups = int(group_of.max(initial=-1)) + 1
    if n_groups < 2:
        return ThresholdInterval(None, None, parameters.level, n_groups, parameters.n_resamples, 0)
    possible = list_possible_thresholds(labelled, parameters.grid_step)
    batches = []
    for weights in draw_resamples(group_of, n_groups, parameters):
        totals = np.stack([weights @ labelled.labels, weights.sum(axis=1)], axis=1)
        defined = np.array([find_objective_status(parameters.objective, *row) == "ok" for row in totals.tolist()])
        n_positive, n = totals[defined, :1], totals[defined, 1:]
        hits, predicted = (
            sum_at_thresholds(possible, weights[defined] * labelled.labels),
            sum_at_thresholds(possible, weights[defined]),
        )
        batches.append(
            possible.thresholds[choose_best_thresholds(parameters.objective, hits, predicted, n_positive, n)]
        )
    thresholds = np.concatenate(batches)
    low, high = compute_percentile_limits(thresholds, parameters.level)
    n_undefined = parameters.n_resamples - thresholds.size
    return ThresholdInterval(low, high, parameters.level, n_groups, parameters.n_resamples, n_undefined)


def draw_resamples(group_of: IntArray, n_groups: int, parameters: SearchParameters) -> Iterator[IntArray]:
    """Yield batches of bootstrap resamples as counts (resamples, n): how often every label was drawn, at random by the
    seed in `parameters`. group_of: (n,), the number of each label's group, from 0 to n_groups - 1. A resample draws
    n_groups groups with replacement, and a label is drawn as often as its group.
    """
    rng = np.random.default_rng(parameters.seed)
    at_once = max(1, CELLS // group_of.size)
    for start in range(0, parameters.n_resamples, at_once):
        rows = min(at_once, parameters.n_resamples - start)
        drawn = rng.integers(n_groups, size=(rows, n_groups)) + n_groups * np.arange(rows)[:, None]
        yield np.bincount(drawn.ravel(), minlength=rows * n_groups).reshape(rows, n_groups)[:, group_of]


def compute_percentile_limits(thresholds: FloatArray, level: float) -> tuple[float | None, float | None]:
    """Compute the limits (low, high) of the middle share `level` of the thresholds (n,), which are themselves
    thresholds. (None, None) without thresholds.
    """
    if thresholds.size == 0:
        return None, None
    outside = (1 - level) / 2
    low, high = np.quantile(thresholds, [outside, 1 - outside], method="inverted_cdf")
    return float(low), float(high)
