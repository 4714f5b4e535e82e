"""Training trials: does a small model that is trained on one part of a dataset retrieve better than on another part?"""

from __future__ import annotations

from metrics_core.trial.comparison import ArmDifference, compare_arms, compute_detectable_difference
from metrics_core.trial.noise import plant_noise
from metrics_core.trial.retrieval import RetrievalMeasures, measure_retrieval
from metrics_core.trial.split import Part, choose_part
from metrics_core.trial.student import (
    HeldOutPairs,
    Student,
    StudentSettings,
    TooFewRows,
    TrainingPairs,
    find_best_step,
    train_student,
)

__all__ = [
    "ArmDifference",
    "HeldOutPairs",
    "Part",
    "RetrievalMeasures",
    "Student",
    "StudentSettings",
    "TooFewRows",
    "TrainingPairs",
    "choose_part",
    "compare_arms",
    "compute_detectable_difference",
    "find_best_step",
    "measure_retrieval",
    "plant_noise",
    "train_student",
]
