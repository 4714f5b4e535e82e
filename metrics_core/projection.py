"""Place vectors in two dimensions, so that a plot shows which are similar."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metrics_core.arrays import FloatArray

# A mean squared distance of vectors of length 1 below this is the rounding of float32.
_LEAST_VARIANCE = 1e-12
# The numbers that are scaled and multiplied at once, in float64.
_LOT = 2**21
_MOST_SIDE = 4096


class NothingToProject(ValueError):
    """Raised for vectors that get no places in two dimensions: fewer than 3, too many long ones, or all equal."""

    plain = True


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """Places of vectors in two dimensions. coordinates: (n, 2); NaN for a vector that is zero or not finite. shares:
    the share of the variance, in [0, 1], that the first and the second dimension show.
    """

    coordinates: FloatArray
    shares: tuple[float, float]


def require_projectable(n_vectors: int, size: int) -> None:
    """Raise NothingToProject for more than 4,096 vectors of more than 4,096 numbers: their map would take minutes.

    >>> require_projectable(40, 16_000)
    """
    if min(n_vectors, size) > _MOST_SIDE:
        raise NothingToProject(
            f"a map places vectors of at most {_MOST_SIDE:,} numbers, or at most {_MOST_SIDE:,} longer ones, "
            f"not {n_vectors:,} of {size:,} numbers: choose other vectors"
        )


def project_vectors(vectors: npt.NDArray[np.floating]) -> Projection:
    """Project vectors (n, d), scaled to length 1 so that only directions count, onto their first two principal
    components. The largest weight of a component is made positive, so equal vectors give equal places. Raises
    NothingToProject if fewer than 3 vectors have a direction or all have the same, and for sizes that
    `require_projectable` refuses.

    >>> project_vectors(np.array([[2.0, 0.0], [0.6, 0.8], [0.0, 1.0]])).coordinates.round(2).tolist()
    [[-0.76, -0.07], [0.1, 0.19], [0.66, -0.11]]
    """
    from scipy.linalg import eigh

    size = vectors.shape[1]
    peaks = np.maximum(vectors.max(axis=1, initial=0.0), -vectors.min(axis=1, initial=0.0)).astype(np.float64)
    (usable,) = np.nonzero(np.isfinite(peaks) & (peaks > 0))
    if (n := len(usable)) < 3:
        raise NothingToProject(f"a map needs 3 different vectors that are not zero, not {n}: score more samples")
    require_projectable(n, size)
    n_lots = -(-n * size // _LOT)
    rows, columns = np.array_split(usable, min(n, n_lots)), np.array_split(np.arange(size), min(size, n_lots))
    # The largest number of a row becomes 1 before any is squared, which would leave the range of float64.
    lengths = np.ones(len(vectors))
    for lot in rows:
        lengths[lot] = np.linalg.norm(vectors[lot] / peaks[lot, None], axis=1)

    def scale(lot: npt.NDArray[np.intp], part: npt.NDArray[np.intp] | slice = slice(None)) -> FloatArray:
        units: FloatArray = vectors[lot][:, part] / peaks[lot, None]
        units /= lengths[lot, None]
        return units

    mean = np.zeros(size)
    # The smaller of two matrices with the same variances: the products of numbers, or those of vectors.
    products = np.zeros((min(n, size),) * 2)
    if size <= n:
        for lot in rows:
            units = scale(lot)
            mean += units.sum(axis=0) / n
            products += units.T @ units / n
        products -= np.outer(mean, mean)
    else:
        for part in columns:
            units = scale(usable, part)
            mean[part] = units.mean(axis=0)
            units -= mean[part]
            products += units @ units.T / n
    total = float(np.trace(products))
    if total < _LEAST_VARIANCE:
        raise NothingToProject(f"all {n:,} vectors are equal, so a map has one point: choose other vectors")
    side = len(products)
    variances, components = eigh(products, subset_by_index=[max(0, side - 2), side - 1])
    if size > n:
        of_vectors = components / np.sqrt(np.maximum(variances, _LEAST_VARIANCE) * n)
        components = np.concatenate([(scale(usable, part) - mean[part]).T @ of_vectors for part in columns])
    # The highest first; a direction that only rounding fills shows nothing.
    components = components[:, ::-1] * (variances[::-1] > _LEAST_VARIANCE)
    components *= np.sign(components[np.abs(components).argmax(axis=0), np.arange(components.shape[1])])
    coordinates = np.full((len(vectors), 2), np.nan)
    coordinates[usable] = 0.0
    for lot in rows:
        coordinates[lot, : components.shape[1]] = (scale(lot) - mean) @ components
    first, second = np.nanvar(coordinates, axis=0) / total
    return Projection(coordinates, (float(first), float(second)))
