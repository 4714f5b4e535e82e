"""Finds the best threshold of a set of labelled scores."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import get_args

import numpy as np
import numpy.typing as npt

from metrics_core.arrays import FloatArray, IntArray
from metrics_core.calibration.labels import Labelled, checked_labels
from metrics_core.calibration.result import CalibrationWarning, Confusion, Objective, Status, Threshold

# The search for a threshold: its settings, its candidates, and the choice of the best one.


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
    """Whether a whole number of such steps leads from 0 to 1."""
    return 0 < step <= 1 and math.isclose(round(1 / step) * step, 1.0, rel_tol=1e-9)


def status_of(objective: Objective, n_positive: int, n: int) -> Status:
    """Say whether the objective is defined where `n_positive` of `n` labels say yes, and if not, why."""
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
    """Choose the best cut: indices (..). Of equally good cuts the first one counts, which is the largest threshold.

    At a cut, `predicted` (.., c) scores say yes, and `hits` (.., c) of them are right. `n_positive` of `n` labels say
    yes, both (.., 1).
    """
    best: npt.NDArray[np.intp] = np.argmax(ranks(objective, hits, predicted, n_positive, n), axis=-1)
    return best


def ranks(objective: Objective, hits: IntArray, predicted: IntArray, n_positive: IntArray, n: IntArray) -> FloatArray:
    """Rank every cut by a number that grows with the objective and is equal where the objective is equal.

    The numbers are whole, or one quotient of whole numbers, because more rounding would break ties. A cut that predicts
    all or nothing has no MCC and ranks as 0, because such a prediction tells nothing.
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
class Cuts:
    """Candidate thresholds (c,), from the largest down, and the number of scores that reach a threshold (c,)."""

    thresholds: FloatArray
    n_reaching: IntArray


def cuts_of(labelled: Labelled, grid_step: float | None) -> Cuts:
    """List the candidates: every distinct score and one above them all, or the multiples of `grid_step` in [0, 1]."""
    rising = labelled.scores[::-1]
    if grid_step is None:
        distinct = np.unique(rising)
        thresholds = np.append(distinct, np.nextafter(distinct[-1:], np.inf))[::-1]
    else:
        n_steps = round(1 / grid_step)
        # Quotients of whole numbers are the floats nearest to the decimals; sums of steps are not.
        thresholds = (np.arange(n_steps + 1) / n_steps)[::-1]
    return Cuts(thresholds, rising.size - np.searchsorted(rising, thresholds, side="left"))


def counts_at(cuts: Cuts, weights: IntArray) -> IntArray:
    """Sum `weights` (.., n) of the sorted scores over the scores that reach a cut: (.., c)."""
    sums = np.zeros((*weights.shape[:-1], weights.shape[-1] + 1), dtype=np.int64)
    weights.cumsum(axis=-1, out=sums[..., 1:])
    counts: IntArray = sums[..., cuts.n_reaching]
    return counts


# A threshold that says yes to fewer or to more than these shares of the scores hardly tells one score from another.
FEW, MANY = 0.05, 0.95

REASONS: dict[Status, str] = {
    "no_labels": "there is no label",
    "no_positive": "no label says yes",
    "no_negative": "no label says no",
}


def best_threshold(
    scores: npt.ArrayLike, labels: npt.ArrayLike, objective: Objective = "f1", *, grid_step: float | None = None
) -> Threshold:
    """Find the threshold t at which the predictions score >= t fit the labels best (Eq. 3 of the ECS paper for "f1").

    scores (n,) are finite, and higher scores mean yes; labels (n,) are True or False. Candidates are all distinct
    scores and a value just above them, or the multiples of grid_step in [0, 1]. Of equally good ones, the largest wins.

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

    >>> threshold = best_threshold([0.95, 0.90, 0.80, 0.60, 0.55, 0.30, 0.20, 0.05], [1, 1, 0, 1, 0, 0, 1, 0])
    >>> threshold.value, threshold.counts.f1
    (0.6, 0.75)
    >>> best_threshold([0.9, 0.2], [False, False]).status
    'no_positive'
    """
    parameters = Parameters(objective, grid_step)
    threshold = find_threshold(checked_labels(scores, labels, None)[0], parameters)
    if threshold.warnings:
        warnings.warn(" ".join(threshold.warnings), CalibrationWarning, stacklevel=2)
    return threshold


def find_threshold(labelled: Labelled, parameters: Parameters) -> Threshold:
    """Find `best_threshold` of checked labels. Warnings are in the result, and none is raised."""
    n, n_positive = labelled.labels.size, labelled.n_positive
    status = status_of(parameters.objective, n_positive, n)
    if status != "ok":
        return Threshold(None, parameters.objective, n, n_positive, None, status, REASONS[status])
    cuts = cuts_of(labelled, parameters.grid_step)
    hits, predicted = counts_at(cuts, labelled.labels), counts_at(cuts, np.ones_like(labelled.labels))
    best = best_cuts(parameters.objective, hits, predicted, np.array([n_positive]), np.array([n]))
    value = float(cuts.thresholds[best])
    counts = labelled.confusion(value)
    return Threshold(value, parameters.objective, n, n_positive, counts, warnings=doubts(labelled, counts))


def doubts(labelled: Labelled, counts: Confusion) -> tuple[str, ...]:
    """Write sentences on why the threshold may be of no use."""
    sentences = []
    if labelled.scores[0] == labelled.scores[-1]:
        sentences.append(f"All {counts.n} scores are {labelled.scores[0]:g}: no threshold can tell these labels apart.")
    rate = counts.n_predicted / counts.n
    if not FEW <= rate <= MANY:
        sentence = f"The threshold says yes to {rate:.1%} of the labels, and {counts.prevalence:.1%} of them are yes"
        if counts.f1 is not None and counts.all_positive_f1 is not None:
            sentence += f": F1 is {counts.f1:.3f}, and {counts.all_positive_f1:.3f} for always saying yes"
        sentences.append(f"{sentence}.")
    return tuple(sentences)
