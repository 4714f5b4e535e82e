"""Agreement: how far a metric orders captions, pairs of captions and systems as people do.

Every function takes the metric's values and people's ratings as arrays over the same items. A number that is not
defined is None, never 0, and results count how often that happened. Intervals leave out videos, see `intervals`.
"""

from metrics_core.agreement.labels import build_label_rows, cohen_kappa, count_confusion, majority_accuracy
from metrics_core.agreement.preferences import Preferences, build_preference_rows
from metrics_core.agreement.progress import Lead, RatingProgress, compute_rating_progress
from metrics_core.agreement.raters import AnswerConsistency, compute_consistency
from metrics_core.agreement.row import AgreementRow
from metrics_core.agreement.scorer_comparison import (
    MovedItem,
    PeopleComparison,
    ScoreComparison,
    compare_scores,
    compare_with_people,
)
from metrics_core.agreement.simple_scores import compute_words_in_common, count_words
from metrics_core.agreement.table import compute_agreement_rows
from metrics_core.arithmetic import correct_p_values, wilson_interval
from metrics_core.intervals import Estimate

__all__ = [
    "AgreementRow",
    "AnswerConsistency",
    "Estimate",
    "Lead",
    "MovedItem",
    "PeopleComparison",
    "Preferences",
    "RatingProgress",
    "ScoreComparison",
    "build_label_rows",
    "build_preference_rows",
    "cohen_kappa",
    "compare_scores",
    "compare_with_people",
    "compute_agreement_rows",
    "compute_consistency",
    "compute_rating_progress",
    "compute_words_in_common",
    "correct_p_values",
    "count_confusion",
    "count_words",
    "majority_accuracy",
    "wilson_interval",
]
