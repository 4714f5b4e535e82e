"""Agreement of yes-or-no predictions with labels, compared with baselines that ignore the text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from metrics_core.agreement.coefficients import require_group_numbers
from metrics_core.agreement.row import AgreementRow, build_agreement_rows
from metrics_core.arithmetic import ratio
from metrics_core.arrays import BoolArray, IntArray
from metrics_core.calibration import Confusion
from metrics_core.intervals import JackknifeStatistics, draw_blocks, jackknife

MAJORITY, ALL_YES = "majority label", "always yes"


def build_label_rows(
    predictions: Mapping[str, npt.ArrayLike],
    labels: npt.ArrayLike,
    videos: Sequence[object],
    aspect: str = "label",
    *,
    seed: int = 0,
) -> tuple[AgreementRow, ...]:
    """Build agreement rows that compare predictions of yes and no, (n,) by name, with labels (n,). Every name has a row
    for accuracy, F1 of yes, MCC and Cohen's kappa; rows of the baselines "majority label" and "always yes" follow.
    videos: (n,), the video of every label, for intervals over videos.

    The baseline "majority label" always gives the label that is commoner in all the data, or yes if both are equally
    common. n counts labels. Raises ValueError for input that `count_confusion` refuses and a name of a baseline.

    >>> rows = build_label_rows({"m": [1, 1, 0, 0]}, [1, 1, 1, 0], ["a", "a", "b", "b"])
    >>> [(row.metric, row.value, row.baseline) for row in rows if row.statistic == "accuracy"]
    [('m', 0.75, False), ('majority label', 0.75, True), ('always yes', 0.75, True)]
    """
    reserved = {MAJORITY, ALL_YES} & set(predictions)
    if reserved:
        raise ValueError(f"{min(reserved)!r} is the name of a baseline: give the predictions another name.")
    truth = np.asarray(labels)
    video = require_group_numbers("videos", videos, truth.size)
    block, n_videos = draw_blocks(video, seed), int(video.max(initial=-1)) + 1
    majority = bool(2 * np.count_nonzero(truth) >= truth.size)
    baselines = {MAJORITY: np.full(truth.shape, majority), ALL_YES: np.ones(truth.shape, dtype=np.bool_)}
    return tuple(
        row
        for name, predicted in {**predictions, **baselines}.items()
        for row in build_agreement_rows(
            (name, aspect, "keypoints"),
            _compute_statistics(predicted, truth, block),
            n_videos,
            baseline=name in baselines,
        )
    )


def _compute_statistics(predicted: npt.ArrayLike, truth: npt.ArrayLike, block: IntArray) -> JackknifeStatistics:
    """Compute every statistic of predictions and labels, and without each block of videos. Raises ValueError as
    `count_confusion` does.
    """
    count_confusion(predicted, truth)
    cells = _mark_cells(np.asarray(predicted).astype(np.bool_), np.asarray(truth).astype(np.bool_))

    def compute(rows: IntArray) -> dict[str, float | None]:
        counts = Confusion(*map(int, cells[:, rows].sum(axis=1)))
        return {name: statistic(counts) for name, statistic in STATISTICS.items()}

    return jackknife(compute, block)


def count_confusion(predicted: npt.ArrayLike, labels: npt.ArrayLike) -> Confusion:
    """Count how predictions (n,) and labels (n,) of yes and no agree: true and false positives, false and true
    negatives. Raises ValueError for other shapes and other values than 0, 1, True and False.

    >>> count_confusion([True, True, False], [True, False, False])
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
    return Confusion(*map(int, _mark_cells(yes, truth).sum(axis=1)))


def _mark_cells(yes: BoolArray, truth: BoolArray) -> BoolArray:
    """Mark which items are in each cell of the confusion table: (4, n), in the order of the fields of Confusion."""
    return np.stack([yes & truth, yes & ~truth, ~yes & truth, ~yes & ~truth])


def majority_accuracy(counts: Confusion) -> float | None:
    """Compute the accuracy of always predicting the label that is commoner in `counts`, in [0.5, 1]. None without a
    label.

    >>> majority_accuracy(Confusion(1, 1, 0, 2))
    0.75
    """
    return ratio(max(counts.n_positive, counts.n - counts.n_positive), counts.n)


def cohen_kappa(counts: Confusion) -> float | None:
    """Compute Cohen's kappa, the agreement of predictions and labels beyond chance, in [-1, 1]. None without a label,
    and where both sides always give the same answer, because chance then always agrees.

    Chance means that both sides keep their numbers of yes, but answer independently.

    >>> cohen_kappa(Confusion(true_positive=20, false_positive=5, false_negative=10, true_negative=15))
    0.4
    """
    both_no = (counts.n - counts.n_predicted) * (counts.n - counts.n_positive)
    by_chance = counts.n_predicted * counts.n_positive + both_no
    agreed = counts.n * (counts.true_positive + counts.true_negative)
    return ratio(agreed - by_chance, counts.n**2 - by_chance)


STATISTICS: dict[str, Callable[[Confusion], float | None]] = {
    "accuracy": lambda counts: counts.accuracy,
    "f1": lambda counts: counts.f1,
    "mcc": lambda counts: counts.mcc,
    "kappa": cohen_kappa,
}
