"""Where a number of the best samples ends, how many samples share the value there, and which of these are taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.intp]
# At most one sample in so many, 5 %, may be taken before its equals for no reason but its key.
_FEWEST = 20


@dataclass(frozen=True, slots=True)
class SizeThreshold:
    """The value at which the size asked for ends within a stratum, and how many samples lie there.

    stratum: its number. value: that of the worst of the `n_asked` best samples. n_above: how many samples have a higher
    value; n_at: how many have exactly this one.
    """

    stratum: int
    value: float
    n_asked: int
    n_above: int
    n_equal: int

    @property
    def n_tied_asked(self) -> int:
        """How many of the samples asked for have the value of the cut."""
        return self.n_asked - self.n_above

    @property
    def n_tied_beyond(self) -> int:
        """How many samples with the value of the cut are more than asked for."""
        return self.n_equal - self.n_tied_asked

    @property
    def is_arbitrary(self) -> bool:
        """Whether more than 5 % of the samples asked for would be taken before their equals by their keys.

        >>> SizeThreshold(0, 0.0, 20, 19, 2).is_arbitrary, SizeThreshold(0, 0.0, 20, 18, 3).is_arbitrary
        (False, True)
        >>> SizeThreshold(0, 0.0, 20, 18, 2).is_arbitrary  # all that share the value are taken
        False
        """
        return self.n_tied_beyond > 0 and self.n_tied_asked * _FEWEST > self.n_asked

    def count_selected(self, ties: str) -> int:
        """Return how many samples of the stratum are taken where ties are "include", "exclude" or decided otherwise.

        >>> cut = SizeThreshold(0, 0.0, n_asked=20, n_above=18, n_equal=5)
        >>> [cut.count_selected(ties) for ties in ("random", "include", "exclude")]
        [20, 23, 18]
        """
        if ties == "include":
            return self.n_above + self.n_equal
        return self.n_above if ties == "exclude" and self.n_tied_beyond else self.n_asked


def find_size_thresholds(values: npt.NDArray[np.float64], strata: Counts, places: Sequence[int]) -> list[SizeThreshold]:
    """Return where the best places[s] samples of each stratum s end, by stratum; one without a place has no cut.

    values: (n,), none above an earlier one of its stratum. strata: (n,), from 0 to len(places) - 1. No stratum has more
    places than samples.

    >>> find_size_thresholds(np.array([0.9, 0.5, 0.5, 0.5, 0.1]), np.array([0, 0, 1, 0, 1]), [2, 0])
    [SizeThreshold(stratum=0, value=0.5, n_asked=2, n_above=1, n_at=2)]
    """
    by_stratum = np.argsort(strata, kind="stable")
    sizes = np.bincount(strata, minlength=len(places))
    wanted = np.asarray(places, dtype=np.intp)
    (used,) = np.nonzero(wanted)
    lasts = (np.cumsum(sizes) - sizes + wanted - 1)[used]
    worst = np.full(len(places), np.inf)
    worst[used] = values[by_stratum[lasts]]
    above, at = values > worst[strata], values == worst[strata]
    counts = [np.bincount(strata[rows], minlength=len(places)) for rows in (above, at)]
    columns = zip(*[part[used].tolist() for part in (worst, wanted, *counts)], strict=True)
    return [SizeThreshold(stratum, *numbers) for stratum, numbers in zip(used.tolist(), columns, strict=True)]


def count_ties(thresholds: Sequence[SizeThreshold], ties: str) -> tuple[int, int]:
    """Return how many samples that have the value of their stratum's cut are taken with these `ties`, and are left.

    >>> count_ties([SizeThreshold(0, 0.0, 20, 18, 5), SizeThreshold(1, 0.5, 4, 3, 1)], "include")
    (6, 0)
    """
    taken = [cut.count_selected(ties) - cut.n_above for cut in thresholds]
    return sum(taken), sum(cut.n_equal for cut in thresholds) - sum(taken)
