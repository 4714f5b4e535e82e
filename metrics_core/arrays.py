"""Names of the array types that the metrics share, values found by id, groups replaced by numbers, and pairs of arrays
grouped by shape.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

_T = TypeVar("_T", bound=np.generic)

# A stack holds up to this many numbers (1 MiB of float64), and at least one pair.
STACK_CELLS = 1 << 17

PairShapes = tuple[tuple[int, ...], ...]
"""The shapes of all arrays that belong to one pair of texts or items."""


def number_groups(groups: Sequence[object]) -> IntArray:
    """Number groups from 0 in the order in which they first appear. Return an integer array (n,) with the number of
    each item's group.

    >>> number_groups(["b", "a", "b"]).tolist()
    [0, 1, 0]
    """
    number_by_group = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    return np.array([number_by_group[group] for group in groups], dtype=np.int64)


def find_values(wanted: IntArray, ids: IntArray, values: npt.NDArray[_T], missing: float) -> npt.NDArray[_T]:
    """Return the values (n,) of the `wanted` ids (n,), `missing` for an id that `ids` lacks. ids, values: (m,), every
    id with its value, at most once; both lists of ids may be in any order.

    >>> find_values(np.array([7, 5, 6]), np.array([9, 7, 5]), np.array([0.9, 0.7, 0.5]), np.nan).tolist()
    [0.7, 0.5, nan]
    """
    if not ids.size:
        return np.full(wanted.shape, missing, dtype=values.dtype)
    order = np.argsort(ids)
    rows = order[np.minimum(np.searchsorted(ids, wanted, sorter=order), ids.size - 1)]
    found: npt.NDArray[_T] = np.where(ids[rows] == wanted, values[rows], np.asarray(missing, dtype=values.dtype))
    return found


def group_equal_shapes(shapes: Sequence[PairShapes]) -> Iterator[list[int]]:
    """Yield lists of positions of pairs with equal shapes, so that the pairs of a list can be stacked and computed at
    once. `shapes` has the shapes of both arrays of every pair. A list holds at least one position, and no more than fit
    into the processor's cache; every position comes once.

    >>> list(group_equal_shapes([((2, 3),), ((4, 4),), ((2, 3),)]))
    [[0, 2], [1]]
    """
    positions: dict[PairShapes, list[int]] = defaultdict(list)
    for position, pair in enumerate(shapes):
        positions[pair].append(position)
    for pair, members in positions.items():
        size = max(1, STACK_CELLS // sum(map(math.prod, pair)))
        yield from (members[i : i + size] for i in range(0, len(members), size))
