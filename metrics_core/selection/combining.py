"""Several values of each sample as one value to rank by."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from metrics_core.arrays import FloatArray


def weighted_mean(values: npt.ArrayLike, weights: npt.ArrayLike) -> FloatArray:
    """The weighted mean (n,) of each row of `values` (n, m); weights (m,), positive.

    Raises ValueError for other shapes, weights that are not positive, and values that are not finite.

    >>> weighted_mean([[1.0, 0.0], [0.5, 0.5]], [3, 1]).tolist()
    [0.75, 0.5]
    """
    rows, parts = _checked(values, weights)
    return np.asarray(rows @ parts / parts.sum(), dtype=np.float64)


def mean_rank(values: npt.ArrayLike, weights: npt.ArrayLike) -> FloatArray:
    """The weighted mean (n,) over the columns of `values` (n, m) of the rank of each value in its column.

    A rank is scaled to the open interval (0, 1), and the highest value has the highest; equal values share the mean of
    their ranks. So a metric counts by its order alone, whatever the range of its values. Raises ValueError as
    `weighted_mean` does.

    >>> mean_rank([[0.1, 50.0], [0.2, 10.0]], [1, 1]).tolist()
    [0.5, 0.5]
    >>> mean_rank([[0.1, 50.0], [0.2, 10.0]], [3, 1]).tolist()
    [0.375, 0.625]
    """
    from scipy.stats import rankdata

    rows, parts = _checked(values, weights)
    if not len(rows):
        return np.empty(0)
    # Sums of whole ranks and whole weights are exact, so that equal means are equal.
    ranks = np.asarray(rankdata(rows, axis=0), dtype=np.float64)
    return np.asarray((ranks @ parts / parts.sum() - 0.5) / len(rows), dtype=np.float64)


def _checked(values: npt.ArrayLike, weights: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    rows, parts = np.asarray(values, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    if rows.ndim != 2 or parts.shape != rows.shape[1:]:
        raise ValueError(f"values have shape {rows.shape} and weights {parts.shape}: give (n, m) and (m,)")
    if not (np.isfinite(parts) & (parts > 0)).all():
        raise ValueError("weights must be positive numbers")
    if not np.isfinite(rows).all():
        raise ValueError("a value is not finite: leave its sample out")
    return rows, parts
