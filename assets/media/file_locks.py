"""Locks on files that processes of a machine share. They end with the process that holds them."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import IO, Any


def lock_file(file: IO[Any], how: int) -> None:
    """Take a shared or exclusive lock on an open file; wait while another process holds one that excludes it.

    how: `fcntl.LOCK_SH` or `fcntl.LOCK_EX`.
    """
    fcntl.flock(file, how)


def is_same_file(file: IO[Any], path: Path) -> bool:
    """Return whether the path still leads to this open file; False where it is gone or replaced."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def remove_unused_file(path: Path) -> bool:
    """Remove a file unless a process holds a lock on it; return whether it was removed."""
    with suppress(OSError), path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
        return True
    return False
