"""A diverse subset: k-center greedy, which keeps the farthest sample close to some chosen one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

_TELL = 1000


def farthest_first(
    units: npt.NDArray[np.float32], n: int, tell: Callable[[int], None] | None = None
) -> npt.NDArray[np.intp]:
    """The positions (n,) of a diverse subset, in the order in which they were chosen.

    units: (m, d), float32 rows of length 1, the best first; 0 <= n <= m. The first row comes first; then, again and
    again, the row whose nearest chosen row is the farthest, by cosine, and of equally far rows the earlier. This is the
    greedy 2-approximation of the k-center problem (Gonzalez 1985); a smaller subset is the beginning of a larger one.
    Time grows with n times m, memory beyond the rows with m. tell: gets the number chosen, now and then. Raises
    ValueError for n outside 0 to m.

    >>> farthest_first(np.float32([[1, 0], [0.8, 0.6], [0, 1]]), 2).tolist()
    [0, 2]
    """
    if not 0 <= n <= len(units):
        raise ValueError(f"{n} of {len(units)} rows cannot be chosen")
    chosen = np.empty(n, dtype=np.intp)
    if not n:
        return chosen
    nearest = np.full(len(units), -np.inf, dtype=np.float32)
    position = 0
    for place in range(n):
        chosen[place] = position
        np.maximum(nearest, units @ units[position], out=nearest)
        nearest[position] = np.inf
        position = int(np.argmin(nearest))
        if tell and place % _TELL == 0:
            tell(place)
    return chosen
