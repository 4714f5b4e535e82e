"""Finds the best threshold of a set of labelled scores."""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt

from metrics_core.calibration.labels import Labelled, checked_labels
from metrics_core.calibration.result import CalibrationWarning, Confusion, Objective, Status, Threshold
from metrics_core.calibration.search import Parameters, best_cuts, counts_at, cuts_of, status_of

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
