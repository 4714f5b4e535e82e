"""The two errors by which a command refuses with one sentence. Imports nothing, so that commands start fast."""

from __future__ import annotations


class UsageError(ValueError):
    """Raised for an argument that cannot be used; the message names the remedy, and the exit code is 2."""

    plain = True


class RequestRefused(RuntimeError):
    """Raised for a correct request that cannot be carried out now; the message names the remedy, and the exit code is
    1.
    """

    plain = True
