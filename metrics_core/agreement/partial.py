"""Partial correlations: what is left of an agreement once systems' means, or the length of the texts, are removed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from metrics_core.arrays import FloatArray, IntArray


def without_system_means(values: npt.ArrayLike, system: IntArray) -> FloatArray:
    """Subtract from each value (n,) the mean of its system, numbered from 0 in `system` (n,), as FRANK does.

    A metric that only knows which systems are good has nothing left.

    >>> without_system_means([1, 3, 10, 20], np.array([0, 0, 1, 1])).tolist()
    [-1.0, 1.0, -5.0, 5.0]
    """
    side = np.asarray(values, dtype=np.float64)
    return side - (np.bincount(system, side) / np.maximum(np.bincount(system), 1))[system]


def without_length(values: npt.ArrayLike, lengths: npt.ArrayLike) -> FloatArray:
    """Subtract from each value (n,) the least-squares line over the lengths (n,).

    >>> without_length([2, 4, 6, 9], [1, 2, 3, 4]).round(2).tolist()
    [0.2, -0.1, -0.4, 0.3]
    """
    side, length = np.asarray(values, dtype=np.float64), np.asarray(lengths, dtype=np.float64)
    if side.size == 0:
        return side
    centred, x = side - side.mean(), length - length.mean()
    squares = float(x @ x)
    rest: FloatArray = centred - x * (float(x @ centred) / squares) if squares > 0 else centred
    # What rounding leaves of values on one line is no order.
    return np.where(np.abs(rest) <= 1e-12 * np.abs(side).max(initial=0), 0.0, rest)
