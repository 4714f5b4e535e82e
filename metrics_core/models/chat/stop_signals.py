"""When asking ends early, since going on cannot help: a wrong key, a wrong model, a server that is gone."""

from __future__ import annotations

import threading


class StopSignal:
    """Blows when told, and ends one call of `chat`. Threads share it."""

    def __init__(self) -> None:
        self._reason: str | None = None
        self._lock = threading.Lock()

    @property
    def reason(self) -> str | None:
        """Why nothing more is asked; None while asking goes on."""
        return self._reason

    def stop(self, reason: str) -> None:
        """Ask nothing more, for the first reason given."""
        with self._lock:
            self._reason = self._reason or reason


class SilenceCounter:
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

    def reset(self) -> None:
        """Note that the server lives."""
        with self._lock:
            self._n = 0

    def count_silence(self, reason: str) -> None:
        """Count a request to which no answer came after all retries."""
        with self._lock:
            self._n += 1
            if self._n >= self._most:
                self._reason = self._reason or f"not asked, since {self._n} requests before went unanswered: {reason}"
