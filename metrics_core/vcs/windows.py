"""Mapping windows: the range in which a chunk's match is expected if both texts tell the story at an even pace."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from metrics_core.arrays import IntArray


@dataclass(frozen=True, slots=True, eq=False)
class MappingWindows:
    """The mapping windows of one direction: where on the timeline, the other text's chunks, the match of every walked
    chunk is expected. A window is a half-open range [start, end) of chunks from 0. timeline: the number of the other
    text's chunks.
    """

    start: IntArray
    end: IntArray
    timeline: int

    @property
    def bounds(self) -> tuple[tuple[int, int], ...]:
        """The windows as (start, end) pairs of Python integers, in the order of the walk."""
        return tuple(zip(self.start.tolist(), self.end.tolist(), strict=True))


def compute_direct_windows(n_long: int, n_short: int) -> MappingWindows:
    """Return one mapping window per chunk of the shorter text, in order: the range of the longer text's `n_long` chunks
    in which the chunk's match is expected. n_short: the number of the shorter text's chunks.

    Starts are products in float64, as in the authors' code. For some shapes, such as 30 against 22, they differ by one
    from exact integer division, and the published numbers depend on this.
    """
    slope = n_long / n_short
    start = np.floor(np.arange(n_short) * slope).astype(np.int64)
    return MappingWindows(start, np.minimum(start + math.ceil(slope), n_long), n_long)


def compute_reverse_windows(direct: MappingWindows) -> MappingWindows:
    """Return one window per chunk of the longer text, in order: the range of the shorter text's chunks whose direct
    window contains the chunk.
    """
    position = np.arange(direct.timeline)
    start = np.searchsorted(direct.end, position, side="right").astype(np.int64)
    end = np.searchsorted(direct.start, position, side="right").astype(np.int64)
    return MappingWindows(start, end, direct.start.size)


def compute_window_regularizer(area: int, n_long: int, n_short: int) -> float:
    """Return the window regulariser R_w in [0, 1], which grows with the share of all cells that the windows cover. It
    is 0 at a share of 1 / n_long and 1 from a share of 1/2 on. n_long of 1 gives 0, of 2 gives 1. area: the number of
    cells in all windows.
    """
    if n_long == 1:
        return 0.0
    if n_long == 2:
        return 1.0
    smallest = 1.0 / n_long
    return min(max((area / (n_long * n_short) - smallest) / (0.5 - smallest), 0.0), 1.0)
