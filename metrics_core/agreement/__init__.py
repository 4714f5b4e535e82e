"""Agreement: do a metric's numbers order captions, pairs of captions and systems as people do?

Every function takes both sides as arrays over the same items. A number that is not defined is None, never 0, and
results count how often that happened.
"""

from metrics_core.agreement.correlation import Correlation, MeanCorrelation, correlation, mean_correlation
from metrics_core.agreement.keypoints import cohen_kappa, confusion_of, majority_accuracy
from metrics_core.agreement.pairwise import PairwiseAgreement, pairwise_agreement, wilson_interval
from metrics_core.agreement.systems import SystemAgreement, system_agreement

__all__ = [
    "Correlation",
    "MeanCorrelation",
    "PairwiseAgreement",
    "SystemAgreement",
    "cohen_kappa",
    "confusion_of",
    "correlation",
    "majority_accuracy",
    "mean_correlation",
    "pairwise_agreement",
    "system_agreement",
    "wilson_interval",
]
