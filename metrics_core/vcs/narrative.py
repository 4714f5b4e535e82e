"""Narrative order in one direction: NAS-D (distance to the windows) and NAS-L (length of the line)."""

from __future__ import annotations

import numpy as np

from metrics_core.vcs.band import line_length, step_lengths
from metrics_core.vcs.geometry import Direction
from metrics_core.vcs.result import DistanceDetail, LineDetail
from metrics_core.vcs.windows import IntArray


def nas_d(offset: IntArray, direction: Direction, lct: float) -> tuple[float, DistanceDetail]:
    """1 - P_total / P_max, in [0, 1]; 0 where P_max is 0, as in the authors' code.

    A match within the tolerance costs nothing, one beyond it its whole offset from the window.
    """
    penalised = offset[offset > lct * direction.lct_height]
    total = int(penalised.sum()) / direction.windows.timeline
    detail = DistanceDetail(direction.lct_height, direction.max_penalty, total)
    return (1.0 - total / direction.max_penalty if direction.max_penalty else 0.0), detail


def nas_l(match: IntArray, direction: Direction, lct: float) -> tuple[float, LineDetail]:
    """How well the length of the line through the matches fits between the floor and ceil lines, in [0, 1].

    Without tolerance a step backwards adds nothing; with any tolerance, however small, it counts like the
    same step forwards.
    """
    band = direction.band
    if match.size == 1:
        return 1.0, LineDetail(0.0, 0.0, 0.0, None, None, (), (), "")
    rise = match[1:] - match[:-1]
    size = np.abs(rise) if lct > 0 else rise
    omega_lct = direction.omega0 + direction.kappa * lct
    standard = (size >= 0) & (size <= direction.omega0)
    counted = standard | ((size >= 0) & (size <= omega_lct))
    steps = np.where(standard, step_lengths(rise), np.where(counted, band.floor_steps, 0.0))
    letters = np.where(standard, ord("s"), np.where(counted, ord("c"), ord("-")))
    actual = line_length(steps)
    detail = LineDetail(
        actual,
        band.floor_length,
        band.ceil_length,
        direction.omega0,
        omega_lct,
        band.floor_path,
        band.ceil_path,
        letters.astype(np.uint8).tobytes().decode("ascii"),
    )
    if actual < band.floor_length:
        return actual / band.floor_length, detail
    return (band.ceil_length / actual if actual > band.ceil_length else 1.0), detail
