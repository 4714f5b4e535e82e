"""Calibration: finds the threshold at which scores fit labels or ratings best, and how certain it is.

docs/metrics/ecs.md explains the choices, and docs/selections.md those of `calibrate_rated_threshold`, on scores and
ratings.
"""

from metrics_core.calibration.labels import compute_split_position, mark_calibration_keys
from metrics_core.calibration.rated_search import calibrate_rated_threshold, find_rated_threshold
from metrics_core.calibration.rated_threshold import BaselineYouden, RatedThreshold, YoudenEstimate
from metrics_core.calibration.result import CalibrationWarning, Confusion, Threshold, ThresholdInterval
from metrics_core.calibration.threshold import (
    DimensionThresholds,
    compute_threshold_interval,
    find_best_threshold,
    find_dimension_thresholds,
)

__all__ = [
    "BaselineYouden",
    "CalibrationWarning",
    "Confusion",
    "DimensionThresholds",
    "RatedThreshold",
    "Threshold",
    "ThresholdInterval",
    "YoudenEstimate",
    "calibrate_rated_threshold",
    "compute_split_position",
    "compute_threshold_interval",
    "find_best_threshold",
    "find_dimension_thresholds",
    "find_rated_threshold",
    "mark_calibration_keys",
]
