"""How many samples a share is, how many samples each stratum contributes, and which ones."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt


def count_in_share(share: float, n: int) -> int:
    """Count how many of n samples a share is: floor(share * n), but at least 1, also for n = 0. The share is taken as
    written in decimals, so that .1 of 30 is 3.

    >>> count_in_share(0.125, 363), count_in_share(0.1, 30), count_in_share(0.01, 5)
    (45, 3, 1)
    """
    return max(1, int(Fraction(str(share)) * n))


def divide_places(count: int, sizes: Sequence[int]) -> list[int]:
    """Divide `count` places over strata in proportion to their sizes, by the largest remainders: a list in the order of
    `sizes`. No stratum gets more places than it has samples. Raises ValueError where count is negative or above the sum
    of the sizes.

    Of equal remainders the earlier stratum's counts as larger.

    >>> divide_places(5, [60, 30, 10])
    [3, 2, 0]
    """
    total = sum(sizes)
    if not 0 <= count <= total:
        raise ValueError(f"{count} places cannot be divided over {total} samples")
    if not total:
        return [0] * len(sizes)
    places = [count * size // total for size in sizes]
    by_remainder = sorted(range(len(sizes)), key=lambda index: -(count * sizes[index] % total))
    for index in by_remainder[: count - sum(places)]:
        places[index] += 1
    return places


def choose_first_per_stratum(strata: npt.NDArray[np.intp], places: Sequence[int]) -> npt.NDArray[np.intp]:
    """Choose the first places[s] items of each stratum s: their positions, for all strata together in ascending order.
    strata: (n,), the stratum of each item, from 0 to len(places) - 1. A stratum with fewer items gives them all.

    >>> choose_first_per_stratum(np.array([0, 1, 0, 0, 1]), [2, 1]).tolist()
    [0, 1, 2]
    """
    by_stratum = np.argsort(strata, kind="stable")
    sizes = np.bincount(strata, minlength=len(places))
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    number_in_stratum = np.arange(len(strata)) - starts
    chosen = by_stratum[number_in_stratum < np.asarray(places, dtype=np.intp)[strata[by_stratum]]]
    return np.sort(chosen)
