"""Scores how well predicted times fit the reference's times, whatever the texts say."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from metrics_core.arithmetic import harmonic_mean
from metrics_core.arrays import FloatArray
from metrics_core.sodam.merging import merged_spans
from metrics_core.sodam.result import Alignment, Status, TemporalScore
from metrics_core.sodam.spans import checked_spans, iou_of_spans

THRESHOLDS = (0.3, 0.5, 0.7, 0.9)


def temporal_score(
    reference_spans: npt.ArrayLike,
    predicted_spans: npt.ArrayLike,
    alignment: Alignment,
    thresholds: Sequence[float] = THRESHOLDS,
) -> TemporalScore:
    """Compute temporal precision, recall, F1 and mean IoU of one clip's merged predictions and orphans.

    Give the spans that `align` was given, (N, 2) and (M, 2) in seconds. At an IoU threshold in [0, 1), precision is the
    share of merged predictions whose IoU with some reference is above the threshold; recall is the share of references
    whose IoU with some merged prediction is. Raises ValueError without thresholds, for thresholds outside [0, 1), and
    for spans that `align` refuses.

    >>> score = temporal_score([[0, 10], [10, 20]], [[0, 8]], Alignment(((0, 0),), {0: (0,)}, (), 0.8))
    >>> score.precision, score.recall, score.f1, score.miou
    (0.75, 0.375, 0.5, 0.4)
    """
    levels = [float(threshold) for threshold in thresholds]
    if not levels or not all(0 <= level < 1 for level in levels):
        raise ValueError(f"thresholds are {levels}: give at least one IoU in [0, 1).")
    references, _ = checked_spans("reference_spans", reference_spans)
    predictions = merged_spans(predicted_spans, alignment)
    iou = iou_of_spans(references, predictions)
    status: Status = "no_reference" if len(references) == 0 else "ok" if len(predictions) else "no_prediction"
    best_prediction = iou.max(axis=1, initial=0.0)
    precision_at = shares_above(iou.max(axis=0, initial=0.0), levels, defined=status == "ok")
    recall_at = shares_above(best_prediction, levels, defined=status != "no_reference")
    precision, recall = mean_share(precision_at), mean_share(recall_at)
    return TemporalScore(
        status=status,
        precision=precision,
        recall=recall,
        f1=None if recall is None else harmonic_mean(precision or 0.0, recall),
        miou=None if status == "no_reference" else float(best_prediction.mean()),
        precision_at=precision_at,
        recall_at=recall_at,
    )


def shares_above(best: FloatArray, levels: Sequence[float], defined: bool) -> dict[float, float | None]:
    """Compute the share of values strictly above each level; None where the shares are not defined."""
    return {level: float((best > level).mean()) if defined else None for level in levels}


def mean_share(shares: dict[float, float | None]) -> float | None:
    """Average the shares over the levels; None where they are not defined."""
    numbers = [share for share in shares.values() if share is not None]
    return float(np.mean(numbers)) if numbers else None
