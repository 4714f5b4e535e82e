"""Calibration: chooses the threshold at which scores fit labels or ratings best, or keep a share, and says how certain
it is.

docs/metrics/ecs.md explains the choices by labels, and docs/selections.md those by ratings and shares.
"""

from metrics_core.calibration.labels import compute_split_position, mark_calibration_keys
from metrics_core.calibration.rated_search import find_rated_threshold
from metrics_core.calibration.result import BaselineYouden, Confusion, Threshold
from metrics_core.calibration.search import (
    compute_share_thresholds,
    find_best_threshold,
    find_dimension_thresholds,
)

__all__ = [
    "BaselineYouden",
    "Confusion",
    "Threshold",
    "compute_share_thresholds",
    "compute_split_position",
    "find_best_threshold",
    "find_dimension_thresholds",
    "find_rated_threshold",
    "mark_calibration_keys",
]
