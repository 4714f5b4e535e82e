"""Searches the best threshold among the scores of labelled decisions: its settings, the possible thresholds, and the
choice of the best one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import get_args

import numpy as np
import numpy.typing as npt

from metrics_core.arrays import FloatArray, IntArray
from metrics_core.calibration.labels import LabelledScores
from metrics_core.calibration.result import (
    Objective,
    Status,
)


@dataclass(frozen=True, slots=True)
class SearchParameters:
    """The settings of the search for a threshold and of its bootstrap. objective: the measure by which a threshold is
    best, see `find_best_threshold`. grid_step: the step of the thresholds in [0, 1], or None to choose among the scores
    themselves. level: the share of resamples inside the interval. Raises ValueError, when built, for settings that are
    not possible.
    """

    objective: Objective = "f1"
    grid_step: float | None = None
    level: float = 0.95
    n_resamples: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.objective not in get_args(Objective):
            raise ValueError(f"objective is {self.objective!r}: give one of {', '.join(get_args(Objective))}.")
        if self.grid_step is not None and not _is_divisor_of_one(self.grid_step):
            raise ValueError(f"grid_step is {self.grid_step}: give a step that divides 1, such as 0.05.")
        if not 0 < self.level < 1:
            raise ValueError(f"level is {self.level}: give the share of resamples inside the interval, such as 0.95.")
        if self.n_resamples < 1:
            raise ValueError(f"n_resamples is {self.n_resamples}: give at least 1.")


def _is_divisor_of_one(step: float) -> bool:
    """Whether a whole number of steps of this size leads from 0 to 1, with room for rounding. False for steps of 0 or
    less and above 1.
    """
    return 0 < step <= 1 and math.isclose(round(1 / step) * step, 1.0, rel_tol=1e-9)


def find_objective_status(objective: Objective, n_positive: int, n: int) -> Status:
    """Return "ok" where the objective is defined if `n_positive` of `n` labels say yes. Otherwise return "no_labels",
    "no_positive" or "no_negative", which names what is missing.
    """
    if n == 0:
        return "no_labels"
    if n_positive == 0 and objective != "coverage":
        return "no_positive"
    if n_positive == n and objective in ("youden", "mcc"):
        return "no_negative"
    return "ok"


def choose_best_thresholds(
    objective: Objective, hits: IntArray, predicted: IntArray, n_positive: IntArray, n: IntArray
) -> npt.NDArray[np.intp]:
    """Choose the threshold that is best by the objective: its index among the c thresholds, in an integer array (..).
    Of equally good ones the first one counts, which is the largest. At a threshold, `predicted` (.., c) scores say yes,
    and `hits` (.., c) of these predictions are right. `n_positive` of `n` labels say yes, both (.., 1).
    """
    best: npt.NDArray[np.intp] = np.argmax(_rank_thresholds(objective, hits, predicted, n_positive, n), axis=-1)
    return best


def _rank_thresholds(
    objective: Objective, hits: IntArray, predicted: IntArray, n_positive: IntArray, n: IntArray
) -> FloatArray:
    """Compute for every threshold a number (.., c) that grows with the objective and is equal where the objective is
    equal. At a threshold, `predicted` (.., c) scores say yes, and `hits` (.., c) of these predictions are right.
    `n_positive` of `n` labels say yes, both (.., 1).

    The numbers are whole, or one quotient of whole numbers, because more rounding would break ties. A threshold that
    predicts all or nothing has no MCC and ranks as 0, because such a prediction has no information.
    """
    ranked: FloatArray
    # The numerator of Youden's J and of MCC. The factors n_positive and n_negative of their denominators never change.
    association = (hits * n - predicted * n_positive).astype(np.float64)
    if objective == "f1":
        ranked = 2 * hits / (n_positive + predicted)
    elif objective == "coverage":
        ranked = -np.abs(predicted - n_positive).astype(np.float64)
    elif objective == "youden":
        ranked = association
    else:
        margins = (predicted * (n - predicted)).astype(np.float64)
        signed_square = association * np.abs(association)
        ranked = np.divide(signed_square, margins, out=np.zeros_like(margins), where=margins > 0)
    return ranked


@dataclass(frozen=True, slots=True, eq=False)
class PossibleThresholds:
    """The thresholds to choose from. thresholds: (c,), from the largest down. n_reaching: (c,), how many scores are as
    high as the threshold or higher.
    """

    thresholds: FloatArray
    n_reaching: IntArray


def list_possible_thresholds(labelled: LabelledScores, grid_step: float | None) -> PossibleThresholds:
    """List the thresholds to choose from, from the largest down, with the number of scores that reach them. They are
    every distinct score and one value above them all, or, with a grid_step, its multiples in [0, 1].
    """
    rising = labelled.scores[::-1]
    if grid_step is None:
        distinct = np.unique(rising)
        thresholds = np.append(distinct, np.nextafter(distinct[-1:], np.inf))[::-1]
    else:
        n_steps = round(1 / grid_step)
        # Quotients of whole numbers are the floats nearest to the decimals; sums of steps are not.
        thresholds = (np.arange(n_steps + 1) / n_steps)[::-1]
    return PossibleThresholds(thresholds, rising.size - np.searchsorted(rising, thresholds, side="left"))


def sum_at_thresholds(possible: PossibleThresholds, weights: IntArray) -> IntArray:
    """Sum the weights of the scores that reach a threshold, for every possible threshold: an array (.., c). weights:
    (.., n), in the order of the scores from the highest down.
    """
    sums = np.zeros((*weights.shape[:-1], weights.shape[-1] + 1), dtype=np.int64)
    weights.cumsum(axis=-1, out=sums[..., 1:])
    counts: IntArray = sums[..., possible.n_reaching]
    return counts
