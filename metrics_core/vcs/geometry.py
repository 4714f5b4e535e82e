"""Compute everything that depends only on the two texts' numbers of chunks (a shape), once per shape."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from metrics_core.arrays import IntArray
from metrics_core.vcs.bands import Band, compute_band
from metrics_core.vcs.windows import (
    MappingWindows,
    compute_direct_windows,
    compute_reverse_windows,
    compute_window_regularizer,
)


@dataclass(frozen=True, slots=True, eq=False)
class WalkDirection:
    """One direction of VCS, precision or recall, at one number of chunks in both texts. The chunks of one text are
    walked and matched with chunks of the other, the timeline. windows: the mapping window of every walked chunk;
    window_pairs: the same as (start, end) pairs. band: the shortest and the longest line through the windows.

    `window_cells` lists the cells of every window, padded to a common width by repeating the last cell. NAS-D uses
    `lct_height` and `max_penalty`; NAS-L uses `omega0`, `kappa` and `band`.
    """

    windows: MappingWindows
    window_pairs: tuple[tuple[int, int], ...]
    window_cells: IntArray
    lct_height: int
    max_penalty: float
    omega0: float
    kappa: int
    band: Band


@dataclass(frozen=True, slots=True, eq=False)
class ShapeGeometry:
    """Everything in VCS that depends only on two texts' numbers of chunks: both directions, and how much the mapping
    windows allow. window_area: the number of cells in all windows. window_regularizer: R_w in [0, 1], see
    `compute_window_regularizer`.
    """

    precision: WalkDirection
    recall: WalkDirection
    window_area: int
    window_regularizer: float


def _build_direction(windows: MappingWindows) -> WalkDirection:
    """Build one direction of VCS from its mapping windows: compute its tolerances, its largest penalty and its band."""
    start, end, timeline = windows.start, windows.end, windows.timeline
    pace = timeline / start.size
    height = math.ceil(pace)
    # A pace that exceeds a whole number of chunks by at most a half is rounded down.
    rounded_down = timeline > start.size and 0.0 < pace - math.floor(pace) <= 0.5
    cell = np.arange(int((end - start).max()))
    return WalkDirection(
        windows=windows,
        window_pairs=windows.bounds,
        window_cells=np.minimum(start[:, None] + cell, end[:, None] - 1),
        lct_height=height - rounded_down,
        max_penalty=int(np.maximum(start, timeline - end).sum()) / timeline,
        omega0=float(2 * height - 1 - rounded_down),
        kappa=height - rounded_down,
        band=compute_band(windows),
    )


@lru_cache(maxsize=1024)
def build_geometry(n_ref: int, n_gen: int) -> ShapeGeometry:
    """Return everything in VCS that depends only on the numbers of chunks: `n_ref` reference chunks and `n_gen`
    generated chunks, both at least 1. The latest 1,024 results stay in memory.
    """
    n_long, n_short = max(n_ref, n_gen), min(n_ref, n_gen)
    direct = compute_direct_windows(n_long, n_short)
    short_walk, long_walk = _build_direction(direct), _build_direction(compute_reverse_windows(direct))
    precision, recall = (short_walk, long_walk) if n_ref >= n_gen else (long_walk, short_walk)
    area = int((direct.end - direct.start).sum())
    return ShapeGeometry(precision, recall, area, compute_window_regularizer(area, n_long, n_short))
