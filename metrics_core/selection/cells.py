"""Cells of vectors: similar rows lie in cells that are near, so that most others need not be compared."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.float32]

PROBED = 24
"""The cells nearest to a row in which its near-duplicates are looked for."""
# Fewer rows per cell would need more cells, to all of which every row is compared, and more misses.
_ROWS_PER_CELL = 2048
_TRAINED_PER_CELL, _ROUNDS = 40, 6


def learn_cells(units: Rows) -> Rows:
    """Return the centers (n_cells, d) of cells, about one per 2,048 rows, by spherical k-means (faiss) on some of the
    rows. units: (n, d), float32 rows of length 1. The same rows have the same cells.
    """
    import faiss

    n, d = units.shape
    n_cells = max(1, n // _ROWS_PER_CELL)
    # Spread over all rows, which come in order of their values.
    step = max(1, n // (n_cells * _TRAINED_PER_CELL))
    means = faiss.Kmeans(
        d, n_cells, niter=_ROUNDS, spherical=True, min_points_per_centroid=1, max_points_per_centroid=_TRAINED_PER_CELL
    )
    means.train(np.ascontiguousarray(units[::step]))
    return np.asarray(means.centroids, dtype=np.float32)


def find_cells(rows: Rows, centers: Rows) -> npt.NDArray[np.int64]:
    """Return the numbers of the 24 cells nearest to every row, the nearest first: (n, 24), or (n, n_cells) if there are
    fewer. rows: (n, d), float32; centers: (n_cells, d), as `learn_cells` returns them.
    """
    import faiss

    cells: npt.NDArray[np.int64] = faiss.knn(rows, centers, min(PROBED, len(centers)), faiss.METRIC_INNER_PRODUCT)[1]
    return cells
