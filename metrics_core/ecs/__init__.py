"""ECS: the share of a checklist's keypoints that a caption entails.

Four steps: choose premises (which pairs to judge), verify (a model's probabilities), decide (verdicts at a threshold)
and score (one number). They are separate, so that a platform can verify the pairs of many captions in one queue, keep
the answers, and move a threshold without a model. docs/metrics/ecs.md explains the choices.
"""

from metrics_core.ecs.premises import (
    DEFAULT_R,
    MAX_RELIABLE_WORDS,
    Pair,
    RankedPremises,
    choose_premises,
    list_unique_pairs,
    list_usable_keypoints,
    rank_nearest_sentences,
    split_premises,
)
from metrics_core.ecs.result import ECSResult, ECSWarning, Mode
from metrics_core.ecs.score import choose_mode, compute_flat_score, compute_sodam_score
from metrics_core.ecs.verdict import KeypointVerdict, Thresholds, combine_part_verdicts, decide_keypoint
from metrics_core.ecs.verify import Verification, verify_keypoints

__all__ = [
    "DEFAULT_R",
    "MAX_RELIABLE_WORDS",
    "ECSResult",
    "ECSWarning",
    "KeypointVerdict",
    "Mode",
    "Pair",
    "RankedPremises",
    "Thresholds",
    "Verification",
    "choose_mode",
    "choose_premises",
    "combine_part_verdicts",
    "compute_flat_score",
    "compute_sodam_score",
    "decide_keypoint",
    "list_unique_pairs",
    "list_usable_keypoints",
    "rank_nearest_sentences",
    "split_premises",
    "verify_keypoints",
]
