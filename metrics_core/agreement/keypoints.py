"""Agreement of yes-or-no predictions with labels, beside chance and a rule that ignores the text."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from metrics_core.arithmetic import ratio
from metrics_core.calibration import Confusion


def confusion_of(predicted: npt.ArrayLike, labels: npt.ArrayLike) -> Confusion:
    """Count how often predictions (n,) and labels (n,) of yes and no agree. Raises ValueError for other input.

    >>> confusion_of([True, True, False], [True, False, False])
    Confusion(true_positive=1, false_positive=1, false_negative=0, true_negative=1)
    """
    sides = [np.asarray(predicted), np.asarray(labels)]
    if sides[0].ndim != 1 or sides[0].shape != sides[1].shape:
        raise ValueError(
            f"predicted has shape {sides[0].shape}, labels {sides[1].shape}: give one label for each prediction, (n,)."
        )
    for name, side in zip(("prediction", "label"), sides, strict=True):
        odd = np.flatnonzero(~((side == 0) | (side == 1)))
        if odd.size:
            raise ValueError(
                f"{name} {odd[0]} is {side[odd[0]]}: give True or False, and leave out items without an answer."
            )
    yes, truth = (side.astype(np.bool_) for side in sides)
    cells = (yes & truth, yes & ~truth, ~yes & truth, ~yes & ~truth)
    return Confusion(*(int(cell.sum()) for cell in cells))


def majority_accuracy(counts: Confusion) -> float | None:
    """Compute the accuracy of always predicting the commoner label, in [0.5, 1]; None without a label.

    >>> majority_accuracy(Confusion(1, 1, 0, 2))
    0.75
    """
    return ratio(max(counts.n_positive, counts.n - counts.n_positive), counts.n)


def cohen_kappa(counts: Confusion) -> float | None:
    """Compute Cohen's kappa, the agreement beyond chance, in [-1, 1].

    Chance means that both sides keep their numbers of yes, but answer independently. Kappa is None without a label, and
    where both sides always give the same answer, because chance then always agrees.

    >>> cohen_kappa(Confusion(true_positive=20, false_positive=5, false_negative=10, true_negative=15))
    0.4
    """
    both_no = (counts.n - counts.n_predicted) * (counts.n - counts.n_positive)
    by_chance = counts.n_predicted * counts.n_positive + both_no
    agreed = counts.n * (counts.true_positive + counts.true_negative)
    return ratio(agreed - by_chance, counts.n**2 - by_chance)
