"""An exact sequence for the number of errors in a finite set whose members are asked in a random order.

A set has N members, of which K are errors. They are asked without replacement; after n answers k were wrong. Let the
prior of K be beta-binomial(N, c, d). The evidence against a number K is R_n(K), the prior chance of K divided by its
posterior chance (Waudby-Smith and Ramdas 2020). At the true K the sequence R_1, R_2, .. is a martingale of mean 1, so
the chance that it ever reaches 1/a is at most a (Ville's inequality), no matter when anybody looks or stops. The
formula used here follows from Bayes' rule: R_n(K) is the chance of the answers under the prior, B(c + k, d + n - k) /
B(c, d), divided by their chance given K, C(N - n, K - k) / C(N, K). All is computed by log gamma, without a normal
approximation, for sets of millions too.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from metrics_core.arrays import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Prior:
    """The beta-binomial prior of the number of errors, chosen before the first answer. `errors` and `others` are its
    parameters c and d, both above 0: the more weight on others, the fewer errors it expects. Every choice keeps the
    promise; one near the true share of errors needs the fewest answers.
    """

    errors: float
    others: float

    @classmethod
    def build(cls, limit: float) -> Prior:
        """Return the prior for a promise of at most this share of errors, in (0, 1): c = 2, and d such that it expects
        half of the limit. `benchmarks.promise_worlds` compares it with another.

        >>> Prior.build(0.05)
        Prior(errors=2.0, others=78.0)
        """
        return cls(2.0, 4 / limit - 2)


def count_allowed_errors(size: int, limit: float) -> int:
    """Count the errors that a set of `size` members may have where at most the share `limit` may be wrong: the largest
    whole number up to limit times size. The limit counts as the decimal number that it is written as.

    >>> count_allowed_errors(100, 0.29), 0.29 * 100
    (29, 28.999999999999996)
    """
    return int(Fraction(repr(float(limit))) * size)


def compute_log_evidence(
    size: int, n_errors: npt.ArrayLike, n_asked: npt.ArrayLike, n_wrong: npt.ArrayLike, prior: Prior
) -> FloatArray:
    """Compute the natural logarithm of the evidence R_n(K) against `n_errors` errors in a set of `size` members, after
    `n_asked` answers of which `n_wrong` were errors. It is infinite where that many errors are impossible. n_errors,
    n_asked, n_wrong: whole numbers or arrays of them that fit one another; the result has their common shape.

    >>> compute_log_evidence(12, 4, [6, 7, 8, 9], 0, Prior(1, 1)).round(2).tolist()
    [1.55, 2.52, 4.01, inf]
    """
    from scipy.special import betaln, gammaln

    errors, asked, wrong = (np.asarray(part, dtype=np.float64) for part in (n_errors, n_asked, n_wrong))

    def log_choose(total: FloatArray, part: FloatArray) -> FloatArray:
        chosen: FloatArray = gammaln(total + 1) - gammaln(part + 1) - gammaln(total - part + 1)
        return chosen

    left = size - asked
    is_possible = (errors >= wrong) & (errors - wrong <= left)
    others = np.where(is_possible, errors - wrong, 0.0)
    under_prior = betaln(prior.errors + wrong, prior.others + asked - wrong) - betaln(prior.errors, prior.others)
    given_errors = log_choose(left, others) - log_choose(np.asarray(float(size)), errors)
    evidence: FloatArray = np.where(is_possible, under_prior - given_errors, np.inf)
    return evidence


def compute_least_log_evidence(
    size: int, least_errors: int, n_asked: npt.ArrayLike, n_wrong: npt.ArrayLike, prior: Prior
) -> FloatArray:
    """Compute the lowest log evidence against any number of errors from `least_errors` to `size`, after `n_asked`
    answers of which `n_wrong` were errors. Where it reaches log(1/a), all these numbers are refuted at level a. It is
    infinite for least_errors above size. n_asked, n_wrong: whole numbers or arrays of one shape, which the result has.

    Evidence falls up to the number of errors that explains the answers best, and rises from there on: from the first
    K with n (K + 1) >= k (N + 1). So one number decides.

    >>> round(float(np.exp(compute_least_log_evidence(12, 4, 8, 0, Prior(1, 1)))), 1)
    55.0
    """
    asked, wrong = np.asarray(n_asked, dtype=np.int64), np.asarray(n_wrong, dtype=np.int64)
    if least_errors > size:
        return np.full(np.broadcast(asked, wrong).shape, np.inf)
    turning = np.clip(_find_turning_point(size, asked, wrong), wrong, size - asked + wrong)
    return compute_log_evidence(size, np.maximum(turning, least_errors), asked, wrong, prior)


def compute_error_bounds(size: int, wrong: npt.ArrayLike, level: float, prior: Prior) -> IntArray:
    """Compute the upper bounds (n,) on the number of errors in a set of `size` members after every answer, which all
    hold at once except with a chance of `level`, in (0, 1): a bound is the lowest so far. wrong: (n,), whether the
    answers were errors, in the order asked; n is at most `size`.

    >>> compute_error_bounds(12, [False] * 10, 0.05, Prior(1, 1)).tolist()
    [11, 9, 8, 7, 5, 5, 4, 3, 2, 2]
    """
    is_wrong = np.asarray(wrong, dtype=np.bool_)
    n_asked = np.arange(1, is_wrong.size + 1)
    n_wrong: IntArray = np.cumsum(is_wrong, dtype=np.int64)
    enough = -np.log(level)
    # `low` is never refuted, and `high` always: first the number that explains the answers best, and an impossible one.
    high = size - n_asked + n_wrong + 1
    low = np.clip(_find_turning_point(size, n_asked, n_wrong), n_wrong, high - 1)
    while np.any(high - low > 1):
        middle = (low + high) // 2
        is_refuted = compute_log_evidence(size, middle, n_asked, n_wrong, prior) >= enough
        high, low = np.where(is_refuted, middle, high), np.where(is_refuted, low, middle)
    bounds: IntArray = np.maximum(np.minimum.accumulate(low), n_wrong)
    return bounds


def _find_turning_point(size: int, n_asked: IntArray, n_wrong: IntArray) -> IntArray:
    """Return the number of errors from which on the evidence rises; it may be one that the answers rule out."""
    point: IntArray = -(-n_wrong * (size + 1) // np.maximum(n_asked, 1)) - 1
    return point
