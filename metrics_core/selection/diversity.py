"""Chooses a diverse subset by k-center greedy, which keeps every sample as near as possible to a chosen one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.float32]
Positions = npt.NDArray[np.intp]

# The farthest rows among which the next ones are chosen, and the rows that are compared with these at once.
_POOL, _ROWS = 256, 8192


def choose_diverse_rows(units: Rows, n: int, report_progress: Callable[[int], None] | None = None) -> Positions:
    """Choose n rows that differ as much as possible: their positions (n,), in the order in which they were chosen,
    beginning with the first row. units: (m, d), float32 rows of length 1, the best first. report_progress: is called
    with the number chosen so far, now and then. Raises ValueError for n outside 0 to m.

    The first row comes first; then, again and again, the row whose nearest chosen row is the farthest, by cosine, and
    of equally far rows the earlier. This is the greedy 2-approximation of the k-center problem (Gonzalez 1985); a
    smaller subset is the beginning of a larger one. Time grows with n times m, memory beyond the rows with m.

    >>> choose_diverse_rows(np.float32([[1, 0], [0.8, 0.6], [0, 1]]), 2).tolist()
    [0, 2]
    """
    if not 0 <= n <= len(units):
        raise ValueError(f"{n} of {len(units)} rows cannot be chosen")
    chosen = np.empty(n, dtype=np.intp)
    nearest = np.full(len(units), -np.inf, dtype=np.float32)
    n_chosen = 0
    while n_chosen < n:
        added = _choose_next_rows(units, nearest, n - n_chosen)
        chosen[n_chosen : n_chosen + len(added)] = added
        n_chosen += len(added)
        for start in range(0, len(units), _ROWS):
            part = nearest[start : start + _ROWS]
            np.maximum(part, (units[start : start + _ROWS] @ units[added].T).max(axis=1), out=part)
        nearest[added] = np.inf
        if report_progress:
            report_progress(n_chosen)
    return chosen


def _choose_next_rows(units: Rows, nearest: npt.NDArray[np.float32], most: int) -> Positions:
    """Choose the next rows, in order: one or more.

    nearest: (m,), the cosine of each row with its nearest chosen row. It never falls, so a row stays the farthest as
    long as its cosine is below those of all rows outside a pool. So rows of the pool are chosen by their products with
    one another, and all rows are compared with many new ones in one product of matrices.
    """
    limit = np.partition(nearest, _POOL)[_POOL] if len(nearest) > _POOL else np.float32(np.inf)
    (pool,) = np.nonzero(nearest < limit)
    if not len(pool):
        return np.array([np.argmin(nearest)])
    inside, products = nearest[pool], units[pool] @ units[pool].T
    added: list[int] = []
    while len(added) < most:
        place = int(np.argmin(inside))
        if inside[place] >= limit:
            break
        added.append(place)
        np.maximum(inside, products[place], out=inside)
        inside[place] = np.inf
    return pool[added]
