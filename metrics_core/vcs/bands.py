"""Find the shortest (floor) and the longest (ceil) line through a sequence of windows, for NAS-L."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from metrics_core.arrays import FloatArray, IntArray
from metrics_core.vcs.windows import MappingWindows


@dataclass(frozen=True, slots=True, eq=False)
class Band:
    """The shortest (floor) and the longest (ceil) line through the mapping windows of one direction, and their lengths.
    Both lines have one cell in every window; `floor_path` and `ceil_path` are these cells, positions on the timeline
    from 0. floor_steps: the length of every step of the floor line.
    """

    floor_length: float
    ceil_length: float
    floor_path: tuple[int, ...]
    ceil_path: tuple[int, ...]
    floor_steps: FloatArray


EMPTY_BAND = Band(0.0, 0.0, (), (), np.empty(0))


def compute_step_lengths(rise: IntArray) -> FloatArray:
    """Return the lengths of steps that go one chunk along the walk and `rise` chunks along the timeline, for every
    `rise`: sqrt(1 + rise * rise).
    """
    return np.asarray(np.sqrt(1 + rise * rise), dtype=np.float64)


def sum_steps(steps: FloatArray) -> FloatArray:
    """Return the sum of steps along the last axis, added from first to last, so that equal lines compare equal."""
    return np.asarray(steps.cumsum(axis=-1)[..., -1])


def compute_band(windows: MappingWindows) -> Band:
    """Return the shortest and the longest line that have one cell in every mapping window, with their lengths and
    cells. Of equally long lines the one with lower cells is taken, from the last window backwards. One window gives
    EMPTY_BAND, with lengths 0 and no cells.
    """
    if windows.start.size == 1:
        return EMPTY_BAND
    if (windows.end - windows.start).max() == 1:
        floor = ceil = windows.start
    else:
        floor, ceil = _find_extreme_paths(windows)
    floor_steps = compute_step_lengths(np.diff(floor))
    return Band(
        float(sum_steps(floor_steps)),
        float(sum_steps(compute_step_lengths(np.diff(ceil)))),
        tuple(floor.tolist()),
        tuple(ceil.tolist()),
        floor_steps,
    )


def _find_extreme_paths(windows: MappingWindows) -> tuple[IntArray, IntArray]:
    """Return (cells of the shortest line, cells of the longest line), one cell per window as its position on the
    timeline, by a dynamic programme.

    Both lines are found at once, the longest as the minimum of negated lengths. Windows are padded to a common width
    with cells of infinite cost, so that a step's cost depends only on how far the window moved.
    """
    start, end = windows.start, windows.end
    cell = np.arange(int((end - start).max()))
    padding = np.where(start[:, None] + cell < end[:, None], 0.0, np.inf)
    moves = np.diff(start).tolist()
    lengths = {move: compute_step_lengths(move + cell[:, None] - cell) for move in set(moves)}
    signed = {move: np.stack([length, -length]) for move, length in lengths.items()}
    total = np.stack([padding[0], padding[0]])
    origin = []
    for move, closed in zip(moves, padding[1:], strict=True):
        reached = total[:, None, :] + signed[move]
        origin.append(reached.argmin(axis=2))
        total = reached.min(axis=2) + closed
    floor, ceil = (_trace_back(origin, line, int(total[line].argmin())) for line in (0, 1))
    return start + floor, start + ceil


def _trace_back(origin: list[IntArray], line: int, last: int) -> IntArray:
    """Return the cells of one line from first to last, counted from the start of their windows. origin: for every step
    the best cell before every cell, (2, width). line: 0 for the shortest line, 1 for the longest. last: the line's cell
    in the last window.
    """
    path = [last]
    for cells in reversed(origin):
        path.append(int(cells[line, path[-1]]))
    return np.array(path[::-1], dtype=np.int64)
