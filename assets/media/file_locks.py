"""Locks on files that processes of a machine share. They end with the process that holds them."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import IO, Any


def is_same_file(file: IO[Any], path: Path) -> bool:
    """Return whether the path still leads to this open file; False where the path is gone or leads to another file."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def remove_unused_file(path: Path) -> bool:
    """Remove a file unless a process holds a lock on it; return whether it was removed. A file that is missing or
    cannot be opened gives False.
    """
    with suppress(OSError), path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
        return True
    return False
