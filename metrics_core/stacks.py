"""Which pairs can be worked on together: those of one shape, as many as fit the processor's cache."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

# A stack holds up to this many numbers (1 MiB of float64), and at least one pair.
STACK_CELLS = 1 << 17

Shapes = tuple[tuple[int, ...], ...]


def stacks_of(shapes: Sequence[Shapes]) -> Iterator[list[int]]:
    """Positions of pairs whose arrays all have the same shapes, in lists that are small enough to stack.

    >>> list(stacks_of([((2, 3),), ((4, 4),), ((2, 3),)]))
    [[0, 2], [1]]
    """
    positions: dict[Shapes, list[int]] = defaultdict(list)
    for i, pair in enumerate(shapes):
        positions[pair].append(i)
    for pair, members in positions.items():
        size = max(1, STACK_CELLS // sum(map(math.prod, pair)))
        yield from (members[i : i + size] for i in range(0, len(members), size))
