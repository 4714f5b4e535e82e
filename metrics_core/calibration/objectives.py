"""What a threshold is chosen for, and the settings of the search."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import get_args

import numpy as np
import numpy.typing as npt

from metrics_core.calibration.labels import FloatArray, IntArray
from metrics_core.calibration.result import Objective, Status


@dataclass(frozen=True, slots=True)
class Parameters:
    """The settings of the search and of its bootstrap, checked."""

    objective: Objective = "f1"
    grid_step: float | None = None
    level: float = 0.95
    n_resamples: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.objective not in get_args(Objective):
            raise ValueError(f"objective is {self.objective!r}: give one of {', '.join(get_args(Objective))}.")
        if self.grid_step is not None and not divides_one(self.grid_step):
            raise ValueError(f"grid_step is {self.grid_step}: give a step that divides 1, such as 0.05.")
        if not 0 < self.level < 1:
            raise ValueError(f"level is {self.level}: give the share of resamples inside the interval, such as 0.95.")
        if self.n_resamples < 1:
            raise ValueError(f"n_resamples is {self.n_resamples}: give at least 1.")


def divides_one(step: float) -> bool:
    """Whether steps of this size lead from 0 to 1."""
    return 0 < step <= 1 and math.isclose(round(1 / step) * step, 1.0, rel_tol=1e-9)


def status_of(objective: Objective, n_positive: int, n: int) -> Status:
    """Whether the objective is defined on labels of which `n_positive` of `n` say yes, and if not, why."""
    if n == 0:
        return "no_labels"
    if n_positive == 0 and objective != "coverage":
        return "no_positive"
    if n_positive == n and objective in ("youden", "mcc"):
        return "no_negative"
    return "ok"


def best_cuts(
    objective: Objective, hits: IntArray, predicted: IntArray, n_positive: IntArray, n: IntArray
) -> npt.NDArray[np.intp]:
    """Index (..) of the best of the cuts (.., c); of equally good ones the first, which is the largest threshold.

    `hits` of `predicted` are right at each cut; `n_positive` of `n` labels say yes, (.., 1).
    """
    best: npt.NDArray[np.intp] = np.argmax(ranks(objective, hits, predicted, n_positive, n), axis=-1)
    return best


def ranks(objective: Objective, hits: IntArray, predicted: IntArray, n_positive: IntArray, n: IntArray) -> FloatArray:
    """A number for each cut that grows with the objective, and is equal where the objective is equal.

    Whole numbers, or one quotient of them: more rounding would break ties. An MCC that is not defined, of a cut that
    predicts all or nothing, ranks as 0, because such a prediction tells nothing.
    """
    ranked: FloatArray
    # The numerator of Youden's J and of MCC; their denominators hold n_positive and n_negative, the same at every cut.
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
