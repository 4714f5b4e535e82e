"""Arithmetic that several metrics share: quotients with their value for a divisor of 0, Wilson's interval of a share,
Fisher's exact test of two shares, and Holm's correction of p-values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist


def harmonic_mean(precision: float, recall: float) -> float:
    """Compute F1, the harmonic mean 2PR / (P + R) of precision and recall; 0 where P + R is 0.

    >>> harmonic_mean(1.0, 0.5), harmonic_mean(0.0, 0.0)
    (0.6666666666666666, 0.0)
    """
    total = precision + recall
    return 2 * precision * recall / total if total else 0.0


def ratio(part: int, whole: int) -> float | None:
    """Compute part / whole as a float; None where `whole` is 0.

    >>> ratio(1, 4), ratio(0, 0)
    (0.25, None)
    """
    return part / whole if whole else None


def wilson_interval(successes: int, n: int, level: float = 0.95) -> tuple[float | None, float | None]:
    """Compute Wilson's score interval of the share of successes in n independent trials, as (low, high) in [0, 1];
    (None, None) for n = 0. `level` is the chance that it covers the true share. Raises ValueError for a level outside
    (0, 1).

    >>> [round(limit, 4) for limit in wilson_interval(1, 3)]
    [0.0615, 0.7923]
    """
    if not 0 < level < 1:
        raise ValueError(f"level is {level}: give the probability that the interval covers the share, such as 0.95.")
    if n == 0:
        return None, None
    z = NormalDist().inv_cdf((1 + level) / 2)
    share, spread = successes / n, z * z / n
    centre = share + spread / 2
    reach = z * math.sqrt(share * (1 - share) / n + spread / n / 4)
    # Exact at the ends, where rounding could leave the share itself outside.
    low = (centre - reach) / (1 + spread) if successes else 0.0
    high = (centre + reach) / (1 + spread) if successes < n else 1.0
    return low, high


def compute_fisher_p(first: tuple[int, int], second: tuple[int, int]) -> float:
    """Compute the one-sided p-value of Fisher's exact test that the first share is lower than the second: the chance of
    at most so many successes in the first part, if its items were drawn from both. first, second: (successes, n).

    >>> round(compute_fisher_p((1, 10), (9, 10)), 6), compute_fisher_p((3, 3), (0, 5))
    (0.000547, 1.0)
    """
    from scipy.stats import hypergeom

    (successes, n), (others, m) = first, second
    return float(hypergeom.cdf(successes, n + m, successes + others, n))


def correct_p_values(p_values: Sequence[float]) -> tuple[float, ...]:
    """Correct p-values for their number by Holm's step-down method. Return the corrected p-values in the order given;
    none exceeds 1.

    >>> correct_p_values([0.01, 0.04, 0.03])
    (0.03, 0.06, 0.06)
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    corrected, highest = [0.0] * len(p_values), 0.0
    for step, position in enumerate(order):
        highest = max(highest, min(1.0, p_values[position] * (len(p_values) - step)))
        corrected[position] = highest
    return tuple(corrected)


def correct_defined_p_values(p_values: Sequence[float | None]) -> list[float | None]:
    """Correct p-values for their number by Holm's step-down method, skipping None: a list in the order given. A None
    stays None and does not count in their number.

    >>> correct_defined_p_values([0.03, None, 0.01])
    [0.03, None, 0.02]
    """
    corrected = iter(correct_p_values([p for p in p_values if p is not None]))
    return [None if p is None else next(corrected) for p in p_values]
