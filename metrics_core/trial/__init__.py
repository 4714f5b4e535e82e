"""Training trials: does a small model that is trained on one part of a dataset retrieve better than on another part?"""

from __future__ import annotations

from metrics_core.trial.comparison import ArmDifference, compare_arms, compute_detectable_difference
from metrics_core.trial.noise import plant_noise
from metrics_core.trial.retrieval import RetrievalMeasures, measure_retrieval
from metrics_core.trial.split import is_test_video
from metrics_core.trial.student import StudentSettings, TooFewRows, TrainingPairs, train_student

__all__ = [
    "ArmDifference",
    "RetrievalMeasures",
    "StudentSettings",
    "TooFewRows",
    "TrainingPairs",
    "compare_arms",
    "compute_detectable_difference",
    "is_test_video",
    "measure_retrieval",
    "plant_noise",
    "train_student",
]
