"""Score narrative order in one direction: NAS-D (distance to the windows) and NAS-L (length of the line)."""

from __future__ import annotations

import numpy as np

from metrics_core.arrays import IntArray
from metrics_core.vcs.bands import Band, compute_step_lengths, sum_steps
from metrics_core.vcs.geometry import WalkDirection
from metrics_core.vcs.result import DistanceDetail, LineDetail

# How a step counts: not at all (-), with the length of the floor line's step (c), or with its own length (s).
STEP_LETTERS = np.frombuffer(b"-cs", dtype=np.uint8)


def compute_nas_d(
    offset: IntArray, direction: WalkDirection, lct: float, short_text: bool
) -> tuple[list[float], list[DistanceDetail]]:
    """Return NAS-D and its detail for every pair: 1 minus the ratio of the penalty to the largest possible one, in [0,
    1]. offset (pairs, walked chunks): the distance of every match from its window. A match costs its offset, but
    nothing if this is at most `lct` times the direction's `lct_height`.

    Where every window spans the whole timeline, no match can miss it and the largest penalty is 0: the authors' code
    then gives 0, `short_text` gives 1.
    """
    height, largest = direction.lct_height, direction.max_penalty
    penalised = np.where(offset > lct * height, offset, 0).sum(axis=1)
    totals = [penalty / direction.windows.timeline for penalty in penalised.tolist()]
    details = [DistanceDetail(height, largest, total) for total in totals]
    if largest == 0.0:
        return [float(short_text)] * len(totals), details
    return [1.0 - total / largest for total in totals], details


def compute_nas_l(match: IntArray, direction: WalkDirection, lct: float) -> tuple[list[float], list[LineDetail]]:
    """Return NAS-L, in [0, 1], and its detail for every pair: how well the length of the line through its matches fits
    between those of the shortest and the longest line through the windows. match (pairs, walked chunks): the index of
    every match. A single walked chunk gives 1.

    Without tolerance (`lct` 0) a step backwards adds nothing. With any tolerance, however small, it counts like a step
    forwards of the same size.
    """
    n_pairs, n_walked = match.shape
    if n_walked == 1:
        return [1.0] * n_pairs, [LineDetail(0.0, 0.0, 0.0, None, None, (), (), "")] * n_pairs
    band, omega0 = direction.band, direction.omega0
    omega_lct = omega0 + direction.kappa * lct
    rise = match[:, 1:] - match[:, :-1]
    size = np.abs(rise) if lct > 0 else np.where(rise < 0, np.inf, rise)
    standard, counted = size <= omega0, size <= omega_lct
    steps = np.where(standard, compute_step_lengths(rise), np.where(counted, band.floor_steps, 0.0))
    letters = STEP_LETTERS[np.add(standard, counted, dtype=np.intp)].tobytes().decode("ascii")
    lengths = sum_steps(steps).tolist()
    details = [
        LineDetail(
            length,
            band.floor_length,
            band.ceil_length,
            omega0,
            omega_lct,
            band.floor_path,
            band.ceil_path,
            letters[i * (n_walked - 1) : (i + 1) * (n_walked - 1)],
        )
        for i, length in enumerate(lengths)
    ]
    return [_compute_band_fit(length, band) for length in lengths], details


def _compute_band_fit(length: float, band: Band) -> float:
    """Return how well a line of this length fits a band, in [0, 1]: 1 for a length inside, length / floor length below,
    ceil length / length above.
    """
    if length < band.floor_length:
        return length / band.floor_length
    return band.ceil_length / length if length > band.ceil_length else 1.0
