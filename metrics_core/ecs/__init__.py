"""ECS: which keypoints of a checklist does a caption entail, and how many are that?

The steps are apart, so that a platform can verify the pairs of many captions in one queue, keep the answers, and move a
threshold without a model: plan (which pairs), verify (a model's probabilities), decide (verdicts), score (one number).
docs/metrics/ecs.md explains the choices.
"""

from metrics_core.ecs.keypoints import LONG_KEYPOINT, usable_keypoints
from metrics_core.ecs.parts import combine_parts
from metrics_core.ecs.plan import KeypointPlan, Pair, plan_keypoints, unique_pairs
from metrics_core.ecs.result import ECSResult, ECSWarning, Mode
from metrics_core.ecs.retrieval import DEFAULT_R, nearest_sentences
from metrics_core.ecs.score import flat_score, resolve_mode, sodam_score
from metrics_core.ecs.sentences import premise_sentences
from metrics_core.ecs.thresholds import Thresholds
from metrics_core.ecs.verdict import KeypointVerdict, decide
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
