"""The value at which a number of the best samples ends, and how many samples share it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.intp]


class Ends(NamedTuple):
    """Where the places of some strata end, in ascending order of the strata; those without a place are left out.

    strata: (m,), their numbers. values: (m,), the value of the last sample that has a place. n_above: (m,), how many
    samples of the stratum have a higher value; n_at: (m,), how many have exactly this one.
    """

    strata: Counts
    values: npt.NDArray[np.float64]
    n_above: Counts
    n_at: Counts


def ends_of(values: npt.NDArray[np.float64], strata: Counts, places: Sequence[int]) -> Ends:
    """Find where the best places[s] samples of each stratum s end.

    values: (n,), none above an earlier one of its stratum. strata: (n,), from 0 to len(places) - 1. No stratum has more
    places than samples.

    >>> ends = ends_of(np.array([0.9, 0.5, 0.5, 0.5, 0.1]), np.array([0, 0, 1, 0, 1]), [2, 0])
    >>> ends.strata.tolist(), ends.values.tolist(), ends.n_above.tolist(), ends.n_at.tolist()
    ([0], [0.5], [1], [2])
    """
    by_stratum = np.argsort(strata, kind="stable")
    sizes = np.bincount(strata, minlength=len(places))
    wanted = np.asarray(places, dtype=np.intp)
    (used,) = np.nonzero(wanted)
    lasts = (np.cumsum(sizes) - sizes + wanted - 1)[used]
    of_used = values[by_stratum[lasts]]
    worst = np.full(len(places), np.inf)
    worst[used] = of_used
    above, at = values > worst[strata], values == worst[strata]
    counts = (np.bincount(strata[rows], minlength=len(places))[used] for rows in (above, at))
    return Ends(used, of_used, *counts)
