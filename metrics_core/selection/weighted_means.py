"""Combines several values of each sample into one value to rank by: weighted means of values or of ranks."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from metrics_core.arrays import FloatArray

# Rows that are added up at once.
_ROWS = 10_000


def weighted_mean(values: npt.ArrayLike, weights: npt.ArrayLike) -> FloatArray:
    """Compute the weighted mean of each row of `values` (n, m): an array (n,), in the order of the rows. weights: (m,),
    positive, taken as written in decimals. Raises ValueError for other shapes, weights that are not positive, and
    values that are not finite.

    Rows with the same values have the same mean, to the last digit, in any place and with any order of the columns.

    >>> weighted_mean([[1.0, 0.0], [0.5, 0.5]], [3, 1]).tolist()
    [0.75, 0.5]
    """
    rows, parts = _require_values_and_weights(values, weights)
    return _sum_rows(rows, parts) / math.fsum(parts)


def weighted_mean_rank(values: npt.ArrayLike, weights: npt.ArrayLike) -> FloatArray:
    """Compute for each row of `values` (n, m) the weighted mean of its ranks in the columns, scaled to the open
    interval (0, 1): an array (n,). The highest value of a column has the highest rank; equal values share the mean of
    their ranks. weights: (m,), positive. Raises ValueError as `weighted_mean` does.

    So a metric counts by its order only, whatever the range of its values. Weights are taken as written in decimals.
    Equal means are equal to the last digit where n times the sum of the weights has at most 15 digits, decimals of the
    weights included.

    >>> weighted_mean_rank([[0.1, 50.0], [0.2, 10.0]], [1, 1]).tolist()
    [0.5, 0.5]
    >>> weighted_mean_rank([[0.1, 50.0], [0.2, 10.0]], [3, 1]).tolist()
    [0.375, 0.625]
    """
    from scipy.stats import rankdata

    rows, parts = _require_values_and_weights(values, weights)
    if not len(rows):
        return np.empty(0)
    ranks = np.asarray(rankdata(rows, axis=0), dtype=np.float64)
    return np.asarray((_sum_rows(ranks, parts) / math.fsum(parts) - 0.5) / len(rows), dtype=np.float64)


def _require_values_and_weights(values: npt.ArrayLike, weights: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return the values, and the weights as whole numbers of the same proportions: .1 and .2 become 1 and 2."""
    rows, given = np.asarray(values, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    if rows.ndim != 2 or given.shape != rows.shape[1:]:
        raise ValueError(f"values have shape {rows.shape} and weights {given.shape}: give (n, m) and (m,)")
    if not (np.isfinite(given) & (given > 0)).all():
        raise ValueError("weights must be positive numbers")
    if not np.isfinite(rows).all():
        raise ValueError("a value is not finite: leave its sample out")
    decimals = [Fraction(str(weight)) for weight in given.tolist()]
    unit = Fraction(1, math.lcm(*[part.denominator for part in decimals]))
    return rows, np.array([float(part / unit) for part in decimals])


def _sum_rows(rows: FloatArray, parts: FloatArray) -> FloatArray:
    """Sum each row of `rows` (n, m) times `parts` (m,): (n,).

    A product of matrices rounds a row otherwise in another place, or with another order of its columns.
    """
    starts = range(0, len(rows), _ROWS)
    sums = [math.fsum(row) for start in starts for row in (rows[start : start + _ROWS] * parts).tolist()]
    return np.array(sums, dtype=np.float64)
