"""Calibration: finds the threshold at which a verifier's yes and no fit the labels best, and how sure it is.

docs/metrics/ecs.md explains the choices, and docs/selections.md those of `rated_cut`, on scores and ratings.
"""

from metrics_core.calibration.labels import calibration_mask, split_position
from metrics_core.calibration.rated import find_cut, rated_cut
from metrics_core.calibration.rated_cut import Baseline, Estimate, RatedCut
from metrics_core.calibration.result import CalibrationWarning, Confusion, Threshold, ThresholdInterval
from metrics_core.calibration.threshold import (
    DimensionThresholds,
    best_threshold,
    threshold_interval,
    thresholds_by_dimension,
)

__all__ = [
    "Baseline",
    "CalibrationWarning",
    "Confusion",
    "DimensionThresholds",
    "Estimate",
    "RatedCut",
    "Threshold",
    "ThresholdInterval",
    "best_threshold",
    "calibration_mask",
    "find_cut",
    "rated_cut",
    "split_position",
    "threshold_interval",
    "thresholds_by_dimension",
]
