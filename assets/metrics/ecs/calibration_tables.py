"""The results of a calibration as rows of tables, for pages and the command line."""

from __future__ import annotations

from typing import Any

from assets.metrics.ecs.calibrate import Calibration
from metrics_core.agreement import majority_accuracy


def build_threshold_rows(calibration: Calibration) -> list[dict[str, Any]]:
    """Return a row for every dimension, as a dict: threshold, its 95 % interval (low, high), the number of labels and
    of yes labels (positive), and F1 on them. A value that is not known is None. pooled: whether the threshold was
    chosen on the labels of all dimensions.
    """
    rows = []
    for name, threshold in calibration.threshold_by_dimension.items():
        low, high = (threshold.interval.low, threshold.interval.high) if threshold.interval else (None, None)
        rows.append(
            {
                "dimension": name,
                "threshold": threshold.value,
                "low": low,
                "high": high,
                "labels": threshold.n,
                "positive": threshold.n_positive,
                "f1": threshold.counts.f1 if threshold.counts else None,
                "pooled": threshold.pooled,
            }
        )
    return rows


def build_evaluation_rows(calibration: Calibration) -> list[dict[str, Any]]:
    """Return a row for every dimension and the total, as a dict: agreement with the labels of the other videos, and
    that of two simple rules. majority: accuracy of always giving the more frequent answer. all_positive_f1: F1 of
    always answering yes. [] if no other labels are left.
    """
    return [
        {
            "dimension": name,
            "labels": counts.n,
            "positive": counts.n_positive,
            "accuracy": counts.accuracy,
            "majority": majority_accuracy(counts),
            "f1": counts.f1,
            "all_positive_f1": counts.all_positive_f1,
            "mcc": counts.mcc,
        }
        for name, counts in calibration.confusion_by_dimension.items()
    ]
