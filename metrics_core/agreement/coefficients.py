"""The statistics of the agreement table, and how each follows from counts of pairs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from metrics_core.agreement.correlation import is_constant, kendall_of, spearman_of
from metrics_core.agreement.resampling import dense_ranks
from metrics_core.arithmetic import ratio
from metrics_core.arrays import FloatArray, IntArray

STATISTICS = ("pearson", "spearman", "kendall_b", "kendall_c", "pairwise_accuracy")
"""Pearson's r, Spearman's rho, Kendall's tau-b and tau-c in [-1, 1]; pairwise accuracy with ties in [0, 1].

Pairwise accuracy (acc_eq) is the share of pairs that both sides order alike or both tie (Deutsch et al. 2023).
"""

Coefficients = dict[str, FloatArray]
"""Each statistic of many resamples or groups, (rows,); NaN where it is not defined."""


@dataclass(frozen=True)
class Moments:
    """Sums over the items of every row, each (rows,), with x and y centred roughly: n, x, y, xx, yy and xy."""

    n: FloatArray
    x: FloatArray
    y: FloatArray
    xx: FloatArray
    yy: FloatArray
    xy: FloatArray

    def correlation(self) -> FloatArray:
        """Pearson's r of every row."""
        covariance = self.xy - self.x * self.y / self.n
        variances = (self.xx - self.x**2 / self.n) * (self.yy - self.y**2 / self.n)
        return np.clip(covariance / np.sqrt(variances), -1, 1)


@dataclass(frozen=True)
class PairCounts:
    """Pairs of different items in every row, each (rows,); a pair counts as often as the product of its items' weights.

    surplus: concordant less discordant pairs. untied_x, untied_y: pairs that differ on that side. tied: pairs tied on
    both sides. pairs: all pairs. n: the sum of the weights. levels: the smaller number of different values of a side.
    """

    n: FloatArray
    pairs: FloatArray
    surplus: FloatArray
    untied_x: FloatArray
    untied_y: FloatArray
    tied: FloatArray
    levels: FloatArray

    def statistics(self) -> Coefficients:
        """Compute tau-b, tau-c and pairwise accuracy of every row."""
        varied = (self.untied_x > 0) & (self.untied_y > 0)
        # Pairs untied on both sides: all pairs less those tied on a side, where pairs tied on both were taken twice.
        ordered = self.untied_x + self.untied_y - self.pairs + self.tied
        with np.errstate(divide="ignore", invalid="ignore"):
            tau_b = self.surplus / np.sqrt(self.untied_x * self.untied_y)
            tau_c = 2 * self.surplus * self.levels / (self.n**2 * (self.levels - 1))
            accuracy = ((ordered + self.surplus) / 2 + self.tied) / self.pairs
        return {
            "kendall_b": np.where(varied, np.clip(tau_b, -1, 1), np.nan),
            "kendall_c": np.where(varied, tau_c, np.nan),
            "pairwise_accuracy": np.where(self.pairs > 0, accuracy, np.nan),
        }


def coefficients_of(counts: PairCounts, values: Moments, ranks: Moments) -> Coefficients:
    """Compute every statistic of every row; correlations are NaN where a side is constant."""
    varied = (counts.untied_x > 0) & (counts.untied_y > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        pearson, spearman = values.correlation(), ranks.correlation()
    products = {"pearson": np.where(varied, pearson, np.nan), "spearman": np.where(varied, spearman, np.nan)}
    return {**products, **counts.statistics()}


def coefficients(
    metric: FloatArray, people: FloatArray, statistics: tuple[str, ...] = STATISTICS
) -> dict[str, float | None]:
    """Compute statistics of one group of checked sides (n,) with SciPy; None where one is not defined.

    >>> found = coefficients(np.array([1.0, 2, 3, 4, 5, 5]), np.array([1.0, 3, 2, 4, 4, 6]))
    >>> {name: round(value, 6) for name, value in found.items()}["kendall_c"]
    0.763889
    """
    return {name: OF_ONE_GROUP[name](metric, people) for name in statistics}


def pearson_of(left: FloatArray, right: FloatArray) -> float | None:
    """Compute Pearson's r of checked sides; None where a side is constant."""
    if is_constant(left) or is_constant(right):
        return None
    from scipy.stats import pearsonr

    r = float(pearsonr(left, right).statistic)
    return r if np.isfinite(r) else None


def kendall_c_of(left: FloatArray, right: FloatArray) -> float | None:
    """Compute Kendall's tau-c of checked sides; None where a side is constant."""
    if is_constant(left) or is_constant(right):
        return None
    from scipy.stats import kendalltau

    return float(kendalltau(left, right, variant="c").statistic)


def pairwise_accuracy(metric: FloatArray, people: FloatArray) -> float | None:
    """Compute the share of all pairs of items that both sides order alike or both tie; None for fewer than two items.

    >>> pairwise_accuracy(np.array([1.0, 2, 3, 4, 5, 5]), np.array([1.0, 3, 2, 4, 4, 6]))
    0.8
    """
    pairs = metric.size * (metric.size - 1) // 2
    both = dense_ranks(metric) * people.size + dense_ranks(people)
    tied_metric, tied_people, tied_both = tied_pairs(metric), tied_pairs(people), tied_pairs(both)
    tau = kendall_of(metric, people)
    # SciPy counts the pairs, but gives them only inside tau-b.
    surplus = 0 if tau is None else round(tau * math.sqrt(pairs - tied_metric) * math.sqrt(pairs - tied_people))
    ordered = pairs - tied_metric - tied_people + tied_both
    return ratio((ordered + surplus) // 2 + tied_both, pairs)


def tied_pairs(values: FloatArray | IntArray) -> int:
    """Count pairs of equal values (n,)."""
    sizes = np.unique(values, return_counts=True)[1]
    return int((sizes * (sizes - 1) // 2).sum())


OF_ONE_GROUP = {
    "pearson": pearson_of,
    "spearman": spearman_of,
    "kendall_b": kendall_of,
    "kendall_c": kendall_c_of,
    "pairwise_accuracy": pairwise_accuracy,
}
"""How SciPy computes each statistic of checked sides (n,)."""
