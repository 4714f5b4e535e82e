"""What a command refuses with one sentence. It imports nothing, so that a command's start does not wait for it."""

from __future__ import annotations


class UsageError(ValueError):
    """An argument that cannot be used."""

    plain = True


class RequestRefused(RuntimeError):
    """A correct request that cannot be carried out as things stand."""

    plain = True
