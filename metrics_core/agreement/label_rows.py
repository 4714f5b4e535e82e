"""Rows of the agreement table for yes-or-no predictions and labels, beside answers that ignore the text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from metrics_core.agreement.correlation import group_numbers
from metrics_core.agreement.keypoints import cohen_kappa, confusion_of
from metrics_core.agreement.resampling import Draws, draw, interval
from metrics_core.agreement.table import AgreementRow
from metrics_core.arrays import BoolArray, FloatArray, IntArray
from metrics_core.calibration import Confusion

STATISTICS: dict[str, Callable[[Confusion], float | None]] = {
    "accuracy": lambda counts: counts.accuracy,
    "f1": lambda counts: counts.f1,
    "mcc": lambda counts: counts.mcc,
    "kappa": cohen_kappa,
}
MAJORITY, ALL_YES = "majority label", "always yes"


def label_rows(
    predictions: Mapping[str, npt.ArrayLike],
    labels: npt.ArrayLike,
    videos: Sequence[object],
    aspect: str = "label",
    *,
    level: float = 0.95,
    n_resamples: int = 1000,
    seed: int = 0,
) -> tuple[AgreementRow, ...]:
    """Compare predictions (n,) by name with labels (n,) of yes and no: accuracy, F1 of yes, MCC and Cohen's kappa.

    videos (n,): the video of every label; intervals draw videos. The baselines always give the label that is commoner
    in all the data, and yes. n counts labels. Raises ValueError for input that `confusion_of` refuses, a name of a
    baseline, a level outside (0, 1) and fewer than 1 resample.

    >>> rows = label_rows({"m": [1, 1, 0, 0]}, [1, 1, 1, 0], ["a", "a", "b", "b"])
    >>> [(row.metric, row.value, row.baseline) for row in rows if row.statistic == "accuracy"]
    [('m', 0.75, False), ('majority label', 0.75, True), ('always yes', 0.75, True)]
    """
    if not 0 < level < 1 or n_resamples < 1:
        raise ValueError(f"level is {level}, n_resamples {n_resamples}: give a level inside (0, 1) and 1 or more.")
    taken = {MAJORITY, ALL_YES} & set(predictions)
    if taken:
        raise ValueError(f"{min(taken)!r} is the name of a baseline: give the predictions another name.")
    truth = np.asarray(labels)
    video = group_numbers("videos", videos, truth.size)
    draws = draw(int(video.max(initial=-1)) + 1, 0, "videos", n_resamples, seed)
    majority = bool(2 * np.count_nonzero(truth) >= truth.size)
    baselines = {MAJORITY: np.full(truth.shape, majority), ALL_YES: np.ones(truth.shape, dtype=np.bool_)}
    return tuple(
        AgreementRow(name, aspect, "pooled", statistic, *found, name in baselines)
        for name, predicted in {**predictions, **baselines}.items()
        for statistic, found in _numbers(predicted, truth, video, draws, level)
    )


Numbers = tuple[float | None, float | None, float | None, int, int, int]


def _numbers(
    predicted: npt.ArrayLike, truth: npt.ArrayLike, video: IntArray, draws: Draws, level: float
) -> Iterator[tuple[str, Numbers]]:
    """Yield each statistic with value, low, high, n, n_undefined and n_undefined_resamples."""
    counts = confusion_of(predicted, truth)
    yes, right = np.asarray(predicted).astype(np.bool_), np.asarray(truth).astype(np.bool_)
    resampled = [Confusion(*cells) for cells in _cells(yes, right, video, draws).astype(int).tolist()]
    for name, statistic in STATISTICS.items():
        values = np.array([np.nan if (one := statistic(each)) is None else one for each in resampled])
        limits, value = interval(values, level), statistic(counts)
        low, high = (None, None) if value is None else (limits.low, limits.high)
        yield name, (value, low, high, counts.n, 0, limits.n_undefined)


def _cells(yes: BoolArray, truth: BoolArray, video: IntArray, draws: Draws) -> FloatArray:
    """The confusion table's cells in every resample: (resamples, 4)."""
    n_videos = draws.videos.shape[1]
    cells = (yes & truth, yes & ~truth, ~yes & truth, ~yes & ~truth)
    counted: FloatArray = draws.videos @ np.stack([np.bincount(video, each, n_videos) for each in cells], axis=1)
    return counted
