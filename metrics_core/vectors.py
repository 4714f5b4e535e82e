"""Checks rows of features, scales them to length 1 and averages them, so that their products are cosines."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from metrics_core.arrays import FloatArray

LEAST_MEAN_LENGTH = 1e-12
"""A mean of unit vectors shorter than this is rounding noise and has no direction."""


class BadFeature(ValueError):
    """Raised for a feature without a direction: it is zero, NaN or infinite, or the features to average cancel out."""


def require_feature_rows(name: str, values: npt.ArrayLike) -> FloatArray:
    """Return `values` as a float64 array (n, d), one row of features per item; an empty (0, 0) array without items.
    Raises ValueError, with `name` in its text, for another shape.
    """
    rows = np.asarray(values, dtype=np.float64)
    if rows.ndim in (1, 2) and len(rows) == 0:
        return np.empty((0, 0))
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise ValueError(f"{name} have shape {rows.shape}: give a row of features per item, (n, d) with d at least 1.")
    return rows


def normalise_rows(name: str, rows: FloatArray) -> FloatArray:
    """Scale each row of a float64 array (n, d) to length 1. Raises BadFeature for the first row that is zero or not
    finite; its text has the row's number and `name`, a word for the features.
    """
    peak = np.abs(rows).max(axis=1, keepdims=True)
    bad = np.flatnonzero(~(np.isfinite(peak) & (peak > 0)))
    if bad.size:
        raise BadFeature(f"row {bad[0]:,} of the {name} features is zero or not finite: check the encoder's output")
    # Squares of very large or small values would leave the range of float64, so the largest becomes 1 first.
    scaled = rows / peak
    unit: FloatArray = scaled / np.linalg.norm(scaled, axis=1, keepdims=True)
    return unit


def average_unit_rows(name: str, units: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """Average rows of length 1, (n, d), with optional weights (n,), and scale their mean (d,) to length 1. Raises
    BadFeature where the rows cancel out, with `name`, a word for the rows, in its text.
    """
    mean = np.asarray(np.average(units, axis=0, weights=weights), dtype=np.float64)
    length = float(np.linalg.norm(mean))
    if length < LEAST_MEAN_LENGTH:
        raise BadFeature(f"the features of the {name} cancel out: their mean has no direction")
    return mean / length
