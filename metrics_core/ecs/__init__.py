"""ECS: the share of a checklist's keypoints that a caption entails.

Four steps: plan (which pairs to judge), verify (a model's probabilities), decide (verdicts at a threshold) and score
(one number). They are separate, so that a platform can verify the pairs of many captions in one queue, keep the
answers, and move a threshold without a model. docs/metrics/ecs.md explains the choices.
"""

from metrics_core.ecs.plan import (
    DEFAULT_R,
    LONG_KEYPOINT,
    KeypointPlan,
    Pair,
    nearest_sentences,
    plan_keypoints,
    premise_sentences,
    unique_pairs,
    usable_keypoints,
)
from metrics_core.ecs.result import ECSResult, ECSWarning, Mode
from metrics_core.ecs.score import flat_score, resolve_mode, sodam_score
from metrics_core.ecs.verdict import KeypointVerdict, Thresholds, combine_parts, decide
from metrics_core.ecs.verify import Verification, verify, verify_early_exit

__all__ = [
    "DEFAULT_R",
    "LONG_KEYPOINT",
    "ECSResult",
    "ECSWarning",
    "KeypointPlan",
    "KeypointVerdict",
    "Mode",
    "Pair",
    "Thresholds",
    "Verification",
    "combine_parts",
    "decide",
    "flat_score",
    "nearest_sentences",
    "plan_keypoints",
    "premise_sentences",
    "resolve_mode",
    "sodam_score",
    "unique_pairs",
    "usable_keypoints",
    "verify",
    "verify_early_exit",
]
