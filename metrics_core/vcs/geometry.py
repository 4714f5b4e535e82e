"""The geometry of a shape: everything that depends on the two numbers of chunks alone, computed once per shape."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from metrics_core.arrays import FloatArray, IntArray

# Mapping windows: where the match of a chunk is expected if both texts tell the story at an even pace.


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """One half-open window [start, end) for every walked chunk, on a timeline of `timeline` chunks."""

    start: IntArray
    end: IntArray
    timeline: int

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """The windows as (start, end) pairs of Python integers."""
        return tuple(zip(self.start.tolist(), self.end.tolist(), strict=True))


def direct_windows(n_long: int, n_short: int) -> Windows:
    """Windows of the shorter text's chunks on the longer text.

    Starts are products in float64, as in the authors' code. For some shapes, such as 30 against 22, they differ by one
    from exact integer division, and the published numbers depend on this.
    """
    slope = n_long / n_short
    start = np.floor(np.arange(n_short) * slope).astype(np.int64)
    return Windows(start, np.minimum(start + math.ceil(slope), n_long), n_long)


def reverse_windows(direct: Windows) -> Windows:
    """Windows of the longer text's chunks on the shorter text: the chunks whose direct window contains the chunk."""
    position = np.arange(direct.timeline)
    start = np.searchsorted(direct.end, position, side="right").astype(np.int64)
    end = np.searchsorted(direct.start, position, side="right").astype(np.int64)
    return Windows(start, end, direct.start.size)


def window_regularizer(area: int, n_long: int, n_short: int) -> float:
    """Compute R_w in [0, 1]: how much windows of a total height `area` allow. At 1 they allow every match."""
    if n_long == 1:
        return 0.0
    if n_long == 2:
        return 1.0
    smallest = 1.0 / n_long
    return min(max((area / (n_long * n_short) - smallest) / (0.5 - smallest), 0.0), 1.0)


# The shortest (floor) and the longest (ceil) line through a sequence of windows, for NAS-L.


@dataclass(frozen=True, slots=True, eq=False)
class Band:
    """The floor and ceil lines with their lengths, and the lengths of the floor line's steps."""

    floor_length: float
    ceil_length: float
    floor_path: tuple[int, ...]
    ceil_path: tuple[int, ...]
    floor_steps: FloatArray


EMPTY_BAND = Band(0.0, 0.0, (), (), np.empty(0))


def step_lengths(rise: IntArray) -> FloatArray:
    """Length of a step that goes one chunk along the walk and `rise` chunks along the timeline."""
    return np.asarray(np.sqrt(1 + rise * rise), dtype=np.float64)


def line_length(steps: FloatArray) -> FloatArray:
    """Sum the steps along the last axis, always from first to last, so that equal lines compare equal."""
    return np.asarray(steps.cumsum(axis=-1)[..., -1])


def band_of(windows: Windows) -> Band:
    """Draw the shortest and the longest line through one cell of every window. Ties go to the lower cells."""
    if windows.start.size == 1:
        return EMPTY_BAND
    if (windows.end - windows.start).max() == 1:
        floor = ceil = windows.start
    else:
        floor, ceil = extreme_paths(windows)
    floor_steps = step_lengths(np.diff(floor))
    return Band(
        float(line_length(floor_steps)),
        float(line_length(step_lengths(np.diff(ceil)))),
        tuple(floor.tolist()),
        tuple(ceil.tolist()),
        floor_steps,
    )


def extreme_paths(windows: Windows) -> tuple[IntArray, IntArray]:
    """Find (cells of the shortest line, cells of the longest line) by a dynamic programme over the windows.

    Both lines are found at once, the longest as the minimum of negated lengths. Windows are padded to a common width
    with cells of infinite cost, so that a step's cost depends only on how far the window moved.
    """
    start, end = windows.start, windows.end
    cell = np.arange(int((end - start).max()))
    padding = np.where(start[:, None] + cell < end[:, None], 0.0, np.inf)
    moves = np.diff(start).tolist()
    lengths = {move: step_lengths(move + cell[:, None] - cell) for move in set(moves)}
    signed = {move: np.stack([length, -length]) for move, length in lengths.items()}
    total = np.stack([padding[0], padding[0]])
    origin = []
    for move, closed in zip(moves, padding[1:], strict=True):
        reached = total[:, None, :] + signed[move]
        origin.append(reached.argmin(axis=2))
        total = reached.min(axis=2) + closed
    floor, ceil = (trace_back(origin, line, int(total[line].argmin())) for line in (0, 1))
    return start + floor, start + ceil


def trace_back(origin: list[IntArray], line: int, last: int) -> IntArray:
    """Follow one line from its last cell back to its first, and return its cells from first to last."""
    path = [last]
    for cells in reversed(origin):
        path.append(int(cells[line, path[-1]]))
    return np.array(path[::-1], dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Direction:
    """One direction, precision or recall: a walk over the chunks of one text, matched with the chunks of the other.

    The other text is the timeline. `window_cells` lists the cells of every window, padded to a common width by
    repeating the last cell. NAS-D uses `lct_height` and `max_penalty`; NAS-L uses `omega0`, `kappa` and `band`.
    """

    windows: Windows
    window_pairs: tuple[tuple[int, int], ...]
    window_cells: IntArray
    lct_height: int
    max_penalty: float
    omega0: float
    kappa: int
    band: Band


@dataclass(frozen=True, slots=True, eq=False)
class Geometry:
    """Both directions of a shape, with the area of its windows and its window regulariser."""

    precision: Direction
    recall: Direction
    window_area: int
    window_regularizer: float


def direction_of(windows: Windows) -> Direction:
    """Compute the tolerances, the largest penalty and the band of one direction."""
    start, end, timeline = windows.start, windows.end, windows.timeline
    pace = timeline / start.size
    height = math.ceil(pace)
    # A pace that exceeds a whole number of chunks by at most a half is rounded down.
    rounded_down = timeline > start.size and 0.0 < pace - math.floor(pace) <= 0.5
    cell = np.arange(int((end - start).max()))
    return Direction(
        windows=windows,
        window_pairs=windows.pairs,
        window_cells=np.minimum(start[:, None] + cell, end[:, None] - 1),
        lct_height=height - rounded_down,
        max_penalty=int(np.maximum(start, timeline - end).sum()) / timeline,
        omega0=float(2 * height - 1 - rounded_down),
        kappa=height - rounded_down,
        band=band_of(windows),
    )


@lru_cache(maxsize=1024)
def geometry_of(n_ref: int, n_gen: int) -> Geometry:
    """The geometry of `n_ref` reference chunks and `n_gen` generated chunks, both at least 1."""
    n_long, n_short = max(n_ref, n_gen), min(n_ref, n_gen)
    direct = direct_windows(n_long, n_short)
    of_short, of_long = direction_of(direct), direction_of(reverse_windows(direct))
    precision, recall = (of_short, of_long) if n_ref >= n_gen else (of_long, of_short)
    area = int((direct.end - direct.start).sum())
    return Geometry(precision, recall, area, window_regularizer(area, n_long, n_short))
