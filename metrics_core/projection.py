"""Place vectors in two dimensions, so that a picture shows which are alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metrics_core.arrays import FloatArray
from metrics_core.vectors import normalise_rows

# A mean squared distance of vectors of length 1 below this is the rounding of float32.
_LEAST_VARIANCE = 1e-12
# The vectors that are scaled and multiplied at once.
_ROWS = 8192


class NothingToProject(ValueError):
    """Raised for vectors that have no places in two dimensions: fewer than 3, or all equal."""

    plain = True


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """Places of vectors in two dimensions. coordinates: (n, 2); NaN for a vector that is zero or not finite. shares:
    the share of the variance, in [0, 1], that the first and the second dimension show.
    """

    coordinates: FloatArray
    shares: tuple[float, float]


def project_vectors(vectors: npt.NDArray[np.floating]) -> Projection:
    """Project vectors (n, d) onto their first two principal components, after scaling them to length 1, so that only
    their directions count. A component has the sign with which its largest weight is positive; therefore equal vectors
    give equal places. Raises NothingToProject if fewer than 3 vectors have a direction, or if all have the same.

    >>> project_vectors(np.array([[2.0, 0.0], [0.6, 0.8], [0.0, 1.0]])).coordinates.round(2).tolist()
    [[-0.76, -0.07], [0.1, 0.19], [0.66, -0.11]]
    """
    from scipy.linalg import eigh

    peaks = np.abs(vectors).max(axis=1, initial=0.0)
    (usable,) = np.nonzero(np.isfinite(peaks) & (peaks > 0))
    if len(usable) < 3:
        raise NothingToProject(
            f"a map needs 3 different vectors that are not zero, not {len(usable)}: score more samples"
        )
    lots = np.array_split(usable, -(-len(usable) // _ROWS))
    mean, moments = np.zeros(vectors.shape[1]), np.zeros((vectors.shape[1],) * 2)
    for lot in lots:
        units = _scale(vectors[lot])
        mean += units.sum(axis=0) / len(usable)
        moments += units.T @ units / len(usable)
    covariance = moments - np.outer(mean, mean)
    total = float(np.trace(covariance))
    if total < _LEAST_VARIANCE:
        raise NothingToProject(f"all {len(usable):,} vectors are equal, so a map has one point: choose other vectors")
    size = len(mean)
    variances, components = eigh(covariance, subset_by_index=[max(0, size - 2), size - 1])
    # The greatest first; a direction that only rounding fills shows nothing.
    components = components[:, ::-1] * (variances[::-1] > _LEAST_VARIANCE)
    components *= np.sign(components[np.abs(components).argmax(axis=0), np.arange(components.shape[1])])
    coordinates = np.full((len(vectors), 2), np.nan)
    coordinates[usable] = 0.0
    for lot in lots:
        coordinates[lot, : components.shape[1]] = (_scale(vectors[lot]) - mean) @ components
    first, second = np.nanvar(coordinates, axis=0) / total
    return Projection(coordinates, (float(first), float(second)))


def _scale(rows: npt.NDArray[np.floating]) -> FloatArray:
    return normalise_rows("map", rows.astype(np.float64))
