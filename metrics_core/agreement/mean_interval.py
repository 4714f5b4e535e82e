"""The interval of a mean over clusters, from its cluster-robust standard error."""

from __future__ import annotations

import math

# Means of clusters that differ by less than rounding do not differ.
_ROUNDING = 1e-12


def mean_interval(
    mean: float,
    standard_error: float | None,
    n_clusters: int,
    value_range: tuple[float, float] = (-math.inf, math.inf),
    level: float = 0.95,
) -> tuple[float, float] | None:
    """Student's t interval of a mean of clustered values, with n_clusters - 1 degrees of freedom.

    mean: sum of the clusters' totals t over sum of their sizes n. standard_error: cluster-robust, as of Liang and Zeger
    (1986), sqrt(G / (G - 1) * sum((t - mean * n)**2)) / sum(n) over the G clusters. value_range: no limit lies outside
    of it. None where the interval is undefined: fewer than two clusters, or clusters whose means do not differ.

    >>> low, high = mean_interval(0.5, 0.1, 4)
    >>> round(low, 4), round(high, 4)
    (0.1818, 0.8182)
    >>> mean_interval(0.5, 0.0, 4) is None
    True
    """
    if n_clusters < 2 or standard_error is None or standard_error <= _ROUNDING * max(1.0, abs(mean)):
        return None
    from scipy.special import stdtrit

    half = float(stdtrit(n_clusters - 1, (1 + level) / 2)) * standard_error
    return max(value_range[0], mean - half), min(value_range[1], mean + half)
