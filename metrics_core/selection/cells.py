"""Cells of vectors: an index that finds near-duplicates among hundreds of thousands of rows, and misses a few."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.float32]
Positions = npt.NDArray[np.intp]

PROBED = 16
"""The cells nearest to a row in which its near-duplicates are looked for."""
# A cell for so many rows: then finding the cells of a row costs about what comparing it within them does.
_ROWS_PER_CELL = 256
_TRAINED_PER_CELL, _ROUNDS = 40, 6


class CellIndex:
    """Rows by cell, of which the nearest to a given row are found in its 16 nearest cells only (faiss, IVF).

    units: (n, d), float32 rows of length 1, from which the cells are learnt; only added rows are found. The same rows
    make the same cells.
    """

    def __init__(self, units: Rows) -> None:
        import faiss
        from faiss.contrib import ivf_tools

        self._tools: Any = ivf_tools
        n, d = units.shape
        n_cells = max(1, n // _ROWS_PER_CELL)
        # Spread over all rows, which come in order of their values.
        step = max(1, n // (n_cells * _TRAINED_PER_CELL))
        self._coarse: Any = faiss.IndexFlatIP(d)
        self._index: Any = faiss.IndexIVFFlat(self._coarse, d, n_cells, faiss.METRIC_INNER_PRODUCT)
        self._index.cp.niter, self._index.cp.max_points_per_centroid = _ROUNDS, _TRAINED_PER_CELL
        self._index.train(np.ascontiguousarray(units[::step]))
        self._index.nprobe = min(PROBED, n_cells)

    def find_cells(self, rows: Rows) -> npt.NDArray[np.int64]:
        """Return the numbers of the cells (n, 16) nearest to rows (n, d), the nearest first."""
        cells: npt.NDArray[np.int64] = self._coarse.search(rows, self._index.nprobe)[1]
        return cells

    def find_nearest(self, rows: Rows, cells: npt.NDArray[np.int64]) -> Positions:
        """Return for rows (n, d) with these cells the number of the added row that is most like it, in the order in
        which rows were added; -1 where the cells are empty.
        """
        nearest: Positions = self._tools.search_preassigned(self._index, rows, 1, cells)[1][:, 0]
        return nearest

    def add(self, rows: Rows, cells: npt.NDArray[np.int64]) -> None:
        """Add rows (n, d) to the nearest of their cells (n, 16)."""
        self._tools.add_preassigned(self._index, np.ascontiguousarray(rows), np.ascontiguousarray(cells[:, 0]))
