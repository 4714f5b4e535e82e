"""The value at which a selection of a given number of best samples ends, how many samples share it, and which of these
are selected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.intp]
# At most one sample in so many, 5 %, may be selected before its equals for no reason but its key.
_FEWEST = 20


@dataclass(frozen=True, slots=True)
class SizeThreshold:
    """The value at which the `n_asked` best samples of a stratum end. stratum: its number. value: that of the worst of
    these samples. n_above: how many samples of the stratum have a higher value; n_equal: how many have exactly this
    one.
    """

    stratum: int
    value: float
    n_asked: int
    n_above: int
    n_equal: int

    @property
    def n_tied_asked(self) -> int:
        """How many of the `n_asked` best samples have exactly the threshold's value."""
        return self.n_asked - self.n_above

    @property
    def n_tied_beyond(self) -> int:
        """How many samples have exactly the threshold's value, but do not fit into the `n_asked` best ones."""
        return self.n_equal - self.n_tied_asked

    @property
    def is_arbitrary(self) -> bool:
        """Whether more than 5 % of the `n_asked` samples would be selected before other samples of the same value, only
        because of their keys. False where all samples of the threshold's value fit.

        >>> SizeThreshold(0, 0.0, 20, 19, 2).is_arbitrary, SizeThreshold(0, 0.0, 20, 18, 3).is_arbitrary
        (False, True)
        >>> SizeThreshold(0, 0.0, 20, 18, 2).is_arbitrary  # all that share the value are selected
        False
        """
        return self.n_tied_beyond > 0 and self.n_tied_asked * _FEWEST > self.n_asked

    def count_selected(self, ties: str) -> int:
        """Count the samples of the stratum that are selected under a rule for samples with exactly the threshold's
        value. `ties` "include" selects all of these; "exclude" selects none of them, unless all fit into the size.
        Another rule fills the size exactly, so the count is n_asked.

        >>> threshold = SizeThreshold(0, 0.0, n_asked=20, n_above=18, n_equal=5)
        >>> [threshold.count_selected(ties) for ties in ("random", "include", "exclude")]
        [20, 23, 18]
        """
        if ties == "include":
            return self.n_above + self.n_equal
        return self.n_above if ties == "exclude" and self.n_tied_beyond else self.n_asked


def find_size_thresholds(values: npt.NDArray[np.float64], strata: Counts, places: Sequence[int]) -> list[SizeThreshold]:
    """Find the value at which the best places[s] samples of each stratum s end: a SizeThreshold by stratum in ascending
    order. A stratum without places has none. values: (n,), none above an earlier one of its stratum. strata: (n,), from
    0 to len(places) - 1. No stratum may have more places than samples.

    >>> find_size_thresholds(np.array([0.9, 0.5, 0.5, 0.5, 0.1]), np.array([0, 0, 1, 0, 1]), [2, 0])
    [SizeThreshold(stratum=0, value=0.5, n_asked=2, n_above=1, n_equal=2)]
    """
    by_stratum = np.argsort(strata, kind="stable")
    sizes = np.bincount(strata, minlength=len(places))
    n_places = np.asarray(places, dtype=np.intp)
    (used,) = np.nonzero(n_places)
    lasts = (np.cumsum(sizes) - sizes + n_places - 1)[used]
    worst = np.full(len(places), np.inf)
    worst[used] = values[by_stratum[lasts]]
    above, at = values > worst[strata], values == worst[strata]
    counts = [np.bincount(strata[rows], minlength=len(places)) for rows in (above, at)]
    columns = zip(*[part[used].tolist() for part in (worst, n_places, *counts)], strict=True)
    return [SizeThreshold(stratum, *numbers) for stratum, numbers in zip(used.tolist(), columns, strict=True)]


def count_ties(thresholds: Sequence[SizeThreshold], ties: str) -> tuple[int, int]:
    """Count, over all strata, the samples with exactly the value of their stratum's threshold. Return how many of them
    are selected under the rule `ties` (see `SizeThreshold.count_selected`), and how many are not.

    >>> count_ties([SizeThreshold(0, 0.0, 20, 18, 5), SizeThreshold(1, 0.5, 4, 3, 1)], "include")
    (6, 0)
    """
    n_selected = sum(threshold.count_selected(ties) - threshold.n_above for threshold in thresholds)
    return n_selected, sum(threshold.n_equal for threshold in thresholds) - n_selected
