"""How many requests may come under one name: some at once, and so many a second for as long as one likes."""

from __future__ import annotations

import math
from collections.abc import Callable


class RateLimits:
    """Counts requests by name. clock: gives the time in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, name: str, per_second: float, burst: int) -> int:
        """Return 0 and count a request that may come now, else the seconds to wait for the next one. A name that was
        quiet long enough may send `burst` requests at once, then `per_second`.

        >>> limits = RateLimits(lambda: 0)
        >>> [limits.take("a rater", 0.5, 2) for _ in range(3)], limits.take("another", 0.5, 2)
        ([0, 0, 2], 0)
        """
        now = self._clock()
        left, before = self._left.get(name, (float(burst), now))
        left = min(burst, left + max(0.0, now - before) * per_second)
        is_free = left >= 1
        self._left[name] = (left - is_free, now)
        return 0 if is_free else math.ceil((1 - left) / per_second)
