"""What a calibration found, as rows for people."""

from __future__ import annotations

from typing import Any

from assets.ecs.calibrate import Calibration
from metrics_core.agreement import majority_accuracy


def threshold_rows(found: Calibration) -> list[dict[str, Any]]:
    """A row per dimension: threshold with its 95 % interval, and its labels; pooled: chosen on those of all."""
    rows = []
    for name, each in found.by_dimension.items():
        low, high = (each.interval.low, each.interval.high) if each.interval else (None, None)
        rows.append(
            {
                "dimension": name,
                "threshold": each.value,
                "low": low,
                "high": high,
                "labels": each.n,
                "positive": each.n_positive,
                "f1": each.counts.f1 if each.counts else None,
                "pooled": each.pooled,
            }
        )
    return rows


def evaluation_rows(found: Calibration) -> list[dict[str, Any]]:
    """A row per dimension and one in total: agreement on the other labels, beside what needs no metric.

    majority: accuracy of always saying the more frequent answer. all_positive_f1: F1 of always saying yes.
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
        for name, counts in found.evaluated.items()
    ]
