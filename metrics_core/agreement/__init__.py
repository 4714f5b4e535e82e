"""Agreement: do a metric's numbers order captions, pairs of captions and systems as people do?

Every function takes both sides as arrays over the same items. A number that is not defined is None, never 0, and
results count how often that happened.
"""

from metrics_core.agreement.baselines import common_words, length_in_words
from metrics_core.agreement.correlation import Correlation, MeanCorrelation, correlation, mean_correlation
from metrics_core.agreement.keypoints import cohen_kappa, confusion_of, majority_accuracy
from metrics_core.agreement.label_rows import label_rows
from metrics_core.agreement.metric_tests import ComparisonRow, comparison_rows
from metrics_core.agreement.pairwise import PairwiseAgreement, pairwise_agreement
from metrics_core.agreement.partial import without_length, without_system_means
from metrics_core.agreement.raters import Alpha, krippendorff_alpha
from metrics_core.agreement.significance import PermutationTest, WilliamsTest, holm, permutation_test, williams_test
from metrics_core.agreement.soft_pairwise import soft_pairwise_accuracy
from metrics_core.agreement.systems import SystemAgreement, system_agreement
from metrics_core.agreement.table import AgreementRow, agreement_rows
from metrics_core.agreement.ties import TieCalibration, calibrate_ties
from metrics_core.agreement.two_scorers import Estimate, Mover, ScoresCompared, compare_scores
from metrics_core.agreement.two_with_people import PeopleCompared, compare_with_people
from metrics_core.arithmetic import wilson_interval

__all__ = [
    "AgreementRow",
    "Alpha",
    "ComparisonRow",
    "Correlation",
    "Estimate",
    "MeanCorrelation",
    "Mover",
    "PairwiseAgreement",
    "PeopleCompared",
    "PermutationTest",
    "ScoresCompared",
    "SystemAgreement",
    "TieCalibration",
    "WilliamsTest",
    "agreement_rows",
    "calibrate_ties",
    "cohen_kappa",
    "common_words",
    "compare_scores",
    "compare_with_people",
    "comparison_rows",
    "confusion_of",
    "correlation",
    "holm",
    "krippendorff_alpha",
    "label_rows",
    "length_in_words",
    "majority_accuracy",
    "mean_correlation",
    "pairwise_agreement",
    "permutation_test",
    "soft_pairwise_accuracy",
    "system_agreement",
    "williams_test",
    "wilson_interval",
    "without_length",
    "without_system_means",
]
