"""The best threshold of a set of labelled scores."""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt

from metrics_core.calibration.cuts import counts_at, cuts_of
from metrics_core.calibration.labels import Labelled, checked_labels
from metrics_core.calibration.objectives import Parameters, best_cuts, status_of
from metrics_core.calibration.result import CalibrationWarning, Confusion, Objective, Status, Threshold

# Beyond these shares of predicted yes, a threshold hardly tells one keypoint from another.
FEW, MANY = 0.05, 0.95

REASONS: dict[Status, str] = {
    "no_labels": "there is no label",
    "no_positive": "no label says yes",
    "no_negative": "no label says no",
}


def best_threshold(
    scores: npt.ArrayLike, labels: npt.ArrayLike, objective: Objective = "f1", *, grid_step: float | None = None
) -> Threshold:
    """The threshold t for which the predictions score >= t fit the labels best (Eq. 3 of the ECS paper for "f1").

    scores (n,) are finite and higher for yes; labels (n,) are True or False. Candidates are all distinct scores and a
    value just above them, or with grid_step its multiples in [0, 1]; of equally good ones the largest counts.

    ==========  ==========================================================================================
    objective   what is best
    ==========  ==========================================================================================
    f1          the greatest 2TP / (2TP + FP + FN)
    youden      the greatest recall less false positive rate
    mcc         the greatest Matthews correlation; predicting all or nothing counts as 0
    coverage    as many predicted yes as labelled yes, which keeps a system's mean where the labels put it
    ==========  ==========================================================================================

    Labels on which the objective is not defined give a status and no value. Warns (CalibrationWarning) of constant
    scores, and of a threshold that says yes to more than 95 % or less than 5 % of the labels. Raises ValueError for
    shapes that do not fit, a score that is not finite, a label that is neither yes nor no, and unknown settings.

    >>> found = best_threshold([0.95, 0.90, 0.80, 0.60, 0.55, 0.30, 0.20, 0.05], [1, 1, 0, 1, 0, 0, 1, 0])
    >>> found.value, found.counts.f1
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
    """`best_threshold` of checked labels; its warnings are in the result only."""
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
    """Sentences on why the threshold may be of no use."""
    found = []
    if labelled.scores[0] == labelled.scores[-1]:
        found.append(f"All {counts.n} scores are {labelled.scores[0]:g}: no threshold can tell these labels apart.")
    rate = counts.n_predicted / counts.n
    if not FEW <= rate <= MANY:
        sentence = f"The threshold says yes to {rate:.1%} of the labels, and {counts.prevalence:.1%} of them are yes"
        if counts.f1 is not None and counts.all_positive_f1 is not None:
            sentence += f": F1 is {counts.f1:.3f}, and {counts.all_positive_f1:.3f} for always saying yes"
        found.append(f"{sentence}.")
    return tuple(found)
