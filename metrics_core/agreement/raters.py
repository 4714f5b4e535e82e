"""How well people agree with each other: Krippendorff's alpha, raters with the means of the other raters, and raters
with themselves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metrics_core.agreement.groupings import DECIMALS
from metrics_core.arithmetic import ratio, wilson_interval
from metrics_core.arrays import BoolArray, FloatArray, IntArray
from metrics_core.intervals import BLOCKS, JackknifeStatistics

# The scales of ratings for Krippendorff's alpha: nominal, all differences count the same; ordinal, by rank; interval,
# by the squared difference.
_RATING_SCALES = ("nominal", "ordinal", "interval")
MOST_RATERS = 20
"""Statistics of single raters are averaged over the most active raters, at most so many, since a crowd may have
thousands.
"""
FEWEST_SHARED = 30
"""The human ceiling leaves out raters who share fewer rated items with the others: their coefficients are chance."""
# Alpha of ratings with more different values has no interval: every block would cost a table of values by values.
_MOST_VALUES = 500


@dataclass(frozen=True, slots=True)
class AnswerConsistency:
    """How often a rater gave the same answer again, on n things that they judged twice without knowing it. share: of
    equal answers, in [0, 1], with Wilson's interval from `low` to `high`. mean_difference: the mean absolute difference
    of the two answers. These four are None for n = 0.
    """

    n: int
    n_equal: int
    share: float | None
    low: float | None
    high: float | None
    mean_difference: float | None


def compute_consistency(first: npt.ArrayLike, again: npt.ArrayLike) -> AnswerConsistency:
    """Compare a rater's first and second answers to the same things, both (n,): how many are equal, their share with
    its interval, and the mean absolute difference. Raises ValueError for different lengths.

    >>> answers = compute_consistency([4, 3, 5, 1], [4, 3, 4, 1])
    >>> answers.n_equal, answers.share, round(answers.low, 3), round(answers.high, 3), answers.mean_difference
    (3, 0.75, 0.301, 0.954, 0.25)
    """
    answers, answers_again = (np.asarray(side, dtype=np.float64) for side in (first, again))
    if answers.ndim != 1 or answers.shape != answers_again.shape:
        raise ValueError(
            f"the answers have shapes {answers.shape} and {answers_again.shape}: give two answers for every item."
        )
    n, n_equal = answers.size, int((answers == answers_again).sum())
    mean = float(np.abs(answers - answers_again).mean()) if n else None
    return AnswerConsistency(n, n_equal, ratio(n_equal, n), *wilson_interval(n_equal, n), mean)


def compute_alphas(ratings: FloatArray, block: IntArray) -> JackknifeStatistics:
    """Compute Krippendorff's alpha of ratings (items, raters), NaN for none: "krippendorff_nominal",
    "krippendorff_ordinal" and "krippendorff_interval", also with each block of videos left out. 1 is full agreement, 0
    chance. A value is None where no item has two ratings, or all ratings are equal. block: (items,). n counts the
    ratings of items with two or more, n_undefined the others.

    Ratings with more than 500 different values have no values without blocks, so no interval.

    >>> found = compute_alphas(np.array([[1.0, 1], [1, 0], [0, 0], [0, 0]]), np.arange(4))
    >>> round(found.values["krippendorff_nominal"], 6)
    0.533333
    """
    values, counts = _rating_counts(ratings)
    together = _coincidences(counts)
    whole = {f"krippendorff_{level}": _alpha(values, together, level) for level in _RATING_SCALES}
    held = np.unique(block[counts.any(axis=1)]) if values.size <= _MOST_VALUES else np.zeros(0, dtype=np.int64)
    without = {name: np.full(BLOCKS, np.nan) for name in whole}
    for number in held.tolist() if held.size > 1 else ():
        rest = together - _coincidences(counts[block == number])
        for level, name in zip(_RATING_SCALES, whole, strict=True):
            alpha = _alpha(values, rest, level)
            without[name][number] = math.nan if alpha is None else alpha
    n_pairable = int(counts.sum())
    rest_n = int((~np.isnan(ratings)).sum()) - n_pairable
    return JackknifeStatistics(
        whole, without, dict.fromkeys(whole, n_pairable), dict.fromkeys(whole, rest_n), held.size
    )


def require_ratings(ratings: npt.ArrayLike) -> FloatArray:
    """Return ratings (items, raters) as float64, where NaN stays. Raises ValueError for another shape and infinite
    ratings.
    """
    rated = np.asarray(ratings, dtype=np.float64)
    if rated.ndim != 2:
        raise ValueError(f"ratings have shape {rated.shape}: give a row for each item and a column for each rater.")
    if np.isinf(rated).any():
        raise ValueError("A rating is infinite: give numbers, and NaN where a rater gave none.")
    return rated


def compute_mean_ratings(ratings: FloatArray) -> FloatArray:
    """Compute the mean of every item's ratings (items, raters), skipping NaN and rounded to 9 decimals: an array
    (items,). NaN for an item without a rating.
    """
    given = ~np.isnan(ratings)
    with np.errstate(invalid="ignore"):
        # Equal means must stay tied, in whichever order their ratings are added up.
        mean: FloatArray = np.round(np.where(given, ratings, 0).sum(axis=1) / given.sum(axis=1), DECIMALS)
    return mean


@dataclass(frozen=True)
class RaterAndOthers:
    """One rater compared with the others. ratings: the rater's own (items,), NaN for none. other_means: the mean
    ratings of the other raters (items,), NaN for none. is_shared: a mask (items,) of the items that have both.
    """

    ratings: FloatArray
    other_means: FloatArray
    is_shared: BoolArray

    @property
    def n_shared(self) -> int:
        """The number of items that both this rater and at least one other rater have rated."""
        return int(self.is_shared.sum())


def split_rater(ratings: FloatArray, rater: int) -> RaterAndOthers:
    """Compare one rater, a column number of the ratings (items, raters), with the others. The record has the rater's
    own ratings and the means of all other raters.
    """
    own_ratings, others = ratings[:, rater], compute_mean_ratings(np.delete(ratings, rater, axis=1))
    return RaterAndOthers(own_ratings, others, ~np.isnan(own_ratings) & ~np.isnan(others))


def list_ceiling_raters(ratings: FloatArray) -> list[RaterAndOthers]:
    """List the raters who count in the human ceiling (how well a rater agrees with the mean of the others), each rater
    with the means of all others who count. ratings: (items, raters). Of more than 20 (MOST_RATERS) only the most active
    are listed; [] where none counts.
    """
    counted = ratings[:, mark_ceiling_raters(ratings)]
    return [split_rater(counted, rater) for rater in list_most_active_raters(counted).tolist()]


def mark_ceiling_raters(ratings: FloatArray) -> BoolArray:
    """Mark, in a boolean array (raters,), who counts in the human ceiling: raters who share at least 30 (FEWEST_SHARED)
    rated items with other raters who count. ratings: (items, raters), NaN where a rater gave none.

    It is the largest set of raters of whom this holds. Without two raters of the same items it is empty.

    >>> three = np.ones((40, 3))
    >>> three[29:, 2] = np.nan
    >>> mark_ceiling_raters(three).tolist(), mark_ceiling_raters(three[:29]).tolist()
    ([True, True, False], [False, False, False])
    """
    given = ~np.isnan(ratings)
    counts: BoolArray = np.ones(given.shape[1], dtype=np.bool_)
    while counts.any():
        # An item is shared where another rater who counts has rated it, too.
        is_shared = (given & counts).sum(axis=1, keepdims=True) > 1
        enough = counts & ((given & is_shared).sum(axis=0) >= FEWEST_SHARED)
        if (enough == counts).all():
            break
        counts = enough
    return counts


def list_most_active_raters(ratings: FloatArray) -> IntArray:
    """Return the columns of the 20 (MOST_RATERS) raters who gave most ratings, in ascending order, or all columns of
    fewer raters. ratings: (items, raters). Of raters who gave equally many the first ones are taken.
    """
    given = (~np.isnan(ratings)).sum(axis=0)
    columns: IntArray = np.sort(np.argsort(-given, kind="stable")[:MOST_RATERS])
    return columns


def _rating_counts(rated: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the different values in ascending order, and how often each item got every value: (items, values).

    Items with fewer than two ratings have no pair: their counts are 0.
    """
    values = np.unique(rated[~np.isnan(rated)])
    counts = np.zeros((len(rated), values.size))
    for column, value in enumerate(values):
        counts[:, column] = (rated == value).sum(axis=1)
    return values, np.where(counts.sum(axis=1, keepdims=True) > 1, counts, 0)


def _coincidences(counts: FloatArray) -> FloatArray:
    """Sum the ordered pairs of ratings inside items, where an item weighs as much as its ratings: (values, values)."""
    weights = 1 / np.maximum(counts.sum(axis=1) - 1, 1)
    together: FloatArray = (counts * weights[:, None]).T @ counts - np.diag(weights @ counts)
    return together


def _alpha(values: FloatArray, together: FloatArray, level: str) -> float | None:
    """Compute alpha of coincidences (values, values); None where no two ratings of one item exist, or none differ."""
    totals = together.sum(axis=1)
    distance = 1 - np.eye(values.size)
    if level != "nominal":
        places = values if level == "interval" else np.cumsum(totals) - totals / 2
        distance = (places[:, None] - places) ** 2
    expected = float(totals @ distance @ totals)
    # What rounding leaves of equal ratings is no difference.
    if expected <= 1e-12 * float(totals.sum()) ** 2 * distance.max(initial=0):
        return None
    return 1 - (float(totals.sum()) - 1) * float((together * distance).sum()) / expected
