"""Mapping windows: the range in which a chunk's match is expected if both texts tell the story at an even pace."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from metrics_core.arrays import IntArray


@dataclass(frozen=True, slots=True, eq=False)
class MappingWindows:
    """The windows of one direction: a half-open range [start, end) for every walked chunk, on a timeline of `timeline`
    chunks.
    """

    start: IntArray
    end: IntArray
    timeline: int

    @property
    def bounds(self) -> tuple[tuple[int, int], ...]:
        """The windows as (start, end) pairs of Python integers, in the order of the walk."""
        return tuple(zip(self.start.tolist(), self.end.tolist(), strict=True))


def compute_direct_windows(n_long: int, n_short: int) -> MappingWindows:
    """Return one window per chunk of the shorter text, in order: the range of the longer text's `n_long` chunks in
    which the chunk's match is expected.

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
    """Return R_w in [0, 1]: how much windows of a total height `area` allow. At 1 they allow every match."""
    if n_long == 1:
        return 0.0
    if n_long == 2:
        return 1.0
    smallest = 1.0 / n_long
    return min(max((area / (n_long * n_short) - smallest) / (0.5 - smallest), 0.0), 1.0)
