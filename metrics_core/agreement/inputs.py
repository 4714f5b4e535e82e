"""The two sides of a comparison, checked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from metrics_core.calibration.labels import FloatArray, IntArray, numbered


def both_sides(metric: npt.ArrayLike, people: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Both as (n,) in float64; ValueError, naming the item, for shapes that differ and numbers that are not finite."""
    left, right = np.asarray(metric, dtype=np.float64), np.asarray(people, dtype=np.float64)
    if left.ndim != 1 or left.shape != right.shape:
        raise ValueError(
            f"metric has shape {left.shape}, people {right.shape}: give one number of each for every item, (n,)."
        )
    for name, side in (("metric", left), ("people", right)):
        bad = np.flatnonzero(~np.isfinite(side))
        if bad.size:
            raise ValueError(f"{name} {bad[0]} is {side[bad[0]]}: leave out items without a number on both sides.")
    return left, right


def group_numbers(name: str, groups: Sequence[object], n: int) -> IntArray:
    """The number (n,) of each item's group, from 0 in order of appearance; ValueError unless there are n."""
    if len(groups) != n:
        raise ValueError(f"There are {len(groups)} {name} for {n} items: give one for each.")
    return numbered(groups)
