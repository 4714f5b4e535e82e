"""A threshold for each dimension, or the pooled one where a dimension has too little to go by."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from metrics_core.calibration.intervals import interval_of
from metrics_core.calibration.labels import Labelled, checked_labels
from metrics_core.calibration.objectives import Parameters, status_of
from metrics_core.calibration.result import CalibrationWarning, Objective, Threshold
from metrics_core.calibration.threshold import REASONS, find_threshold


@dataclass(frozen=True, slots=True)
class DimensionThresholds:
    """The thresholds of all dimensions, and the one of all their labels together."""

    pooled: Threshold
    by_dimension: Mapping[str, Threshold]


def thresholds_by_dimension(
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
    """`best_threshold` of each dimension, each with its `threshold_interval`, whose arguments and errors these are.

    dimensions (n,): the dimension of each label. names: dimensions that come first in the result and are in it even
    without a label. A dimension with fewer than min_labels labels, without a positive one, or on whose labels the
    objective is not defined gets the pooled threshold, its interval and a warning; its counts are those of its own
    labels. Where the pooled one is not defined either, its status says why. All warnings come as one
    CalibrationWarning, and each stands in its threshold.

    >>> scores, labels = [0.9, 0.8, 0.3, 0.2] * 5 + [0.6], [True, True, False, False] * 5 + [False]
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", CalibrationWarning)
    ...     found = thresholds_by_dimension(scores, labels, ["events"] * 20 + ["camera"])
    >>> {name: (each.value, each.pooled) for name, each in found.by_dimension.items()}
    {'events': (0.8, False), 'camera': (0.8, True)}
    """
    parameters = Parameters(objective, grid_step, level, n_resamples, seed)
    everything, order = checked_labels(scores, labels, groups)
    if len(dimensions) != order.size:
        raise ValueError(f"There are {len(dimensions)} dimensions for {order.size} labels: give one for each label.")
    dimension_of = np.array(dimensions, dtype=object)[order]
    pooled = calibrated(everything, parameters)
    by_dimension = {
        name: own_or_pooled(everything.only(dimension_of == name), pooled, parameters, min_labels)
        for name in dict.fromkeys([*names, *dimensions])
    }
    warn_of_all({"all dimensions": pooled, **by_dimension})
    return DimensionThresholds(pooled, by_dimension)


def calibrated(labelled: Labelled, parameters: Parameters) -> Threshold:
    """The threshold of some labels with its interval."""
    return replace(find_threshold(labelled, parameters), interval=interval_of(labelled, parameters))


def own_or_pooled(labelled: Labelled, pooled: Threshold, parameters: Parameters, min_labels: int) -> Threshold:
    """The threshold of a dimension's own labels, or the pooled one where they do not suffice."""
    n, n_positive = labelled.labels.size, labelled.n_positive
    status = status_of(parameters.objective, n_positive, n) if n_positive else "no_positive"
    if n < min_labels:
        why = f"there are {n} label(s), fewer than {min_labels}"
    elif status != "ok":
        why = REASONS[status]
    else:
        return calibrated(labelled, parameters)
    if pooled.value is None:
        return replace(pooled, n=n, n_positive=n_positive, pooled=True)
    warning = f"The threshold of all dimensions together applies, because {why}."
    counts = labelled.confusion(pooled.value)
    return replace(pooled, n=n, n_positive=n_positive, counts=counts, pooled=True, warnings=(warning,))


def warn_of_all(thresholds: Mapping[str, Threshold]) -> None:
    """Warn the caller's caller once of all that the thresholds' warnings say."""
    sentences = [f"{name}: {warning}" for name, each in thresholds.items() for warning in each.warnings]
    if sentences:
        warnings.warn("\n".join(sentences), CalibrationWarning, stacklevel=3)
