"""Decide how often and after how long a request to a server is tried again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

RETRIED_STATUSES = frozenset({408, 409, 429})
"""Statuses, in addition to 5xx, after which the same request may succeed."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The limits of one request in tries and in seconds. transport_retries: after no connection, a timeout, 408, 409,
    429 or 5xx. content_retries: after an answer that is no valid JSON or was cut at its token limit. timeout_s: the
    longest silence of a server. deadline_s: for all tries and waits of a request. Raises ValueError for a number below
    its range.

    Every content retry is a fresh request with the next seed. The wait before transport retry n is drawn from [0,
    min(cap_s, base_s * 2^n)]; Retry-After makes it longer, up to retry_after_cap_s.
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
        """Return the seconds to wait before a transport retry: a random share of a limit that doubles with every retry,
        or longer if asked for. retry: counted from 0. drawn: the random share, in [0, 1). retry_after: seconds that the
        server asks for, or None; at most `retry_after_cap_s` of them count.

        >>> policy = RetryPolicy()
        >>> policy.compute_wait_s(3, 0.5, None), policy.compute_wait_s(0, 0.5, 7.0), policy.compute_wait_s(0, 0.0, 1e6)
        (2.0, 7.0, 60.0)
        """
        jitter = drawn * min(self.cap_s, self.base_s * 2.0**retry)
        return max(jitter, min(retry_after or 0.0, self.retry_after_cap_s))


def is_retried_status(status: int) -> bool:
    """Whether the same request may succeed after an answer of this HTTP status: 408, 409, 429 or 500 and above."""
    return status in RETRIED_STATUSES or status >= 500


def parse_retry_delay(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait from an answer's Retry-After header, at least 0; None without one that can be read. A
    date counts from the server's own Date, since our clock may differ. headers: by name in lower case.

    >>> parse_retry_delay({"retry-after": "3"})
    3.0
    """
    header = headers.get("retry-after", "").strip()
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(header) - parsedate_to_datetime(headers.get("date", ""))).total_seconds()
        except (ValueError, TypeError, OverflowError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None
