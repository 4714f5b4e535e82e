"""How many requests to a server are in flight: more while it answers as fast, fewer when it is overloaded."""

from __future__ import annotations

from dataclasses import dataclass, field

from metrics_core.models.server.answers import Exchange

FIRST, MOST = 8, 256
# Slower than this many times the fastest mean, answers come no sooner for being asked for earlier.
_SLOWER = 2.0
# The fastest mean may have been chance: after a slower round it counts for this many times as long.
_AGING = 1.05
# Statuses of a server that has too much to do.
_OVERLOADED = frozenset({408, 429, 503})


@dataclass
class _Round:
    """The answers to one kind of request since the last decision. fastest: the lowest mean of a round, in seconds."""

    n: int = 0
    seconds: float = 0.0
    fastest: float = float("inf")


@dataclass
class Pace:
    """The number of requests that may be in flight at once, from 8 to begin with, 1 to 256. Threads may share one: it
    is exact enough then.

    A round is as many answers as may be in flight. After a round whose answers took at most twice as long as those of
    the fastest round of their kind, the number doubles, and after the first setback it grows by 1. A slower round is a
    setback: the number loses a quarter, but stays at 8 or more. So is an attempt without an answer, or with the status
    408, 429 or 503, which halves the number. After that, as many attempts as were in flight halve nothing again.

    >>> pace = Pace()
    >>> for _ in range(8):
    ...     pace.note("judgements", Exchange(200, seconds=1.0))
    >>> pace.limit
    16
    >>> pace.note("judgements", Exchange(429))
    >>> pace.limit
    8
    """

    limit: int = FIRST
    _is_steady: bool = False
    _n_excused: int = 0
    _rounds: dict[str, _Round] = field(default_factory=dict)

    def note(self, kind: str, exchange: Exchange) -> None:
        """Take an attempt at a request of a kind, such as its purpose, into account."""
        self._n_excused = max(0, self._n_excused - 1)
        if exchange.status is None or exchange.status in _OVERLOADED:
            self._slow_down()
            return
        current = self._rounds.setdefault(kind, _Round())
        current.n += 1
        current.seconds += exchange.seconds
        if current.n >= self.limit:
            mean = current.seconds / current.n
            current.fastest = min(current.fastest, mean)
            if mean > _SLOWER * current.fastest:
                self._is_steady, current.fastest = True, current.fastest * _AGING
                self.limit = max(min(FIRST, self.limit), self.limit * 3 // 4)
            else:
                self.limit = min(MOST, self.limit + (1 if self._is_steady else self.limit))
            current.n, current.seconds = 0, 0.0

    def _slow_down(self) -> None:
        if self._n_excused:
            return
        self._is_steady, self._n_excused = True, self.limit
        self.limit = max(1, self.limit // 2)
        for one in self._rounds.values():
            one.n, one.seconds = 0, 0.0
