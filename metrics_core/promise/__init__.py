"""Promises about finite sets from a part that was asked: at most so many errors, and means corrected by the part."""

from __future__ import annotations

from metrics_core.promise.means import MeanEstimate, count_further_answers, estimate_mean
from metrics_core.promise.sequence import Prior, compute_error_bounds, compute_least_log_evidence, count_allowed_errors
from metrics_core.promise.walk import (
    DEFAULT_SHARES,
    RIGHT,
    UNANSWERED,
    WRONG,
    NeededAnswers,
    SetState,
    collect_set_answers,
    compute_attempt_level,
    count_needed_answers,
    walk_sets,
)

__all__ = [
    "DEFAULT_SHARES",
    "RIGHT",
    "UNANSWERED",
    "WRONG",
    "MeanEstimate",
    "NeededAnswers",
    "Prior",
    "SetState",
    "collect_set_answers",
    "compute_attempt_level",
    "compute_error_bounds",
    "compute_least_log_evidence",
    "count_allowed_errors",
    "count_further_answers",
    "count_needed_answers",
    "estimate_mean",
    "walk_sets",
]
