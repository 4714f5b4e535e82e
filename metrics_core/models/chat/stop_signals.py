"""Stop asking a server where going on cannot help: a wrong key, a wrong model, a server that is gone."""

from __future__ import annotations

import threading


class StopSignal:
    """A signal that ends one call of `chat`; its threads share it. Once set, it stays set."""

    def __init__(self) -> None:
        self._reason: str | None = None
        self._lock = threading.Lock()

    @property
    def reason(self) -> str | None:
        """Return why no more requests are sent; None while asking goes on."""
        return self._reason

    def stop(self, reason: str) -> None:
        """Set the signal, so that no more requests are sent. The first reason given is kept."""
        with self._lock:
            self._reason = self._reason or reason


class SilenceCounter:
    """A counter of requests in a row that got no answer; at `most` of them it gives a `reason` to stop asking. Threads
    and `chat` calls share it.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._n = 0
        self._reason: str | None = None
        self._lock = threading.Lock()

    @property
    def reason(self) -> str | None:
        """Return why no more requests are sent; None while asking goes on. Once set, it stays."""
        return self._reason

    def reset(self) -> None:
        """Start counting from 0 again, since the server answered. A reason that is set already stays."""
        with self._lock:
            self._n = 0

    def count_silence(self, reason: str) -> None:
        """Count a request without an answer after all retries; at `most` in a row, set the reason to stop."""
        with self._lock:
            self._n += 1
            if self._n >= self._most:
                self._reason = (
                    self._reason or f"not sent, since the {self._n} requests before it got no answer: {reason}"
                )
