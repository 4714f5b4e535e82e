"""Progress of long work as log lines: often enough for a person, rarely enough for Dagster's event log."""

from __future__ import annotations

import time
from collections.abc import Callable

LineWriter = Callable[[str], None]
SECONDS_BETWEEN = 2.0


def throttle_lines(say: LineWriter, clock: Callable[[], float] = time.monotonic) -> LineWriter:
    """Return a function that passes a line on to `say`, and drops it where the last one passed is less than two seconds
    ago. clock: returns the time in seconds.

    >>> times, lines = iter([0.0, 0.5, 2.5]), []
    >>> tell = throttle_lines(lines.append, clock=lambda: next(times))
    >>> for line in ("one", "two", "three"):
    ...     tell(line)
    >>> lines
    ['one', 'three']
    """
    said_at: float | None = None

    def tell(line: str) -> None:
        nonlocal said_at
        now = clock()
        if said_at is None or now - said_at >= SECONDS_BETWEEN:
            said_at = now
            say(line)

    return tell
