"""What bounds the asking of a server: retries and waits, how many calls run at once, and when to give up."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

RETRIED = frozenset({408, 409, 429})
"""Statuses beside 5xx after which the same request may succeed."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Budgets of one request, in tries and in seconds.

    transport_retries: after no connection, a timeout, 408, 409, 429 or 5xx. content_retries: after an answer that is
    no valid JSON or was cut at its token limit; each is a fresh request with the next seed. timeout_s: the longest
    silence of a server. deadline_s: for all tries and waits of a request. The wait before transport retry n is drawn
    from [0, min(cap_s, base_s * 2^n)]; Retry-After makes it longer, up to retry_after_cap_s.
    """

    transport_retries: int = 5
    content_retries: int = 2
    connect_s: float = 10.0
    timeout_s: float = 180.0
    deadline_s: float = 600.0
    base_s: float = 0.5
    cap_s: float = 30.0
    retry_after_cap_s: float = 60.0

    def __post_init__(self) -> None:
        if min(self.transport_retries, self.content_retries) < 0:
            raise ValueError("a number of retries is 0 or more")
        if not min(self.connect_s, self.timeout_s, self.deadline_s) > 0:
            raise ValueError("timeout and deadline are more than 0 seconds")

    def wait_s(self, retry: int, drawn: float, retry_after: float | None) -> float:
        """Seconds before transport retry `retry`, counted from 0; drawn: a random number in [0, 1).

        >>> RetryPolicy().wait_s(3, 0.5, None), RetryPolicy().wait_s(0, 0.5, 7.0), RetryPolicy().wait_s(0, 0.0, 1e6)
        (2.0, 7.0, 60.0)
        """
        jitter = drawn * min(self.cap_s, self.base_s * 2.0**retry)
        return max(jitter, min(retry_after or 0.0, self.retry_after_cap_s))


def is_retried(status: int) -> bool:
    """Whether the same request may succeed after an answer of this HTTP status."""
    return status in RETRIED or status >= 500


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds that a server asks to wait; None where it does not say.

    A date counts from the server's own Date, since our clock may differ. One that no calendar has says nothing.

    >>> retry_after_s({"retry-after": "3"})
    3.0
    """
    said = headers.get("retry-after", "").strip()
    try:
        seconds = float(said)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(said) - parsedate_to_datetime(headers.get("date", ""))).total_seconds()
        except (ValueError, TypeError, OverflowError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


# How many calls run at once: halved when a server says that they are too many, and raised again slowly.


class ConcurrencyLimit:
    """At most `maximum` calls at once. Threads share it.

    A 429 halves the limit, to 1 at least. Calls that were under way when it was halved do not halve it again: they
    were too many for the same reason. After as many good calls as the limit, it rises by 1.
    """

    def __init__(self, maximum: int) -> None:
        if maximum < 1:
            raise ValueError(f"concurrency is {maximum}: give the number of calls at once, 1 or more.")
        self.maximum = maximum
        self._limit = maximum
        self._running = 0
        self._good = 0
        self._halvings = 0
        self._changed = threading.Condition()

    @property
    def limit(self) -> int:
        """Calls that may run at once now."""
        return self._limit

    @contextmanager
    def slot(self) -> Iterator[int]:
        """Wait for a place among the running calls. Yields a mark for `too_many`."""
        with self._changed:
            self._changed.wait_for(lambda: self._running < self._limit)
            self._running += 1
            mark = self._halvings
        try:
            yield mark
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def too_many(self, mark: int) -> None:
        """Halve the limit, unless it was halved since the call with this mark began."""
        with self._changed:
            if mark == self._halvings:
                self._limit = max(1, self._limit // 2)
                self._halvings += 1
                self._good = 0

    def good(self) -> None:
        """Count a call that the server answered; raise the limit by 1 after as many as it allows at once."""
        with self._changed:
            self._good += 1
            if self._good >= self._limit < self.maximum:
                self._limit += 1
                self._good = 0
                self._changed.notify_all()


# End asking early where going on cannot help: a wrong key, a wrong model, a server that is gone.


class Fuse:
    """Blows when told, and ends one call of `chat`. Threads share it."""

    def __init__(self) -> None:
        self._reason: str | None = None
        self._lock = threading.Lock()

    @property
    def reason(self) -> str | None:
        """Why nothing more is asked; None while asking goes on."""
        return self._reason

    def blow(self, reason: str) -> None:
        """Ask nothing more, for the first reason given."""
        with self._lock:
            self._reason = self._reason or reason


class Silence:
    """Ends asking after `most` requests in a row without an answer, in as many calls of `chat` as share it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._n = 0
        self._reason: str | None = None
        self._lock = threading.Lock()

    @property
    def reason(self) -> str | None:
        """Why nothing more is asked; None while asking goes on."""
        return self._reason

    def answered(self) -> None:
        """Note that the server lives."""
        with self._lock:
            self._n = 0

    def unanswered(self, reason: str) -> None:
        """Count a request to which no answer came after all retries."""
        with self._lock:
            self._n += 1
            if self._n >= self._most:
                self._reason = self._reason or f"not asked, since {self._n} requests before went unanswered: {reason}"
