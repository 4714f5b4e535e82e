"""A threshold for every dimension: its own, or the pooled one where a dimension has too few labels."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from metrics_core.calibration.intervals import interval_of
from metrics_core.calibration.labels import Labelled, checked_labels
from metrics_core.calibration.result import CalibrationWarning, Objective, Threshold
from metrics_core.calibration.threshold import REASONS, Parameters, find_threshold, status_of


@dataclass(frozen=True, slots=True)
class DimensionThresholds:
    """The threshold of every dimension, and the pooled threshold, which comes from the labels of all dimensions."""

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
    """Find `best_threshold` and `threshold_interval` of every dimension. Their arguments and errors apply here, too.

    dimensions (n,): the dimension of every label. names: dimensions to list first in the result, even those without a
    label. A dimension gets the pooled threshold with its interval and a warning where it has fewer than min_labels
    labels, no positive label, or labels on which the objective is not defined; `counts` then still counts the
    dimension's own labels. Where the pooled threshold is not defined either, its status says why. One
    CalibrationWarning tells all warnings, and every threshold keeps its own.

    >>> scores, labels = [0.9, 0.8, 0.3, 0.2] * 5 + [0.6], [True, True, False, False] * 5 + [False]
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", CalibrationWarning)
    ...     thresholds = thresholds_by_dimension(scores, labels, ["events"] * 20 + ["camera"]).by_dimension
    >>> {name: (threshold.value, threshold.pooled) for name, threshold in thresholds.items()}
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
    """Find the threshold of a set of labels, with its interval."""
    return replace(find_threshold(labelled, parameters), interval=interval_of(labelled, parameters))


def own_or_pooled(labelled: Labelled, pooled: Threshold, parameters: Parameters, min_labels: int) -> Threshold:
    """Find the threshold of a dimension's own labels; where they do not suffice, return the pooled threshold."""
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
    """Warn the caller's caller once, with the warnings of all thresholds."""
    sentences = [f"{name}: {warning}" for name, threshold in thresholds.items() for warning in threshold.warnings]
    if sentences:
        warnings.warn("\n".join(sentences), CalibrationWarning, stacklevel=3)
