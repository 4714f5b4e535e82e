"""How often and how long a request to a server is tried again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

RETRIED_STATUSES = frozenset({408, 409, 429})
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

    def compute_wait_s(self, retry: int, drawn: float, retry_after: float | None) -> float:
        """Seconds before transport retry `retry`, counted from 0; drawn: a random number in [0, 1).

        >>> RetryPolicy().compute_wait_s(3, 0.5, None), RetryPolicy().compute_wait_s(0, 0.5, 7.0), RetryPolicy().compute_wait_s(0, 0.0, 1e6)
        (2.0, 7.0, 60.0)
        """
        jitter = drawn * min(self.cap_s, self.base_s * 2.0**retry)
        return max(jitter, min(retry_after or 0.0, self.retry_after_cap_s))


def is_retried_status(status: int) -> bool:
    """Whether the same request may succeed after an answer of this HTTP status."""
    return status in RETRIED_STATUSES or status >= 500


def parse_retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a server asks to wait; None where it does not say.

    A date counts from the server's own Date, since our clock may differ. One that no calendar has says nothing.

    >>> parse_retry_after({"retry-after": "3"})
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
