"""Agreement: do a metric's numbers order captions, pairs of captions and systems as people do?

Every function takes both sides as arrays over the same items. A number that is not defined is None, never 0, and
results count how often that happened. Intervals leave out videos, see `intervals`.
"""

from metrics_core.agreement.choices import Choices, ChoicesCompared, choice_rows, compare_choices
from metrics_core.agreement.coefficients import coefficient
from metrics_core.agreement.groupings import without_length, without_system_means
from metrics_core.agreement.labels import cohen_kappa, confusion_of, label_rows, majority_accuracy
from metrics_core.agreement.paired_test import PermutationTest, permutation_test
from metrics_core.agreement.pairs import TieCalibration, calibrate_ties, soft_pairwise_accuracy
from metrics_core.agreement.raters import Alpha, Consistency, consistency, krippendorff_alpha
from metrics_core.agreement.row import AgreementRow
from metrics_core.agreement.simple_scores import (
    BestReference,
    common_words,
    find_best_reference,
    length_in_words,
)
from metrics_core.agreement.stopping import Race, Standing, standing, standing_of_choices
from metrics_core.agreement.table import agreement_rows
from metrics_core.agreement.two_scorers import (
    Mover,
    PeopleCompared,
    ScoresCompared,
    compare_scores,
    compare_with_people,
)
from metrics_core.arithmetic import holm, wilson_interval
from metrics_core.intervals import Estimate

__all__ = [
    "AgreementRow",
    "Alpha",
    "BestReference",
    "Choices",
    "ChoicesCompared",
    "Consistency",
    "Estimate",
    "Mover",
    "PeopleCompared",
    "PermutationTest",
    "Race",
    "ScoresCompared",
    "Standing",
    "TieCalibration",
    "agreement_rows",
    "calibrate_ties",
    "choice_rows",
    "coefficient",
    "cohen_kappa",
    "common_words",
    "compare_choices",
    "compare_scores",
    "compare_with_people",
    "confusion_of",
    "consistency",
    "find_best_reference",
    "holm",
    "krippendorff_alpha",
    "label_rows",
    "length_in_words",
    "majority_accuracy",
    "permutation_test",
    "soft_pairwise_accuracy",
    "standing",
    "standing_of_choices",
    "wilson_interval",
    "without_length",
    "without_system_means",
]
